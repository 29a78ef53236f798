"""What every entry of WEIGHTS keeps to, whatever it is: a new row is held to it by being there."""

import itertools
import math
from dataclasses import fields
from typing import Any

import pytest
import torch
from chains_in_memory import DOUBLE, Formula, beginning, last, moved, quadratic
from small_networks import EVERY_OPERATION, SPACE
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.learning.chains import ChainSpec, mover, shared_epochs
from uraenas.weights import WEIGHTS, Step, WeightMethod, prior_decay

EPOCHS, STEPS = 12, 3
TWO_CYCLES = {"cycles": 2, "samples": 2, "exploration": 0.5, "temperature": 1.0}
PAIRS = list(itertools.combinations(WEIGHTS, 2))
EVERY = pytest.mark.parametrize("name", WEIGHTS)
START, CENTRE, CURVATURE = quadratic(4, size=20)
QUADRATIC = Formula(lambda weights: CURVATURE * (weights - CENTRE))


def made(name: str, **values: Any) -> WeightMethod:
    """An entry with those of these values that are its settings."""
    row = WEIGHTS[name]
    return row.make({setting: value for setting, value in values.items() if setting in row.settings})


def chain(method: WeightMethod, formula: Formula = QUADRATIC) -> list[dict[str, Tensor]]:
    """The states of a whole chain, the first among them."""
    cycle, first = method.cycle(EPOCHS, STEPS), beginning(method, START)
    return [first, *moved(method, cycle, first, formula, range(cycle.steps))]


def deviations(method: WeightMethod) -> list[float]:
    """What the method says of the noise of every step, if all of them sampled."""
    cycle = method.cycle(EPOCHS, STEPS)
    return [method.noise_deviation(cycle.step_size_at(step), 1) for step in range(cycle.steps)]


@EVERY
def test_a_chain_goes_on_from_its_state_as_if_it_had_not_stopped(name: str) -> None:
    """The state is all there is: what a checkpoint holds."""
    method = made(name, **TWO_CYCLES)
    cycle, whole = method.cycle(EPOCHS, STEPS), chain(method)
    assert whole[-1].keys() == {"weights", *method.state}
    for stop in (0, 1, 10, cycle.steps - 1):
        stored = {key: tensor.clone() for key, tensor in whole[stop].items()}
        rest = last(moved(method, cycle, stored, QUADRATIC, range(stop, cycle.steps)))
        for key, tensor in rest.items():
            assert torch.equal(tensor, whole[-1][key]), (stop, key)


@EVERY
def test_a_step_leaves_the_state_it_was_given_alone(name: str) -> None:
    """A chain that has diverged keeps it."""
    method = made(name, **TWO_CYCLES)
    state = {key: torch.ones(4) for key in ("weights", *method.state)}
    for exploring in (True, False):
        step = Step(torch.tensor(0), torch.tensor([0.1]), exploring)
        method.update(state, torch.ones(4), step)
        assert all(torch.equal(tensor, torch.ones(4)) for tensor in state.values())


@EVERY
@pytest.mark.parametrize("exploring", [True, False])
def test_without_gradient_noise_and_motion_the_weights_stay_where_they_are(
    name: str, exploring: bool
) -> None:
    method = made(name, **TWO_CYCLES)
    noise = torch.zeros_like(START) if not exploring and max(deviations(method)) > 0 else None
    step = Step(torch.tensor(7), torch.tensor([0.1], dtype=DOUBLE), exploring, noise)
    after = method.update(beginning(method, START), torch.zeros_like(START), step)
    assert torch.equal(after["weights"], START)


@EVERY
def test_noise_moves_a_chain_in_its_sampling_stage_alone_and_only_if_it_has_a_deviation(name: str) -> None:
    method = made(name, **TWO_CYCLES)
    cycle = method.cycle(EPOCHS, STEPS)
    noisy = [d > 0 and cycle.samples_at(step) for step, d in enumerate(deviations(method))]
    with_noise = chain(method)
    for step in range(cycle.steps):
        alone = last(moved(method, cycle, with_noise[step], Formula(QUADRATIC.gradient, noisy=False), [step]))
        same = torch.equal(alone["weights"], with_noise[step + 1]["weights"])
        assert same != noisy[step], step
    assert all(d >= 0 for d in deviations(method))


