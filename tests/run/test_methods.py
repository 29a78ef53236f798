"""The table of methods: every setting that a method has changes what it does."""

from functools import cache
from typing import Any

import pytest
import torch

from uraenas.architectures import Dirichlet, Searched, queried
from uraenas.architectures.agebo import Agebo
from uraenas.base.errors import UraenasError
from uraenas.ensemble import EnsembleSettings
from uraenas.learning.chains import plan_chains
from uraenas.learning.methods import METHODS, Assembled, method
from uraenas.run.config import Config, build, override
from uraenas.spaces import CellSpace, Draw, Shape, Stack
from uraenas.weights import WEIGHTS, Seen, Step, WeightMethod

SPACE, SMALL = CellSpace(), CellSpace(channels=2, cells=1, shape=Shape(4, 4, 1, 3))
SEARCHED = Searched(
    SPACE,
    Dirichlet(),
    {"raw": torch.tensor([-0.5, 0.0, 0.0, 1.0, -0.5], dtype=torch.float64).expand(6, 5)},
)
TRAINED = [(3, 1, 3, 2, 1, 3), (2, 0, 3, 3, 1, 1), (3, 3, 0, 1, 2, 3)]
ASKED = Searched(SPACE, Agebo(), queried.told(Agebo().initial((5,) * 6, 0), TRAINED, [0.7, 0.8, 0.9]))
GENOTYPE = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_3x3~2|"
OTHERWISE = {
    "ensemble.members": 5,
    "ensemble.selection": "greedy",
    "ensemble.candidates": 30,
    "train.epochs": 100,
    "train.batch": 64,
    "train.folds": 3,
    "train.prior_deviation": 1.0,
    "train.class_weights": "balanced",
    "train.teacher": "cifar10",
    "train.teacher_method": "uraenas-swa",
    "train.augmentation": "cutout",
    "train.expected.genotype": GENOTYPE,
    "train.sampled.architectures": 20,
    "train.sampled.temperature": 0.01,
    "train.sampled.draw_none": False,
    "train.sampled.copies": 2,
    "train.sampled.start": "cifar10",
    "train.uniform.draw_none": False,
    "train.varied.step_size": (1.0, 2.0),
    "train.varied.peak": (1.0, 2.0),
    "train.varied.prior_deviation": (1.0, 2.0),
    "train.varied.smoothing": (0.0, 0.2),
    "train.varied.augmentation": False,
    "train.point.step_size": 0.05,
    "train.point.momentum": 0.5,
    "train.point.floor": 0.01,
    "train.sampling.step_size": 0.05,
    "train.sampling.momentum": 0.5,
    "train.sampling.floor": 0.01,
    "train.sampling.cycles": 2,
    "train.sampling.samples": 2,
    "train.sampling.exploration": 0.5,
    "train.sampling.peak": 0.2,
    "train.sampling.temperature": 1.0,
    "train.sampling.mean_of": 2,
    **{
        f"train.{section}.{name}": value
        for section in {part.made.section for part in WEIGHTS.values()} - {"point", "sampling"}
        for name, value in (
            ("step_size", 0.05),
            ("momentum", 0.5),
            ("floor", 0.01),
            ("keep", 0.9),
            ("draws", 3),
        )
    },
    "train.adam.first": 0.5,
    "train.adam.second": 0.9,
    "train.batch_ensemble.size": 2,
    "train.batch_ensemble.repeats": 2,
    "train.batch_ensemble.spread": 0.1,
    "train.rank_one.size": 2,
    "train.rank_one.repeats": 2,
    "train.rank_one.spread": 0.1,
    "train.rank_one.deviation": 0.1,
    "train.rank_one.prior": 0.3,
    "train.mimo.inputs": 2,
    "train.mimo.repeats": 2,
    "train.mimo.alike": 0.5,
    "train.variational.deviation": 0.1,
    "train.variational.prior": 0.3,
    "train.variational.annealing": 0.9,
    "train.ssig.deviation": 0.1,
    "train.ssig.prior": 0.3,
    "train.ssig.inclusion": 0.3,
    "train.sebays.deviation": 0.1,
    "train.sebays.prior": 0.3,
    "train.sebays.inclusion": 0.3,
    "train.sebays.peak": 0.3,
    "train.sebays.exploration": 0.7,
    "train.sebays.samples": 2,
    "train.point.curvature": "full",
    "train.point.precision": 3.0,
    "train.point.draws": 3,
    "train.swag.level": 0.3,
    "train.swag.exploration": 0.7,
    "train.swag.samples": 10,
    "train.swag.rank": 3,
    "train.swag.scale": 1.0,
    "train.fge.peak": 0.3,
    "train.fge.exploration": 0.7,
    "train.fge.samples": 5,
    "train.dropout.rate": 0.3,
    "train.dropout.per": "value",
    "train.dropout.repeats": 2,
    "train.dropconnect.rate": 0.3,
    "train.dropconnect.layers": "dense",
}


