"""Training: a member of a stack is the member trained alone, chains resume bit for bit, and fail alone."""

import contextlib
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from uraenas.base import draws
from uraenas.architecture import ArchitectureDistribution, uniform
from uraenas.chains import RESTARTS, ChainSpec, ChainState, TrainSettings, initial_chain, plan_chains
from uraenas.data import LabelledImages, digits, stratified_split
from uraenas.data.loader import EpochDraws, Loader, Normalisation
from uraenas.engine import Engine, EngineSettings, Gradients, naming_want_of_memory
from uraenas.ensemble import Member, MembersPredictor
from uraenas.base.errors import UraenasError
from uraenas.methods import METHODS
from uraenas.networks import Stack
from uraenas.spaces import EDGES, OPERATIONS, Genotype, Skeleton
from uraenas.train import MOST_LOSS, StackOfChains, stacks_of, train

SKELETON = Skeleton(channels=4, cells=1, height=8, width=8, image_channels=1, classes=10)
SEED = 9
SETTINGS = TrainSettings(
    members=3,
    architectures=2,
    epochs=4,
    batch=50,
    cycles=2,
    weight_samples=2,
    exploration=0.5,
    temperature=0.5,
    prior_deviation=1.0,
    step_size=0.05,
    sampler_step_size=0.05,
)
GENOTYPES = uniform().sample_genotypes(3, seed=3)[0]


@pytest.fixture(scope="module")
def part() -> LabelledImages:
    whole = digits().train
    return whole.take(stratified_split(whole.labels, [160], key=2)[0])


def engine(stack: int = 10, dtype: str = "float32") -> Engine:
    return Engine(EngineSettings(device="cpu", precision=dtype, stack=stack))


def loader_for(part: LabelledImages, dtype: torch.dtype = torch.float32) -> Loader:
    return Loader(part, Normalisation.of(part.images), SETTINGS.batch, 1, False, torch.device("cpu"), dtype)


def chains(weights: str = "sampled", count: int = 3) -> list[ChainState]:
    specs = [ChainSpec("sampled", weights, n, GENOTYPES[n]) for n in range(count)]  # type: ignore[arg-type]
    return [initial_chain(spec, SKELETON, SEED) for spec in specs]


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

    with contextlib.suppress(Cut):
        train(
            states, settings, SKELETON, loader_for(part), on or engine(stack), SEED, collected.append, checkpoint
        )  # fmt: skip
    return last, collected


def assert_same(first: ChainState, second: ChainState) -> None:
    assert (first.spec, first.epoch, first.failure) == (second.spec, second.epoch, second.failure)
    assert first.restarts == second.restarts
    assert first.history == second.history
    for name, tensor in first.tensors.items():
        assert torch.equal(tensor, second.tensors[name]), name


def assert_same_members(first: list[Member], second: list[Member]) -> None:
    def by_origin(members: list[Member]) -> list[Member]:
        return sorted(members, key=lambda member: (member.origin.chain, member.origin.epoch))

    assert len(first) == len(second)
    for one, other in zip(by_origin(first), by_origin(second), strict=True):
        assert (one.genotype, one.origin) == (other.genotype, other.origin)
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.statistics, other.statistics)


@pytest.fixture(scope="module")
def undisturbed(part: LabelledImages) -> dict[str, tuple[dict[str, ChainState], list[Member]]]:
    return {weights: run(part, chains(weights)) for weights in ("sampled", "point")}


@pytest.mark.parametrize("weights", ["sampled", "point"])
def test_members_of_a_stack_equal_members_trained_alone_bit_for_bit(
    part: LabelledImages, undisturbed: dict, weights: str
) -> None:
    together, samples = undisturbed[weights]
    alone, alone_samples = run(part, chains(weights), stack=1)
    for name, state in together.items():
        assert_same(state, alone[name])
    assert_same_members(samples, alone_samples)
    assert len({tuple(state.tensors["weights"][:5].tolist()) for state in together.values()}) == 3


