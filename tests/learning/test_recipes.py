"""Recipes: chains of a stack that are trained differently, each as if it were alone."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from uraenas.architectures import DISTRIBUTIONS, Dirichlet, Searched, queried
from uraenas.base.errors import UraenasError
from uraenas.data import LabelledImages, digits, stratified_split
from uraenas.data.augment import AUGMENTATIONS
from uraenas.data.loader import Loader, Normalisation
from uraenas.data.targets import CLASSES
from uraenas.engine import Engine, EngineSettings
from uraenas.learning.chains import ChainSpec, ChainState, TrainSettings, initial_chain
from uraenas.learning.recipes import RECIPES, Recipe, Varied
from uraenas.learning.train import Training, train
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline
from uraenas.spaces import CellSpace, Shape
from uraenas.weights import WEIGHTS

SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 10))
GENOTYPES = Searched.nothing(SPACE, Dirichlet()).draw(2, seed=3)[0]
WEIGHTS_OF_CHAINS = {
    "point": {"step_size": 0.05},
    "sghmc": {"step_size": 0.05, "cycles": 1, "samples": 1, "exploration": 0.5, "temperature": 0.5},
}


@pytest.fixture(scope="module")
def part() -> LabelledImages:
    whole = digits().train
    return whole.take(stratified_split(whole.labels, [120], key=2)[0])


def chain(kind: str, number: int, recipe: Recipe, factor: float = 1.0) -> ChainState:
    settings = WEIGHTS_OF_CHAINS[kind]
    weights = WEIGHTS[kind].make({**settings, "step_size": factor * settings["step_size"]})
    return initial_chain(ChainSpec("sampled", weights, number, GENOTYPES[number], recipe=recipe), SPACE, 9)


def trained(
    part: LabelledImages, chains: list[ChainState], deviation: float = 1.0, augmentations: Sequence[str] = ()
) -> dict[str, torch.Tensor]:
    settings = TrainSettings(epochs=2, batch=40, prior_deviation=deviation)
    changes = [AUGMENTATIONS[name].make({}) for name in augmentations]
    crops = (40, 1, False, torch.device("cpu"))
    loader = Loader(part, Normalisation.of(part.images), *crops, augmentations=changes, classes=10)
    engine, last = Engine(EngineSettings(device="cpu", precision="float32")), {}

    def keep(states: list[ChainState]) -> None:
        last.update({state.spec.name: state.tensors["weights"] for state in states})

    train(chains, Training(settings, SPACE, loader, engine, 9), lambda member: None, keep)
    return last


@pytest.mark.parametrize("kind", WEIGHTS_OF_CHAINS)
def test_a_recipe_is_the_same_as_other_settings(kind: str, part: LabelledImages) -> None:
    """Beside a plain chain, which is not changed by it. Powers of two leave no rounding."""
    recipe = Recipe(step_size=2.0, prior_deviation=0.5)
    together = trained(part, [chain(kind, 0, Recipe()), chain(kind, 1, recipe)])
    plain = trained(part, [chain(kind, 0, Recipe())])
    other = trained(part, [chain(kind, 1, Recipe(), factor=2.0)], deviation=0.5)
    name, second = sorted(together)
    assert torch.equal(together[name], plain[name])
    if kind == "point":
        assert torch.equal(together[second], other[second])
    else:  # the noise is scaled by the root of 2 once before, once after
        torch.testing.assert_close(together[second], other[second], rtol=1e-4, atol=1e-5)


def test_the_peak_of_a_recipe_is_that_of_the_sampling_stage(part: LabelledImages) -> None:
    """Of two epochs one explores. Without noise the second is a descent with another step size."""
    settings = {"cycles": 1, "samples": 1, "exploration": 0.5, "peak": 0.25, "temperature": 0.0}
    plain, higher = (
        WEIGHTS["sghmc"].make({**settings, "peak": peak, "step_size": 0.05}) for peak in (0.25, 0.5)
    )
    chains = [
        initial_chain(ChainSpec("sampled", kind, 0, GENOTYPES[0], recipe=recipe), SPACE, 9)
        for kind, recipe in ((plain, Recipe(peak=2.0)), (higher, Recipe()), (plain, Recipe()))
    ]
    by_recipe, by_setting, neither = (next(iter(trained(part, [one]).values())) for one in chains)
    assert torch.equal(by_recipe, by_setting)
    assert not torch.equal(by_recipe, neither)


def test_a_peak_needs_a_sampling_stage() -> None:
    peak = {"train.varied.peak": "0.5,2", "train.sampling.peak": 0.5}
    found = preset("digits", {"methods": "joint", **peak})
    assert (
        len({recipe.peak for recipe in found.method("joint").recipes.draw(dict.fromkeys(range(9)), 1, None)})
        == 9
    )
    with pytest.raises(
        UraenasError, match=r"train\.varied\.peak = .* point has no sampling stage, and takes 1,1"
    ):
        preset("digits", {"methods": "hyper-ensemble", "train.varied.peak": "0.5,2"})


def test_a_smoothed_chain_is_the_same_alone(part: LabelledImages) -> None:
    chains = [chain("point", 0, Recipe(smoothing=0.1)), chain("point", 1, Recipe())]
    together = trained(part, chains)
    for one in chains:
        assert torch.equal(together[one.spec.name], trained(part, [one])[one.spec.name])
    assert not torch.equal(
        together[chains[0].spec.name], trained(part, [chain("point", 0, Recipe())])[chains[0].spec.name]
    )


def test_weights_of_images_are_those_of_smoothing_too_where_labels_are_mixed(part: LabelledImages) -> None:
    """Beside mixed images, those of the augmentation `none` have class probabilities for labels, and are as ever."""
    weighted = replace(part, weights=np.linspace(0, 3, len(part), dtype=np.float32))
    chains = [chain("point", 0, Recipe(smoothing=0.3, augmentation=0.0))]
    (plain,), (beside_mixed,) = (
        trained(weighted, chains, augmentations=names).values() for names in ((), ("none", "mixup"))
    )
    torch.testing.assert_close(plain, beside_mixed)


@pytest.mark.parametrize("weighted", [False, True])
def test_smoothing_is_pytorchs(weighted: bool) -> None:
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 7, 5, generator=random, dtype=torch.float64)
    labels = torch.randint(0, 5, (2, 7), generator=random)
    weights = torch.rand(2, 7, generator=random, dtype=torch.float64) if weighted else None
    shares = torch.tensor([0.0, 0.3], dtype=torch.float64)
    found = CLASSES.smoothed(CLASSES.loss(logits, labels, weights), logits, weights, shares)
    for m, share in enumerate(shares.tolist()):
        losses = F.cross_entropy(logits[m], labels[m], reduction="none", label_smoothing=share)
        expected = (losses if weights is None else losses * weights[m]).mean()
        torch.testing.assert_close(found[m], expected)


def test_draws_are_keyed_and_within_their_bounds() -> None:
    way = Varied(step_size=(0.25, 4.0))
    chains = dict.fromkeys(range(400), GENOTYPES[0])
    drawn = way.draw(chains, 1, None)
    assert drawn[:5] == way.draw(dict.fromkeys(range(5), GENOTYPES[0]), 1, None)
    assert drawn[7:9] == way.draw(dict.fromkeys([7, 8], GENOTYPES[1]), 1, None)
    assert drawn != way.draw(chains, 2, None)
    logs = [math.log2(one.step_size) for one in drawn]
    assert -2 <= min(logs) < -1.9
    assert 1.9 < max(logs) <= 2
    assert abs(sum(logs) / 400) < 0.2
    assert all(0 <= one.smoothing <= 0.01 and 0.5 <= one.prior_deviation <= 2 for one in drawn)
    kinds = [one.kind(3) for one in drawn]
    assert all(100 < kinds.count(kind) < 170 for kind in range(3))
    one_each = Varied(augmentation=False).draw(chains, 1, None)
    assert {one.kind(3) for one in one_each} == {None}


@pytest.mark.parametrize("bounds", [(1.0,), (2.0, 1.0), (0.0, 1.0), (1.0, 1e9)])
def test_bounds_that_are_none_are_refused(bounds: tuple[float, ...]) -> None:
    for part in (RECIPES["varied"], DISTRIBUTIONS["agebo"]):
        with pytest.raises(UraenasError, match="a lower and an upper bound"):
            part.make({"step_size": bounds})


def test_a_learned_recipe_is_the_best_that_trained_its_architecture() -> None:
    """The first was trained twice; one that was never trained gets the best of all."""
    here = DISTRIBUTIONS["agebo"].make()
    state = queried.told(
        here.initial((5,) * 6, 0),
        [(3,) * 6, (2,) * 6, (3,) * 6],
        [0.5, 0.9, 0.7],
        [(0.5, 1.0), (2.0, 0.25), (4.0, 3.0)],
    )
    chains = {number: SPACE.architecture((option,) * 6) for number, option in enumerate((3, 2, 1))}
    drawn = RECIPES["learned"].make().draw(chains, 1, Searched(SPACE, here, state))
    assert drawn == [Recipe(4.0, 3.0), Recipe(2.0, 0.25), Recipe(2.0, 0.25)]
    with pytest.raises(UraenasError, match="needs a search that asks for recipes"):
        RECIPES["learned"].make().draw(chains, 1, Searched.nothing(SPACE, Dirichlet()))


def test_methods_with_recipes_run(tmp_path: Path) -> None:
    changes = {"methods": "hyper-ensemble,joint,deep-ensemble", "evaluate.suite": "none", "data.limit": 100}
    pipeline = Pipeline.start(
        tmp_path / "run", preset("tiny", {**changes, "train.varied.smoothing": "0,0.2"})
    )
    pipeline.forecast()
    pipeline.train(pipeline.search())
    rows = pipeline.evaluate().rows
    assert {row.method for row in rows} == set(changes["methods"].split(","))
    names = pipeline.run.chains.names()
    assert "varied-expected-point-00" in names
    assert "expected-point-00" in names
    assert any(name.startswith("varied-sampled-") for name in names)
