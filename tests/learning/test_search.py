"""The search: it learns, equals a plain loop of Algorithm 1, and goes on bit for bit where it was cut off."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from uraenas.architectures import Dirichlet, dirichlet
from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data import digits, stratified_split
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.learning.loops import search
from uraenas.learning.search import (
    SUPERNET_WEIGHTS,
    Search,
    SearchParts,
    SearchSettings,
    SearchState,
    initial_state,
)
from uraenas.spaces import CellSpace, Shape, Supernet

SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 10))
SEED = 5
STEPS = {"step_size": 0.1, "floor": 0.01}
SAMPLING = {**STEPS, "cycles": 2, "exploration": 0.5, "temperature": 0.1}
ENGINES = {dtype: Engine(EngineSettings(device="cpu", precision=dtype)) for dtype in ("float32", "float64")}


def parts(
    epochs: int = 4,
    weights: str = "sghmc",
    sampling: dict | None = None,
    learning: dict | None = None,
    **settings: float,
) -> SearchParts:
    """A short search with some of its settings changed."""
    own = STEPS if weights == "point" else {**SAMPLING, **(sampling or {})}
    return SearchParts(
        SearchSettings(**{"epochs": epochs, "batch": 50, "prior_deviation": 1.0, **settings}),
        Dirichlet(**{"step_size": 0.05, **(learning or {})}),
        SUPERNET_WEIGHTS[weights].make(own),
    )


@pytest.fixture(scope="module")
def halves() -> tuple:
    """Two small halves of the digits' training set."""
    part = digits().train
    return tuple(part.take(index) for index in stratified_split(part.labels, [150, 120], key=1))


def begin(
    halves: tuple,
    chosen: SearchParts | None = None,
    state: SearchState | None = None,
    dtype: str = "float32",
) -> Search:
    chosen, engine = chosen or parts(), ENGINES[dtype]
    normalisation = Normalisation.of(halves[0].images)
    train, validation = (
        Loader(part, normalisation, chosen.settings.batch, 1, False, engine.device, engine.dtype)
        for part in halves
    )
    return Search(chosen, SPACE, train, validation, engine, SEED, state)


def run(searching: Search, epochs: int | None = None) -> SearchState:
    for _ in range(searching.settings.epochs - searching.epoch if epochs is None else epochs):
        searching.advance()
    return searching.snapshot()


def assert_same(first: SearchState, second: SearchState) -> None:
    assert first.epoch == second.epoch
    assert first.history == second.history
    ours, theirs = tensors(first), tensors(second)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


def tensors(state: SearchState) -> dict[str, torch.Tensor]:
    return {**state.weights, **state.distribution}


@pytest.fixture(scope="module")
def whole(halves: tuple) -> Search:
    """A search that nothing has disturbed."""
    searching = begin(halves)
    run(searching)
    return searching


def test_a_few_epochs_lower_the_loss(halves: tuple) -> None:
    longer = parts(epochs=12, batch=25, sampling={"temperature": 1e-3, "cycles": 1})
    history = run(begin(halves, longer)).history
    assert history[-1]["train_loss"] < 0.8 * history[0]["train_loss"]
    assert history[-1]["validation_loss"] < 0.9 * history[0]["validation_loss"]
    assert history[-1]["kl_to_uniform"] > 10 * history[0]["kl_to_uniform"] > 0


def test_a_search_cut_off_and_gone_on_with_equals_an_undisturbed_one(halves: tuple, whole: Search) -> None:
    cut = run(begin(halves), 3)
    assert_same(run(begin(halves, state=cut)), whole.snapshot())


def test_a_search_leaves_the_state_that_it_starts_from_as_it_was(halves: tuple) -> None:
    """Two searches from one state must be the same, whatever the first has done meanwhile."""
    cut = run(begin(halves), 1)
    before = {name: tensor.clone() for name, tensor in tensors(cut).items()}
    first = run(begin(halves, state=cut), 1)
    for name, tensor in before.items():
        assert torch.equal(tensors(cut)[name], tensor), name
        assert not tensors(cut)[name].requires_grad
    assert_same(run(begin(halves, state=cut), 1), first)


def test_the_loop_shows_every_epoch_tells_every_step_and_ends(halves: tuple) -> None:
    seen, told = [], []
    found = search(begin(halves), seen.append, lambda *progress: told.append(progress))
    assert [state.epoch for state in seen] == [1, 2, 3, 4]
    assert told == [(step, 12) for step in range(1, 13)]
    assert all(torch.equal(tensor, seen[-1].distribution[name]) for name, tensor in found.state.items())
    assert list(found.history) == seen[-1].history
    assert [row["epoch"] for row in found.history] == [0, 1, 2, 3]


