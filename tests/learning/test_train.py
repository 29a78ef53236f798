"""Training: a member of a stack is the member trained alone, chains resume bit for bit, and fail alone."""

import contextlib
import math
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from uraenas.architectures import Dirichlet, Searched
from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data import LabelledImages, digits, stratified_split
from uraenas.data.loader import EpochDraws, Loader, Normalisation, Teacher
from uraenas.engine import Engine, EngineSettings, Gradients, Wrapping, naming_want_of_memory
from uraenas.ensemble import Ensemble, Kind, Member, MembersPredictor, Origin
from uraenas.learning.chains import RESTARTS, ChainSpec, ChainState, TrainSettings, initial_chain
from uraenas.learning.teaching import EnsembleTeacher
from uraenas.learning.train import MOST_LOSS, StackOfChains, Training, stacks_of, train
from uraenas.spaces import CellSpace, Shape, Stack
from uraenas.weights import WEIGHTS

SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 10))
SEED = 9
SETTINGS = TrainSettings(epochs=4, batch=50, prior_deviation=1.0)
CYCLES = {"step_size": 0.05, "cycles": 2, "samples": 1, "exploration": 0.5}
KINDS: dict[str, Mapping[str, Any]] = {
    "point": {"step_size": 0.05},
    "sghmc": {**CYCLES, "temperature": 0.5},
    "snapshot": CYCLES,
    "heads": {"step_size": 0.05, "architectures": (0, 0, 1)},
}
BOTH = ("sghmc", "point")
EACH = (*BOTH, "heads")  # the last learns from a teacher of three members
GENOTYPES = Searched.nothing(SPACE, Dirichlet()).draw(3, seed=3)[0]


@pytest.fixture(scope="module")
def part() -> LabelledImages:
    whole = digits().train
    return whole.take(stratified_split(whole.labels, [160], key=2)[0])


def engine(stack: int = 10, dtype: str = "float32") -> Engine:
    return Engine(EngineSettings(device="cpu", precision=dtype, stack=stack))


def loader_for(
    part: LabelledImages, dtype: torch.dtype = torch.float32, teacher: Teacher | None = None
) -> Loader:
    where = (torch.device("cpu"), dtype)
    units = Normalisation.of(part.images)
    return Loader(part, units, SETTINGS.batch, 1, False, *where, teacher=teacher)


def teacher(part: LabelledImages) -> EnsembleTeacher:
    """Three networks as they are at the start."""
    members = []
    for state in chains("point"):
        weights, statistics = state.tensors["weights"], state.tensors["statistics"]
        origin = Origin(state.spec.name, 0, 0, 0)
        members.append(Member(state.spec.architecture, weights, statistics, origin))
    classes, units = tuple("0123456789"), Normalisation.of(part.images)
    return EnsembleTeacher(Ensemble(tuple(members), SPACE, units, classes), engine())


def chains(kind: str = "sghmc", count: int = 3, **changes: float) -> list[ChainState]:
    weights = WEIGHTS[kind].make({**KINDS[kind], **changes})
    specs = [ChainSpec("sampled", weights, n, GENOTYPES[n]) for n in range(count)]
    return [initial_chain(spec, SPACE, SEED) for spec in specs]


def run(
    part: LabelledImages, states: list[ChainState], stack: int = 10, settings: TrainSettings = SETTINGS,
    stop_after: int = 10**9, on: Engine | None = None,
) -> tuple[dict[str, ChainState], list[Member]]:  # fmt: skip
    """Train to the end, or until so many checkpoints were made; the last state of each chain, and all samples."""
    last: dict[str, ChainState] = {state.spec.name: state for state in states}
    collected: list[Member] = []
    seen = 0

    class Cut(Exception):
        pass

    def checkpoint(now: list[ChainState]) -> None:
        nonlocal seen
        last.update({state.spec.name: state for state in now})
        seen += 1
        if seen == stop_after:
            raise Cut

    taught = states[0].spec.weights.changes.heads
    loader = loader_for(part, teacher=teacher(part) if taught else None)
    with contextlib.suppress(Cut):
        training = Training(settings, SPACE, loader, on or engine(stack), SEED)
        train(states, training, collected.append, checkpoint)
    return last, collected