@cache  # most settings are not of the weights
def moves(weights: WeightMethod, epochs: int) -> tuple[Any, ...]:
    """How a chain of this kind goes, and what members it gives."""
    cycle = weights.cycle(epochs, 2)
    steps = [(cycle.step_size_at(k), cycle.samples_at(k)) for k in range(cycle.steps)]
    state = {name: torch.ones(1) for name in ("weights", *weights.state)}
    after = weights.update(state, torch.ones(1), Step(torch.tensor(0), torch.tensor([0.1]), exploring=True))
    kept = [epoch for epoch in range(epochs) if cycle.collects_after(epoch)][::-1]
    samples = [torch.tensor([float(epoch)]) for epoch in kept]
    members = weights.candidates(samples, [cycle.number(epoch) for epoch in kept], key=5)
    given = [(one.samples, one.draw, None if one.weights is None else one.weights.item()) for one in members]
    moved = {name: tensor.item() for name, tensor in after.items()}
    return steps, moved, weights.noise_deviation(0.1, 1000), kept, given, *passed(weights)


def passed(weights: WeightMethod) -> tuple[Any, ...]:
    """What it makes of an image in training, what it repeats, and what comes to its weights afterwards."""
    stack = Stack([SMALL.parse(GENOTYPE)], SMALL, weights.changes.layout).train()
    stack.initialise([1])
    images, draw = torch.linspace(-1, 1, 2 * 16).view(1, 2, 1, 4, 4), Draw(torch.tensor(3))
    images = torch.cat([images] * weights.changes.repeats, dim=1)
    logits = stack.run([0], stack.weights, images, weights.forward, [draw])
    penalty, views = weights.changes.penalty, stack.weight_layouts[0].views(stack.weights.detach())
    added = penalty and penalty(views, torch.tensor(0.5), 100).item()
    (layout,), fitted = stack.weight_layouts, {}
    if weights.changes.fit is not None:
        seen = Seen(torch.linspace(-1, 2, 5 * 8).view(5, 8), torch.linspace(0, 1, 15).view(5, 3), None)
        fitted = weights.changes.fit(layout.views(stack.weights.detach()), layout, seen)
    after = {name: tensor.abs().sum().item() for name, tensor in fitted.items()}
    return logits.flatten().tolist(), weights.changes.repeats, added, after


@cache
def drawn(chosen: Assembled, ensemble: EnsembleSettings) -> list[tuple[Any, ...]]:
    searched = ASKED if chosen.recipes.from_search else SEARCHED
    plan, _ = plan_chains(chosen, ensemble, SPACE, searched, seed=0)
    return [(spec.name, spec.architecture, spec.recipe) for spec in plan]


def what_is_done(config: Config, name: str) -> tuple[Any, ...]:
    """All that the members of a method depend on."""
    chosen = config.method(name)
    train = config.train
    return (
        drawn(chosen, config.ensemble),
        chosen.source.start,  # test_starts.py says what it does
        moves(chosen.weights, train.epochs),
        train.epochs,
        train.batch,
        train.decay(1000),
        train.class_weights,  # test_division.py says what they do
        train.folds,  # test_panels.py says what they do
        train.augmentation,  # test_augmented_runs.py says what it does
        (train.teacher, train.teacher_method),  # test_distillation.py says what they do
        config.ensemble,
    )


@pytest.mark.parametrize("name", METHODS)
def test_no_method_has_a_setting_of_training_that_changes_nothing(name: str) -> None:
    """Some do something in a greedy selection alone, such as how many chains it has to choose from."""
    plain = build({"methods": name, "train.epochs": 64})
    ways = [plain]
    if "ensemble.selection" in plain.values:
        ways.append(override(plain, {"ensemble.selection": "greedy"}))
    before = [what_is_done(way, name) for way in ways]
    for key in (key for key in plain.values if key.startswith(("train.", "ensemble."))):
        if key == "train.varied.peak" and name != "joint":
            continue  # refused where there is no sampling stage
        pairs = [*zip(ways, before, strict=True)][-1 if key == "ensemble.candidates" else 0 :]
        assert any(what_is_done(override(way, {key: OTHERWISE[key]}), name) != one for way, one in pairs), key


def test_a_method_without_a_name_of_its_own_is_called_by_its_choices() -> None:
    sgld = build({"methods": "expected-sgld"}).method("expected-sgld")
    assert (sgld.row.source, sgld.weights.momentum, sgld.chains) == ("expected", 0.0, "expected-sgld-")
    assert method("sampled-sghmc") == METHODS["uraenas"]
    with pytest.raises(UraenasError, match="unknown kind of weights 'adamant'"):
        method("expected-adamant")
    for name in ("expected", "given-point", "sgld"):
        with pytest.raises(UraenasError, match=f"unknown method '{name}'"):
            method(name)