def test_checkpoints_are_copies(halves: tuple) -> None:
    searching = begin(halves)
    early = run(searching, 1)
    before = {name: tensor.clone() for name, tensor in tensors(early).items()}
    run(searching, 1)
    for name, tensor in before.items():
        assert torch.equal(tensors(early)[name], tensor), name
    assert len(early.history) == 1


# Algorithm 1 in plain words


def plain_search(halves: tuple, chosen: SearchParts) -> dict[str, torch.Tensor]:
    """The search as one would write it with torch's Adam, without any of the engine's care for speed."""
    searching = begin(halves, chosen, dtype="float64")  # for its loaders only
    settings, learning, method = chosen.settings, chosen.distribution, chosen.weights
    start = initial_state(SPACE, chosen, SEED)
    supernet = Supernet(SPACE).double()
    with torch.no_grad():
        supernet.weights.copy_(start.weights["weights"])
    raw = start.distribution["raw"].clone().requires_grad_()
    decay = learning.regulariser_weight if learning.regulariser == "l2" else 0.0
    adam = torch.optim.Adam([raw], learning.step_size, learning.betas, weight_decay=decay)
    velocity = torch.zeros_like(supernet.weights)
    images_N = len(halves[0])
    point, momentum = method.trajectory == "point", method.momentum
    step = 0
    for epoch in range(settings.epochs):
        drawn = {
            part: loader.draw([draws.key(SEED, "search", part)], epoch)
            for part, loader in (("train", searching.train), ("validation", searching.validation))
        }

        def loss(part: str, purpose: str, step: int) -> torch.Tensor:
            loader = searching.train if part == "train" else searching.validation
            images, labels, _ = loader.batch_at(drawn[part], step % loader.steps)  # noqa: B023
            mixing = dirichlet.sample(F.elu(raw) + 1, draws.at(draws.key(SEED, "search", purpose), step))
            return F.cross_entropy(supernet(images[0], mixing), labels[0])

        for _ in range(searching.train.steps):
            objective = loss("validation", "architecture θ", step)
            if learning.regulariser == "kl":
                flat = torch.distributions.Dirichlet(torch.ones_like(raw))
                learned = torch.distributions.Dirichlet(F.elu(raw) + 1)
                kl = torch.distributions.kl_divergence(learned, flat).sum()
                objective = objective + learning.regulariser_weight * kl
            raw.grad = torch.autograd.grad(objective, raw)[0]
            adam.step()

            supernet.weights.grad = torch.autograd.grad(loss("train", "weights θ", step), supernet.weights)[0]
            if settings.clip:
                torch.nn.utils.clip_grad_norm_([supernet.weights], settings.clip)
            gradient = supernet.weights.grad + supernet.weights.detach() / (
                images_N * settings.prior_deviation**2
            )
            cycles = 1 if point else method.cycles
            length = settings.epochs * searching.train.steps // cycles
            position = step % length / length
            span = method.step_size - method.floor
            alpha = method.floor + span / 2 * (math.cos(math.pi * position) + 1)
            velocity = momentum * velocity - alpha * gradient
            if not point and position >= method.exploration:
                deviation = math.sqrt(2 * (1 - momentum) * alpha * method.temperature / images_N)
                key = draws.at(draws.key(SEED, "search", "noise"), step)
                velocity = velocity + deviation * draws.normal(key, len(velocity), torch.float64)
            with torch.no_grad():
                supernet.weights += velocity
            step += 1
    return {"raw": raw.detach(), "weights": supernet.weights.detach(), "velocity": velocity}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"weights": "sgld", "learning": {"regulariser": "kl"}},
        {"weights": "point", "learning": {"regulariser": "none"}, "clip": 0.0},
        {"learning": {"regulariser_weight": 0.5}, "clip": 0.05},
    ],
    ids=str,
)
def test_the_search_equals_a_plain_loop_of_algorithm_1(halves: tuple, changes: dict) -> None:
    chosen = parts(epochs=2, **changes)
    ours = tensors(run(begin(halves, chosen, dtype="float64")))
    begun = tensors(initial_state(SPACE, chosen, SEED))
    for name, expected in plain_search(halves, chosen).items():
        # 1e-4: torch adds 1e-6 to the norm that it clips by; else the two differ by rounding alone
        tolerance = 1e-4 if 0 < chosen.settings.clip < 1 else 1e-8
        torch.testing.assert_close(ours[name], expected, rtol=tolerance, atol=tolerance)
        assert not torch.equal(ours[name], begun[name].double())