@EVERY
def test_candidates_are_made_of_a_chains_samples_as_many_as_are_said(name: str) -> None:
    method = made(name, **TWO_CYCLES, draws=2)
    cycle = method.cycle(EPOCHS, 1)
    kept = [epoch for epoch in reversed(range(EPOCHS)) if cycle.collects_after(epoch)]  # the newest first
    samples = [torch.tensor([epoch, epoch**2], dtype=DOUBLE) for epoch in kept]
    cycles = [cycle.number(epoch) for epoch in kept]
    assert len(method.candidates(samples, cycles, key=5)) == method.members_per_chain
    assert method.candidates([], [], key=5) == []
    for count in range(1, len(samples) + 1):  # a chain that is not over has fewer
        candidates = method.candidates(samples[-count:], cycles[-count:], key=5)
        assert 1 <= len(candidates) <= method.members_per_chain
        used = [(place, one.draw) for one in candidates for place in one.samples]
        assert len(used) == len(set(used))  # each at most once in a draw
        assert all(one.samples == tuple(sorted(one.samples)) for one in candidates)  # the newest first
        assert {place for place, _ in used} <= set(range(count))
        for candidate in candidates:
            assert candidate.samples
            if candidate.weights is None:
                assert len(candidate.samples) == 1
            else:
                assert candidate.weights.shape == samples[0].shape
                assert torch.isfinite(candidate.weights).all()


def test_a_mean_is_that_of_the_newest_samples_of_one_cycle() -> None:
    samples = [torch.tensor([value]) for value in (8.0, 4.0, 3.0, 1.0)]
    of_all, of_two = (made("swa", cycles=2, samples=3, mean_of=count) for count in (0, 2))
    found = [(c.samples, c.weights and c.weights.item()) for c in of_all.candidates(samples, [1, 0, 0, 0], 5)]
    assert found == [((0,), None), ((1, 2, 3), pytest.approx(8 / 3))]
    found = [(c.samples, c.weights and c.weights.item()) for c in of_two.candidates(samples, [1, 0, 0, 0], 5)]
    assert found == [((0,), None), ((1, 2), 3.5)]


@EVERY
def test_settings_are_fields_with_defaults_that_make_sense(name: str) -> None:
    row = WEIGHTS[name]
    method = row.make()
    method.check(200)  # the recipe's length
    assert row.about
    assert set(row.fixed) <= {field.name for field in fields(row.made)}
    assert set(method.of_members) <= {*row.settings, *row.fixed}
    if "cycles" in row.settings:
        with pytest.raises(UraenasError, match="must be a multiple of cycles"):
            method.check(201)


@EVERY
def test_what_has_a_prior_of_its_own_has_no_weight_decay(name: str) -> None:
    """Spreads, gates and factors; and the weights of layers, where the divergence holds their prior, too."""
    plain = SPACE.weight_layout(EVERY_OPERATION)
    decays = {entry.name: entry.prior for entry in plain.entries}
    found = {entry.name: entry.prior for entry in made(name).changes.layout(plain).entries}
    assert not any(prior for own, prior in found.items() if own not in decays)
    of_layers = {entry.name for entry in plain.layers.values()} if name in ("ssig", "sebays") else set()
    assert {own for own, prior in decays.items() if prior and not found[own]} == of_layers


# Chains that share what they have in common


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("cycles", [1, 2])
def test_chains_that_say_so_have_their_first_epochs_in_common(first: str, second: str, cycles: int) -> None:
    """Equal digests mean equal bits, as far as they are equal."""
    methods = [made(name, **{**TWO_CYCLES, "cycles": cycles}) for name in (first, second)]
    leader, follower = (ChainSpec("expected", method, 0, "any") for method in methods)
    shared = shared_epochs(leader, follower, EPOCHS)
    assert shared < EPOCHS
    one, other = map(chain, methods)
    for step in range(shared * STEPS + 1):
        assert torch.equal(one[step]["weights"], other[step]["weights"]), step