def assert_same(first: ChainState, second: ChainState) -> None:
    assert (first.spec.name, first.epoch, first.failure) == (second.spec.name, second.epoch, second.failure)
    assert first.restarts == second.restarts
    assert first.history == second.history
    for name, tensor in first.tensors.items():
        assert torch.equal(tensor, second.tensors[name]), name


def assert_same_members(first: list[Member], second: list[Member]) -> None:
    def by_origin(members: list[Member]) -> list[Member]:
        return sorted(members, key=lambda member: (member.origin.chain, member.origin.epoch))

    assert len(first) == len(second)
    for one, other in zip(by_origin(first), by_origin(second), strict=True):
        assert (one.architecture, one.origin) == (other.architecture, other.origin)
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.statistics, other.statistics)


@pytest.fixture(scope="module")
def undisturbed(part: LabelledImages) -> dict[str, tuple[dict[str, ChainState], list[Member]]]:
    return {weights: run(part, chains(weights)) for weights in EACH}


@pytest.mark.parametrize("weights", EACH)
def test_members_of_a_stack_equal_members_trained_alone_bit_for_bit(
    part: LabelledImages, undisturbed: dict, weights: str
) -> None:
    together, samples = undisturbed[weights]
    alone, alone_samples = run(part, chains(weights), stack=1)
    for name, state in together.items():
        assert_same(state, alone[name])
    assert_same_members(samples, alone_samples)
    assert len({tuple(state.tensors["weights"][:5].tolist()) for state in together.values()}) == 3


@pytest.mark.parametrize("weights", EACH)
def test_chains_cut_off_and_gone_on_with_equal_undisturbed_ones(
    part: LabelledImages, undisturbed: dict, weights: str
) -> None:
    whole, samples = undisturbed[weights]
    cut, before = run(part, chains(weights), stop_after=3)
    assert {state.epoch for state in cut.values()} == {3}
    resumed, after = run(part, list(cut.values()))
    for name, state in whole.items():
        assert_same(state, resumed[name])
    assert_same_members(before + after, samples)


def test_samples_are_kept_after_the_last_epochs_of_each_cycle(undisturbed: dict) -> None:
    for weights, expected in (("sghmc", [(1, 0, 6), (3, 1, 12)]), ("point", [(3, 0, 12)])):
        states, members = undisturbed[weights]
        for name, state in states.items():
            own = [member for member in members if member.origin.chain == name]
            assert [(one.origin.epoch, one.origin.cycle, one.origin.step) for one in own] == expected
            assert all(one.kind == Kind.of(weights, state.spec.weights) for one in own)
            last = next(m for m in members if m.origin.chain == name and m.origin.epoch == 3)
            assert torch.equal(last.weights, state.tensors["weights"])
            assert torch.equal(last.statistics, state.tensors["statistics"])


def test_a_cycle_can_give_several_samples(part: LabelledImages) -> None:
    _, members = run(part, chains(count=1, samples=2, exploration=0.2))
    assert [member.origin.epoch for member in members] == [0, 1, 2, 3]


def test_the_history_tells_step_size_and_noise(undisturbed: dict) -> None:
    state = next(iter(undisturbed["sghmc"][0].values()))
    assert [row["epoch"] for row in state.history] == [0, 1, 2, 3]
    alpha = 0.05 / 2 * (math.cos(math.pi * 5 / 6) + 1)  # the last of six steps of a cycle
    assert state.history[-1]["step_size"] == pytest.approx(alpha)
    assert state.history[-1]["noise_deviation"] == pytest.approx(math.sqrt(2 * 0.1 * alpha * 0.5 / 160))
    assert state.history[0]["noise_deviation"] == 0
    assert all(row["noise_deviation"] == 0 for s in undisturbed["point"][0].values() for row in s.history)