def test_choices_change_the_outcome(halves: tuple) -> None:
    """Each of these settings does something."""
    choices: list[dict] = [
        {},
        {"weights": "point"},
        {"weights": "sgld"},
        {"learning": {"regulariser": "kl", "regulariser_weight": 0.5}},
        {"learning": {"regulariser": "none"}},
        {"clip": 0.05},
    ]

    def outcome(sampling: dict | None = None, **choice: object) -> torch.Tensor:
        chosen = parts(epochs=2, sampling={"cycles": 1, **(sampling or {})}, **choice)
        return run(begin(halves, chosen)).distribution["raw"]

    outcomes = [outcome(**choice) for choice in choices]
    for number, one in enumerate(outcomes):
        assert not any(torch.equal(one, other) for other in outcomes[:number]), choices[number]
    assert torch.equal(outcome({"temperature": 0.0}), outcomes[1])  # DrNAS's own search


def test_a_strong_regulariser_holds_the_concentration_at_one(halves: tuple) -> None:
    free, *held = (
        run(begin(halves, parts(learning={"regulariser": regulariser, "regulariser_weight": 100.0})))
        for regulariser in ("none", "l2", "kl")
    )
    for state in held:
        assert state.history[-1]["kl_to_uniform"] < 0.3 * free.history[-1]["kl_to_uniform"]


def test_the_start_is_almost_uniform_and_a_function_of_the_seed() -> None:
    first, again, other = (initial_state(SPACE, parts(), seed) for seed in (1, 1, 2))
    raw = first.distribution["raw"]
    assert torch.equal(raw, again.distribution["raw"])
    assert not torch.equal(raw, other.distribution["raw"])
    assert not torch.equal(first.weights["weights"], other.weights["weights"])
    assert 2e-4 < raw.std() < 2e-3
    assert dirichlet.kl_to_uniform(dirichlet.concentration_of(raw)).max() < 1e-3


def test_the_history_tells_what_happened(whole: Search) -> None:
    state, found = whole.snapshot(), whole.found()
    last = state.history[-1]
    concentration = dirichlet.concentration_of(state.distribution["raw"])
    np.testing.assert_array_equal(last["concentration"], concentration.numpy())
    assert torch.equal(found.favour, concentration)
    assert last["genotype"] == str(found.expected)
    assert last["entropy"] == pytest.approx(float(dirichlet.entropy(concentration).sum()))
    momentum, steps = 0.9, 3
    position = (2 * steps - 1) / (2 * steps)  # the last step of a cycle of two epochs
    alpha = 0.01 + 0.09 / 2 * (math.cos(math.pi * position) + 1)
    assert last["step_size"] == pytest.approx(alpha)
    assert last["noise_deviation"] == pytest.approx(math.sqrt(2 * (1 - momentum) * alpha * 0.1 / 150))
    assert state.history[0]["noise_deviation"] == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_reported_with_step_and_step_size(halves: tuple, bad: float) -> None:
    cut = run(begin(halves), 2)
    weights = cut.weights["weights"].clone()
    weights[10] = bad
    searching = begin(halves, state=replace(cut, weights={**cut.weights, "weights": weights}))
    with pytest.raises(UraenasError, match=r"not finite in epoch 2 \(step 8, step size 0\.0\d+\)"):
        searching.advance()


def test_an_image_of_weight_0_teaches_nothing(halves: tuple) -> None:
    part = halves[0]
    weights = np.ones(len(part), np.float32)
    weights[::2] = 0
    labels = part.labels.copy()
    labels[::2] = 0
    right, wrong = replace(part, weights=weights), replace(part, labels=labels, weights=weights)
    first, second = (run(begin((train, halves[1])), 1) for train in (right, wrong))
    assert_same(first, second)
    unweighted = run(begin((replace(part, labels=labels), halves[1])), 1)
    assert not torch.equal(unweighted.weights["weights"], first.weights["weights"])


def test_the_losses_of_a_short_search_are_pinned(halves: tuple) -> None:
    """In double precision, so that the pin holds on other machines."""
    history = run(begin(halves, dtype="float64")).history
    found = [round(row[name], 7) for row in history for name in ("train_loss", "validation_loss")]
    assert found == pytest.approx(GOLDEN, abs=1e-5), str(found)


GOLDEN = [2.3550821, 2.3541911, 2.3015912, 2.313861, 2.3238687, 2.309427, 2.2520776, 2.2374712]