def test_a_point_estimate_and_a_sampler_with_one_cycle_share_its_exploration() -> None:
    point, sghmc, snapshot, sgld = (
        ChainSpec("expected", made(name, **{**TWO_CYCLES, "cycles": 1, "step_size": 0.1}), 0, "any")
        for name in ("point", "sghmc", "snapshot", "sgld")
    )
    assert shared_epochs(point, sghmc, EPOCHS) == EPOCHS // 2
    assert shared_epochs(snapshot, sghmc, EPOCHS) == EPOCHS // 2
    assert shared_epochs(point, sgld, EPOCHS) == 0  # it has no momentum
    for other in ({"step_size": 0.2}, {"momentum": 0.8}, {"floor": 0.01}, {"cycles": 2}):
        unlike = ChainSpec("expected", made("sghmc", **{**TWO_CYCLES, "cycles": 1, **other}), 0, "any")
        assert shared_epochs(point, unlike, EPOCHS) == 0, other


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_kinds_that_give_their_chains_one_name_move_alike_to_the_end(first: str, second: str) -> None:
    one, other = (made(name, **TWO_CYCLES) for name in (first, second))
    ends = chain(one)[-1]["weights"], chain(other)[-1]["weights"]
    if all(kind.forward is None and kind.objective is None for kind in (one, other)):
        assert torch.equal(*ends) == (one.trajectory == other.trajectory)
    elif one.trajectory == other.trajectory:  # what they put into the network or learn is not seen here
        assert mover(one) == mover(other)


@EVERY
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_its_chains_are_named_after_a_kind_that_moves_as_it_does(name: str, temperature: float) -> None:
    method = made(name, **{**TWO_CYCLES, "temperature": temperature})
    assert mover(method).trajectory == method.trajectory
    assert torch.equal(chain(mover(method))[-1]["weights"], chain(method)[-1]["weights"])


# A known posterior: N images whose likelihood is Gaussian in w with precision N·P around m, and the prior N(0, σ²).
IMAGES, PRIOR_DEVIATION = 50, 0.5
PRECISION = torch.tensor([[3.0, 1.2], [1.2, 1.0]], dtype=DOUBLE) / 10  # of one image
MEAN = torch.tensor([0.7, -1.1], dtype=DOUBLE)
POSTERIOR_PRECISION = IMAGES * PRECISION + torch.eye(2, dtype=DOUBLE) / PRIOR_DEVIATION**2
POSTERIOR_MEAN = torch.linalg.solve(POSTERIOR_PRECISION, IMAGES * PRECISION @ MEAN)
NOISY = [name for name in WEIGHTS if max(deviations(made(name, **TWO_CYCLES))) > 0]


@pytest.mark.parametrize("name", NOISY)
@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_a_sampler_recovers_mean_and_covariance_of_a_known_gaussian(name: str, temperature: float) -> None:
    """At T = 1 the posterior; at another T its covariance is T times that."""
    size = 0.1 * (1 - getattr(made(name), "momentum", 0.0))  # momentum lengthens a step by 1/(1 − μ)
    sampling = {"cycles": 1, "samples": 1, "exploration": 0.0, "temperature": temperature}
    method = made(name, step_size=size, floor=size, **sampling)
    decay = prior_decay(PRIOR_DEVIATION, IMAGES)
    formula = Formula(lambda w: (w - MEAN) @ PRECISION + decay * w, IMAGES, key=3)
    cycle, start = method.cycle(1, 500), torch.zeros(15_000, 2, dtype=DOUBLE)
    states = last(moved(method, cycle, beginning(method, start), formula, range(cycle.steps)))["weights"]
    covariance = temperature * torch.linalg.inv(POSTERIOR_PRECISION)
    deviation = covariance.diagonal().sqrt()
    assert ((states.mean(dim=0) - POSTERIOR_MEAN).abs() < 4 * deviation / math.sqrt(len(states))).all()
    found = torch.cov(states.T) / torch.outer(deviation, deviation)
    expected = covariance / torch.outer(deviation, deviation)
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0)
    assert abs(expected[0, 1]) > 0.4  # the coordinates are correlated, so that this says something


def test_the_samplers_are_those_with_noise() -> None:
    assert {"sghmc", "sgld"} <= set(NOISY)
    assert not {"point", "snapshot"} & set(NOISY)