def test_training_lowers_the_loss(part: LabelledImages) -> None:
    states, _ = run(part, chains("point", step_size=0.1), settings=replace(SETTINGS, epochs=10))
    for state in states.values():
        assert state.history[-1]["loss"] < 0.9 * state.history[0]["loss"]


def test_training_equals_a_plain_loop(part: LabelledImages) -> None:
    """SGD with Nesterov momentum on a stack of one, in double precision."""
    (start,) = chains("point", count=1)
    loader = loader_for(part, torch.float64)
    ours = StackOfChains([start], Training(SETTINGS, SPACE, loader, engine(dtype="float64"), SEED))
    network = Stack([start.spec.architecture], SPACE).double().train()
    network.put(0, start.tensors["weights"], start.tensors["statistics"])
    velocity = torch.zeros_like(network.weights)
    for epoch in range(2):
        ours.advance()
        drawn = loader.draw([draws.key(SEED, "chain", "sampled", 0, "order")], epoch)
        for step in range(3):
            images, labels, _ = loader.batch_at(drawn, step)
            loss = F.cross_entropy(network(images)[0], labels[0]) + (network.weights**2).sum() / 320
            (slope,) = torch.autograd.grad(loss, network.weights)
            step_size = 0.05 * (math.cos(math.pi * (3 * epoch + step) / 12) + 1) / 2
            velocity = 0.9 * velocity - step_size * slope
            with torch.no_grad():
                network.weights += 0.9 * velocity - step_size * slope
    (state,) = ours.states()
    for ours_now, theirs in zip(
        (state.tensors["weights"], state.tensors["statistics"]), network.take(0), strict=True
    ):
        torch.testing.assert_close(ours_now, theirs, rtol=1e-10, atol=1e-10)


def test_a_snapshot_chain_equals_a_sampled_chain_at_temperature_zero(
    part: LabelledImages, undisturbed: dict
) -> None:
    snapshot, snapshots = run(part, chains("snapshot", count=1))
    cold, samples = run(part, chains("sghmc", count=1, temperature=0.0))
    for one, other in zip(snapshots, samples, strict=True):
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.statistics, other.statistics)
    (one,), (other,) = snapshot.values(), cold.values()
    assert one.history == other.history
    warm = undisturbed["sghmc"][0]["sampled-sghmc-00"]
    assert warm.history[0] == one.history[0]  # before the first noise
    assert not torch.equal(warm.tensors["weights"], one.tensors["weights"])


# Chains that fail


@pytest.mark.parametrize(("weights", "bad"), [("point", math.nan), ("point", math.inf), ("sghmc", 1e30)])
def test_a_chain_whose_state_is_spoilt_begins_anew_and_its_neighbours_do_not_notice(
    part: LabelledImages, undisturbed: dict, weights: str, bad: float
) -> None:
    whole, samples = undisturbed[weights]
    cut, before = run(part, chains(weights), stop_after=1)
    names = list(cut)
    spoilt = {**cut[names[1]].tensors, "weights": torch.full_like(cut[names[1]].tensors["weights"], bad)}
    cut[names[1]] = replace(cut[names[1]], tensors=spoilt)
    states, after = run(part, list(cut.values()))
    for name in (names[0], names[2]):
        assert_same(states[name], whole[name])
    of_neighbours = [member for member in before + after if member.origin.chain != names[1]]
    assert_same_members(of_neighbours, [member for member in samples if member.origin.chain != names[1]])
    fresh = [replace(chains(weights)[1], restarts=1)]
    assert_same(states[names[1]], run(part, fresh)[0][names[1]])