@pytest.mark.parametrize("weights", ["sampled", "point"])
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
    for weights, expected in (("sampled", [(1, 0, 6), (3, 1, 12)]), ("point", [(3, 0, 12)])):
        states, members = undisturbed[weights]
        for name, state in states.items():
            own = [member.origin for member in members if member.origin.chain == name]
            assert [(origin.epoch, origin.cycle, origin.step) for origin in own] == expected
            assert {origin.temperature for origin in own} == {0.5 if weights == "sampled" else 0.0}
            last = next(m for m in members if m.origin.chain == name and m.origin.epoch == 3)
            assert torch.equal(last.weights, state.tensors["weights"])
            assert torch.equal(last.statistics, state.tensors["statistics"])


def test_a_cycle_can_give_several_samples(part: LabelledImages) -> None:
    _, members = run(part, chains(count=1), settings=replace(SETTINGS, weight_samples=4, exploration=0.2))
    assert [member.origin.epoch for member in members] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight_samples": 4}, "leaves 1 for its 2 samples"),
        ({"exploration": 1.0}, "leaves 0 for its 1 samples, of which each needs one; change exploration"),
        (
            {"weight_samples": 6, "epochs": 10, "exploration": 0.7},
            "leaves 2 for its 3 samples.*take 14 epochs",
        ),
    ],
)
def test_no_sample_is_taken_while_exploring(changes: dict, words: str) -> None:
    settings = replace(SETTINGS, **changes)  # runs of the first versions can still be read
    with pytest.raises(UraenasError, match=f"train: .*{words}"):
        settings.require_sampling_stage()
    SETTINGS.require_sampling_stage()


def test_the_history_tells_step_size_and_noise(undisturbed: dict) -> None:
    state = next(iter(undisturbed["sampled"][0].values()))
    assert [row["epoch"] for row in state.history] == [0, 1, 2, 3]
    alpha = 0.05 / 2 * (math.cos(math.pi * 5 / 6) + 1)  # the last of six steps of a cycle
    assert state.history[-1]["step_size"] == pytest.approx(alpha)
    assert state.history[-1]["noise_deviation"] == pytest.approx(math.sqrt(2 * 0.1 * alpha * 0.5 / 160))
    assert state.history[0]["noise_deviation"] == 0
    assert all(row["noise_deviation"] == 0 for s in undisturbed["point"][0].values() for row in s.history)


def test_training_lowers_the_loss(part: LabelledImages) -> None:
    states, _ = run(part, chains("point"), settings=replace(SETTINGS, epochs=10, step_size=0.1))
    for state in states.values():
        assert state.history[-1]["loss"] < 0.9 * state.history[0]["loss"]


def test_training_equals_a_plain_loop(part: LabelledImages) -> None:
    """SGD with Nesterov momentum on a stack of one, in double precision."""
    (start,) = chains("point", count=1)
    rule = SETTINGS.rule("point", steps_per_epoch=3, images=160)
    loader = loader_for(part, torch.float64)
    ours = StackOfChains([start], rule, SKELETON, loader, engine(dtype="float64"), SEED)
    network = Stack([start.spec.genotype], SKELETON).double().train()
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
    cold, samples = run(part, chains("sampled", count=1), settings=replace(SETTINGS, temperature=0.0))
    for one, other in zip(snapshots, samples, strict=True):
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.statistics, other.statistics)
    (one,), (other,) = snapshot.values(), cold.values()
    assert one.history == other.history
    warm = undisturbed["sampled"][0][other.spec.name]
    assert warm.history[0] == one.history[0]  # before the first noise
    assert not torch.equal(warm.tensors["weights"], one.tensors["weights"])