class OneBadStep(Engine):
    """An engine that spoils the gradient of the second of three members once, in the second epoch."""

    calls, bad = 0, (5,)

    def gradients(self, stack: Stack, loader: Loader, wrapping: Wrapping | None = None) -> Gradients:
        true = super().gradients(stack, loader, wrapping)

        def spoilt(drawn: EpochDraws, *where: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            losses, gradient = true(drawn, *where)
            self.calls += 1
            if self.calls in self.bad:
                gradient.split(stack.weight_sizes)[len(stack.weight_sizes) // 2][7] = math.nan
            return losses, gradient

        return spoilt


@pytest.fixture(scope="module")
def diverged(part: LabelledImages) -> dict[str, tuple[dict[str, ChainState], list[Member]]]:
    return {kind: run(part, chains(kind), on=OneBadStep(EngineSettings(device="cpu"))) for kind in BOTH}


@pytest.mark.parametrize("weights", BOTH)
def test_a_chain_that_diverges_goes_on_from_its_last_good_state_with_a_smaller_step(
    part: LabelledImages, undisturbed: dict, diverged: dict, weights: str
) -> None:
    (whole, samples), (states, members) = undisturbed[weights], diverged[weights]
    first, second, third = states
    for name in (first, third):
        assert_same(states[name], whole[name])
    of_neighbours = [member for member in members if member.origin.chain != second]
    assert_same_members(of_neighbours, [member for member in samples if member.origin.chain != second])

    # The restarted chain is the one that stops after its first epoch and goes on with a quarter of the step.
    good, before = run(part, chains(weights), stop_after=1)
    slower = replace(good[second], spec=chains(weights, step_size=0.05 / 4)[1].spec)
    expected, after = run(part, [slower])
    assert_same(states[second], replace(expected[second], restarts=1))
    own = [member for member in before + after if member.origin.chain == second]
    assert_same_members([member for member in members if member.origin.chain == second], own)


def test_a_chain_cut_off_between_divergence_and_restart_ends_the_same(
    part: LabelledImages, diverged: dict
) -> None:
    whole, _ = diverged["point"]
    frozen, _ = run(part, chains("point"), stop_after=3, on=OneBadStep(EngineSettings(device="cpu")))
    assert [bool(state.failure) for state in frozen.values()] == [False, True, False]
    resumed, _ = run(part, list(frozen.values()))
    for name, state in whole.items():
        assert_same(state, resumed[name])


class BadStepAfterRestart(OneBadStep):
    bad = (5, 15)  # three chains make twelve steps, the one that failed goes on alone from its fourth


def test_a_chain_that_a_restart_does_not_help_begins_anew_with_a_smaller_step(part: LabelledImages) -> None:
    states, _ = run(part, chains("point"), on=BadStepAfterRestart(EngineSettings(device="cpu")))
    assert [state.restarts for state in states.values()] == [0, 2, 0]
    expected, _ = run(part, chains("point", step_size=0.05 / 16)[1:2])
    second = list(states)[1]
    assert_same(states[second], replace(expected[second], restarts=2))


def test_a_step_far_too_large_is_made_smaller_until_the_chain_holds(part: LabelledImages) -> None:
    states, members = run(part, chains("point", step_size=160.0))
    for state in states.values():
        assert state.failure == ""
        assert 1 <= state.restarts <= RESTARTS
        assert state.history[-1]["loss"] < MOST_LOSS
    assert len(members) == 3


def test_chains_beyond_help_are_given_up_and_not_run_again(part: LabelledImages) -> None:
    last, members = run(part, chains("point", count=2, step_size=1e9))
    assert members == []
    for state in last.values():
        assert state.failure.startswith(
            "loss above 100 or gradient not finite at step 1 (epoch 0, step size 1"
        )
        assert (state.epoch, state.restarts, state.history) == (0, RESTARTS, [])
        assert state.is_over(SETTINGS.epochs)

    def touched(now: list[ChainState]) -> None:
        raise AssertionError("a chain was run again")

    training = Training(SETTINGS, SPACE, loader_for(part), engine(), SEED)
    train(list(last.values()), training, members.append, touched)


# Memory


class SmallDevice(Engine):
    """An engine that runs out of memory in the second epoch of a stack of more than so many networks."""

    most = 1

    def gradients(self, stack: Stack, loader: Loader, wrapping: Wrapping | None = None) -> Gradients:
        true, calls = super().gradients(stack, loader, wrapping), iter(range(10**6))

        def limited(drawn: EpochDraws, *where: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            if len(stack.weight_sizes) > self.most and next(calls) == 4:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return true(drawn, *where)

        return limited


@pytest.mark.parametrize("weights", BOTH)
def test_a_stack_that_does_not_fit_is_split_and_goes_on(
    part: LabelledImages, undisturbed: dict, weights: str
) -> None:
    whole, samples = undisturbed[weights]
    small = SmallDevice(EngineSettings(device="cpu"))
    with pytest.warns(UserWarning, match="3 networks do not fit into memory side by side; going on with 1"):
        states, members = run(part, chains(weights), on=small)
    for name, state in whole.items():
        assert_same(state, states[name])
    assert_same_members(members, samples)


def test_predictions_do_not_depend_on_how_many_members_fit(part: LabelledImages, undisturbed: dict) -> None:
    members = sorted(undisturbed["point"][1], key=lambda member: member.origin.chain)
    arguments = (members, SPACE, Normalisation.of(part.images))
    whole = MembersPredictor(*arguments, engine())(part.images)

    class Small(Engine):
        def predictor(self, stack: Stack, wrapping: Wrapping | None = None, share: float = 1.0) -> tuple:
            if len(stack.weight_sizes) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return super().predictor(stack, wrapping, share)

    with pytest.warns(UserWarning, match="3 networks do not fit into memory side by side; going on with 1"):
        parts = MembersPredictor(*arguments, Small(EngineSettings(device="cpu")))(part.images)
    assert torch.equal(parts, whole)


@pytest.mark.parametrize(("most_ready", "shares"), [(3, [1 / 3] * 3), (2, [1.0] * 3)])
def test_stacks_that_predict_share_the_memory_or_take_turns(
    part: LabelledImages, undisturbed: dict, most_ready: int, shares: list[float]
) -> None:
    members = sorted(undisturbed["point"][1], key=lambda member: member.origin.chain)
    arguments = (members, SPACE, Normalisation.of(part.images))
    alive: list[weakref.ref] = []
    asked, beside = [], []

    class Watched(Engine):
        def predictor(self, stack: Stack, wrapping: Wrapping | None = None, share: float = 1.0) -> tuple:
            beside.append(sum(one() is not None for one in alive))
            made = super().predictor(stack, wrapping, share)
            alive.append(weakref.ref(made[0]))
            asked.append(share)
            return made

    Watched.most_ready = most_ready
    predict = MembersPredictor(*arguments, Watched(EngineSettings(device="cpu", stack=1)))
    assert torch.equal(predict(part.images), MembersPredictor(*arguments, engine())(part.images))
    assert asked == shares
    assert max(beside) == (2 if most_ready == 3 else 0)
    predict(part.images)
    assert len(asked) == (3 if most_ready == 3 else 6)


def test_want_of_memory_has_one_type_on_every_device() -> None:
    with pytest.raises(torch.OutOfMemoryError), naming_want_of_memory():
        torch.zeros(2**46)
    with pytest.raises(RuntimeError, match="another"), naming_want_of_memory():
        raise RuntimeError("another")


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: out of memory",
        "Triton Error [CUDA]: out of memory",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_want_of_memory_is_known_whoever_tells_of_it(said: str) -> None:
    with pytest.raises(torch.OutOfMemoryError), naming_want_of_memory():
        raise RuntimeError(said)


def test_a_network_that_does_not_fit_alone_is_one_line(part: LabelledImages) -> None:
    small = SmallDevice(EngineSettings(device="cpu"))
    small.most = 0
    with (
        pytest.warns(UserWarning, match="going on with 1"),
        pytest.raises(UraenasError, match="not enough memory on the cpu for one network"),
    ):
        run(part, chains(), on=small)


# Chains and stacks


def test_chains_start_from_their_own_keys() -> None:
    first, second, third = chains()
    assert not torch.equal(first.tensors["weights"][:20], second.tensors["weights"][:20])
    sampled, snapshot = chains("sghmc", 1)[0], chains("snapshot", 1)[0]
    assert torch.equal(sampled.tensors["weights"], snapshot.tensors["weights"])
    assert (third.tensors["velocity"] == 0).all()


def test_stacks_hold_chains_of_one_kind_age_and_number_of_restarts() -> None:
    states = [*chains("sghmc"), *chains("point")]
    states[1] = replace(states[1], epoch=2)
    states[4] = replace(states[4], restarts=1)
    groups = [
        [(s.spec.weights.trajectory, s.epoch, s.restarts) for s in group] for group in stacks_of(states, 2)
    ]
    assert groups == [
        [("sghmc", 0, 0)] * 2,
        [("sghmc", 2, 0)],
        [("point", 0, 0)] * 2,
        [("point", 0, 1)],
    ]


def test_the_losses_of_short_chains_are_pinned(part: LabelledImages) -> None:
    """In double precision, so that the pin holds on other machines."""
    found = []
    for weights in BOTH:
        loader = loader_for(part, torch.float64)
        stack = StackOfChains(
            chains(weights, 2), Training(SETTINGS, SPACE, loader, engine(dtype="float64"), SEED)
        )
        for _ in range(2):
            stack.advance()
        found += [round(row["loss"], 7) for state in stack.states() for row in state.history]
    assert found == pytest.approx(GOLDEN, abs=1e-5), str(found)


GOLDEN = [2.3012694, 2.2478273, 2.3005119, 2.2187525, 2.3010983, 2.2457498, 2.3001921, 2.2104505]


def test_a_chain_that_leaves_a_fold_out_weighs_prior_and_noise_against_what_it_learns_from(
    part: LabelledImages,
) -> None:
    learned, fold = 3 * len(part) // 4, np.arange(len(part)) % 4
    where, units = (torch.device("cpu"), torch.float32), Normalisation.of(part.images)
    loader = Loader(part, units, SETTINGS.batch, 1, False, *where, fold=fold)
    assert loader.learned == learned
    stack = StackOfChains(chains("sghmc"), Training(SETTINGS, SPACE, loader, engine(), SEED))
    assert stack.decay == SETTINGS.decay(learned)
    last, method = stack.pace.cycle.steps - 1, chains("sghmc")[0].spec.weights
    size = stack.pace.cycle.step_size_at(last)
    assert stack.pace.deviation_at(last) == method.noise_deviation(size, learned) > 0
    variational = [
        initial_chain(ChainSpec("sampled", WEIGHTS["variational"].make(), 0, GENOTYPES[0]), SPACE, SEED)
    ]
    own = StackOfChains(variational, Training(SETTINGS, SPACE, loader, engine(), SEED))
    layout, penalty = own.stack.weight_layouts[0], variational[0].spec.weights.changes.penalty
    weights, halfway = layout.views(own.stack.weights.detach()), torch.tensor(0.5)
    told = own.gradients.wrapping.penalty
    assert penalty is not None
    assert told is not None
    torch.testing.assert_close(told(weights, halfway), penalty(weights, halfway, learned))


def test_weights_that_have_another_prior_do_not_decay(part: LabelledImages) -> None:
    method = WEIGHTS["variational"].make()
    states = [initial_chain(ChainSpec("sampled", method, n, GENOTYPES[n]), SPACE, SEED) for n in range(2)]
    stack = StackOfChains(states, Training(SETTINGS, SPACE, loader_for(part), engine(), SEED))
    by_member = zip(stack.stack.weight_layouts, stack.decay.split(stack.stack.weight_sizes), strict=True)
    for layout, decay in by_member:
        for name, own in layout.views(decay).items():
            expected = 0.0 if name.endswith(".spread") else SETTINGS.decay(len(part))
            torch.testing.assert_close(own, torch.full_like(own, expected))