# Chains that fail


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("weights", ["sampled", "point"])
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

    def gradients(self, stack: Stack, loader: Loader) -> Gradients:
        true = super().gradients(stack, loader)

        def spoilt(drawn: EpochDraws, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            losses, gradient = true(drawn, position)
            self.calls += 1
            if self.calls in self.bad:
                gradient.split(stack.weight_sizes)[len(stack.weight_sizes) // 2][7] = math.nan
            return losses, gradient

        return spoilt


@pytest.mark.parametrize("weights", ["sampled", "point"])
def test_a_chain_that_diverges_goes_on_from_its_last_good_state_with_a_smaller_step(
    part: LabelledImages, undisturbed: dict, weights: str
) -> None:
    whole, samples = undisturbed[weights]
    states, members = run(part, chains(weights), on=OneBadStep(EngineSettings(device="cpu")))
    first, second, third = states
    for name in (first, third):
        assert_same(states[name], whole[name])
    of_neighbours = [member for member in members if member.origin.chain != second]
    assert_same_members(of_neighbours, [member for member in samples if member.origin.chain != second])

    # The restarted chain is the one that stops after its first epoch and goes on with a quarter of the step.
    good, before = run(part, chains(weights), stop_after=1)
    smaller = replace(
        SETTINGS, step_size=SETTINGS.step_size / 4, sampler_step_size=SETTINGS.sampler_step_size / 4
    )
    expected, after = run(part, [good[second]], settings=smaller)
    assert_same(states[second], replace(expected[second], restarts=1))
    own = [member for member in before + after if member.origin.chain == second]
    assert_same_members([member for member in members if member.origin.chain == second], own)


def test_a_chain_cut_off_between_divergence_and_restart_ends_the_same(part: LabelledImages) -> None:
    whole, _ = run(part, chains("point"), on=OneBadStep(EngineSettings(device="cpu")))
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
    sixteenth = replace(
        SETTINGS, step_size=SETTINGS.step_size / 16, sampler_step_size=SETTINGS.sampler_step_size / 16
    )
    expected, _ = run(part, chains("point"), settings=sixteenth)
    second = list(states)[1]
    assert_same(states[second], replace(expected[second], restarts=2))


def test_a_step_far_too_large_is_made_smaller_until_the_chain_holds(part: LabelledImages) -> None:
    states, members = run(part, chains("point"), settings=replace(SETTINGS, step_size=160.0))
    for state in states.values():
        assert state.failure == ""
        assert 1 <= state.restarts <= RESTARTS
        assert state.history[-1]["loss"] < MOST_LOSS
    assert len(members) == 3


def test_chains_beyond_help_are_given_up_and_not_run_again(part: LabelledImages) -> None:
    last, members = run(part, chains("point", count=2), settings=replace(SETTINGS, step_size=1e9))
    assert members == []
    for state in last.values():
        assert state.failure.startswith(
            "loss above 100 or gradient not finite at step 1 (epoch 0, step size 1"
        )
        assert (state.epoch, state.restarts, state.history) == (0, RESTARTS, [])
        assert state.is_over(SETTINGS.epochs)

    def touched(now: list[ChainState]) -> None:
        raise AssertionError("a chain was run again")

    train(
        list(last.values()), SETTINGS, SKELETON, loader_for(part), engine(), SEED, members.append, touched
    )  # fmt: skip


# Memory


class SmallDevice(Engine):
    """An engine that runs out of memory in the second epoch of a stack of more than so many networks."""

    most = 1

    def gradients(self, stack: Stack, loader: Loader) -> Gradients:
        true, calls = super().gradients(stack, loader), iter(range(10**6))

        def limited(drawn: EpochDraws, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            if len(stack.weight_sizes) > self.most and next(calls) == 4:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return true(drawn, position)

        return limited


@pytest.mark.parametrize("weights", ["sampled", "point"])
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
    arguments = (members, SKELETON, Normalisation.of(part.images))
    whole = MembersPredictor(*arguments, engine())(part.images)

    class Small(Engine):
        def predictor(self, stack: Stack) -> tuple:
            if len(stack.weight_sizes) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return super().predictor(stack)

    with pytest.warns(UserWarning, match="3 networks do not fit into memory side by side; going on with 1"):
        parts = MembersPredictor(*arguments, Small(EngineSettings(device="cpu")))(part.images)
    assert torch.equal(parts, whole)


def test_want_of_memory_has_one_type_on_every_device() -> None:
    with pytest.raises(torch.OutOfMemoryError), naming_want_of_memory():
        torch.zeros(2**46)
    with pytest.raises(RuntimeError, match="another"), naming_want_of_memory():
        raise RuntimeError("another")


def test_a_network_that_does_not_fit_alone_is_one_line(part: LabelledImages) -> None:
    small = SmallDevice(EngineSettings(device="cpu"))
    small.most = 0
    with (
        pytest.warns(UserWarning, match="going on with 1"),
        pytest.raises(UraenasError, match="not enough memory on the cpu for one network"),
    ):
        run(part, chains(), on=small)


# Plans


def distribution() -> ArchitectureDistribution:
    concentration = torch.ones(len(EDGES), len(OPERATIONS), dtype=torch.float64)
    concentration[:, OPERATIONS.index("nor_conv_3x3")] = 2.0
    return ArchitectureDistribution(concentration)


def plan(method: str, settings: TrainSettings = SETTINGS) -> list[ChainSpec]:
    return plan_chains(METHODS[method], settings, distribution(), SEED)[0]


def test_drnas_is_the_first_chain_of_the_deep_ensemble() -> None:
    assert plan("drnas") == plan("deep-ensemble")[:1]
    assert plan("drnas")[0].name == "expected-point-00"


@pytest.mark.parametrize(
    ("method", "chains_planned", "distinct"),
    [
        ("drnas", 1, False),
        ("uraenas-w", 2, False),
        ("uraenas-a", 3, True),
        ("uraenas", 2, True),
        ("deep-ensemble", 3, False),
        ("random-ensemble", 3, True),
        ("snapshot", 2, False),
    ],
)
def test_every_method_has_the_chains_that_its_members_need(
    method: str, chains_planned: int, distinct: bool
) -> None:
    specs = plan(method)
    assert len(specs) == chains_planned
    assert [spec.number for spec in specs] == list(range(chains_planned))
    assert len({spec.name for spec in specs}) == chains_planned
    row = METHODS[method]
    assert {(spec.architecture, spec.weights) for spec in specs} == {(row.architecture, row.weights)}
    expected = Genotype(("nor_conv_3x3",) * 6)
    if row.architecture == "expected":
        assert {spec.genotype for spec in specs} == {expected}
    assert (len({spec.genotype for spec in specs}) > 1) == distinct
    assert all(spec.genotype.connected for spec in specs)


def test_sampled_methods_share_their_architectures() -> None:
    assert [s.genotype for s in plan("uraenas")] == [s.genotype for s in plan("uraenas-a")][:2]


def test_architectures_are_drawn_without_none_where_the_settings_say_so() -> None:
    settings = replace(SETTINGS, members=20, architectures=20)
    freely, without = plan("uraenas-a", settings), plan("uraenas-a", replace(settings, draw_none=False))
    assert any("none" in spec.genotype.operations for spec in freely)
    assert not any("none" in spec.genotype.operations for spec in without)


def test_more_members_than_the_chains_can_give_make_more_chains() -> None:
    settings = replace(SETTINGS, members=9)
    assert len(plan("uraenas", settings)) == 5  # two samples each
    assert len(plan("snapshot", settings)) == 5
    assert len(plan("deep-ensemble", settings)) == 9


def test_no_chain_is_run_that_cannot_become_a_member() -> None:
    settings = replace(SETTINGS, members=2, architectures=5)
    assert len(plan("uraenas", settings)) == 2
    assert len(plan("uraenas", replace(settings, selection="greedy"))) == 5


def test_a_chain_gives_one_mean_for_each_cycle() -> None:
    settings = replace(SETTINGS, epochs=12, cycles=2, weight_samples=4, members=5, average_samples=True)
    assert len(plan("uraenas-w", settings)) == len(plan("snapshot", settings)) == 3
    assert len(plan("uraenas", settings)) == max(settings.architectures, 3)
    assert len(plan("uraenas-w", replace(settings, average_samples=False))) == 2


def test_a_chain_samples_at_the_end_of_each_short_cosine() -> None:
    settings = replace(SETTINGS, epochs=12, cycles=1, exploration=0.75, sampling_peak=0.25, weight_samples=3)
    cycle = settings.rule("snapshot", steps_per_epoch=4, images=1).cycle
    assert [epoch for epoch in range(12) if cycle.collects_after(epoch)] == [9, 10, 11]
    assert cycle.step_size_at(4 * 9) == pytest.approx(0.25 * settings.sampler_step_size)
    assert settings.rule("point", steps_per_epoch=4, images=1).cycle.sampling_peak == 0
    with pytest.raises(UraenasError, match="leaves 2 for its 3 samples"):
        replace(settings, epochs=8)


@pytest.mark.parametrize("least", [1, 12, 13, 40, 41])
@pytest.mark.parametrize("changes", [{}, {"exploration": 0.5, "sampling_peak": 0.5, "weight_samples": 6}])
def test_advice_on_epochs_can_be_followed(least: int, changes: dict) -> None:
    settings = replace(SETTINGS, **{"epochs": 12, "cycles": 3, "weight_samples": 3, **changes})
    advised = settings.epochs_for(least)
    assert least <= advised <= max(least, 10) + 9
    assert replace(settings, epochs=advised).epochs == advised


def test_a_method_that_needs_a_search_says_so() -> None:
    with pytest.raises(UraenasError, match="needs a search"):
        plan_chains(METHODS["uraenas"], SETTINGS, None, SEED)
    assert len(plan_chains(METHODS["random-ensemble"], SETTINGS, None, SEED)[0]) == 3


def test_a_given_genotype_takes_the_place_of_the_expected_one_and_needs_no_search() -> None:
    text = "|nor_conv_1x1~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_3x3~2|"
    settings = replace(SETTINGS, genotype=text)
    for name in ("drnas", "uraenas-w", "deep-ensemble", "snapshot"):
        planned = plan_chains(METHODS[name], settings, None, SEED)[0]
        assert {str(spec.genotype) for spec in planned} == {text}
        assert [spec.name for spec in planned] == [spec.name for spec in plan(name)]
    assert plan("uraenas", settings) == plan("uraenas")
    with pytest.raises(UraenasError, match="needs a search"):
        plan_chains(METHODS["uraenas-a"], settings, None, SEED)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("conv", "cannot read genotype"),
        ("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|", "cuts the input off"),
    ],
)
def test_a_given_genotype_that_is_no_network_is_refused(text: str, words: str) -> None:
    with pytest.raises(UraenasError, match=words):
        replace(SETTINGS, genotype=text)


def test_an_expected_genotype_without_a_path_is_refused() -> None:
    concentration = torch.ones(len(EDGES), len(OPERATIONS), dtype=torch.float64)
    concentration[:, 0] = 5.0
    with pytest.raises(UraenasError, match="cuts the input off"):
        plan_chains(METHODS["drnas"], SETTINGS, ArchitectureDistribution(concentration), SEED)


def test_chains_start_from_their_own_keys() -> None:
    first, second, third = chains()
    assert not torch.equal(first.tensors["weights"][:20], second.tensors["weights"][:20])
    sampled, snapshot = chains("sampled", 1)[0], chains("snapshot", 1)[0]
    assert torch.equal(sampled.tensors["weights"], snapshot.tensors["weights"])
    assert (third.tensors["velocity"] == 0).all()


def test_stacks_hold_chains_of_one_kind_age_and_number_of_restarts() -> None:
    states = [*chains("sampled"), *chains("point")]
    states[1] = replace(states[1], epoch=2)
    states[4] = replace(states[4], restarts=1)
    groups = [[(s.spec.weights, s.epoch, s.restarts) for s in group] for group in stacks_of(states, 2)]
    assert groups == [
        [("sampled", 0, 0)] * 2,
        [("sampled", 2, 0)],
        [("point", 0, 0)] * 2,
        [("point", 0, 1)],
    ]


def test_the_losses_of_short_chains_are_pinned(part: LabelledImages) -> None:
    """In double precision, so that the pin holds on other machines."""
    found = []
    for weights in ("sampled", "point"):
        rule = SETTINGS.rule(weights, steps_per_epoch=3, images=160)
        loader = loader_for(part, torch.float64)
        stack = StackOfChains(chains(weights, 2), rule, SKELETON, loader, engine(dtype="float64"), SEED)
        for _ in range(2):
            stack.advance()
        found += [round(row["loss"], 7) for state in stack.states() for row in state.history]
    assert found == pytest.approx(GOLDEN, abs=1e-5), str(found)


GOLDEN = [2.3012694, 2.2478273, 2.3005119, 2.2187525, 2.3010983, 2.2457498, 2.3001921, 2.2104505]
