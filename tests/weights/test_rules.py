"""The update rules: cycles find many modes, and without noise they are plain gradient descent."""

import math
from collections.abc import Callable

import pytest
import torch
from chains_in_memory import DOUBLE, Formula, beginning, moved, quadratic
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.learning.pace import Pace
from uraenas.weights import Cycle, Langevin, Point, Step, WeightMethod, prior_decay
from uraenas.weights.adam import Adam

# 25 narrow modes on a grid, as in the paper on cyclical sampling.
GRID = torch.tensor([-4.0, -2.0, 0.0, 2.0, 4.0], dtype=DOUBLE)
MODES = torch.cartesian_prod(GRID, GRID)
VARIANCE = 0.03


def mixture_gradient(weights: Tensor) -> Tensor:
    """Of −log Σ N(w; μ_i, 0.03 I)/25."""
    offsets = weights[:, None] - MODES
    share = torch.softmax(-(offsets**2).sum(dim=-1) / (2 * VARIANCE), dim=1)
    return (share[..., None] * offsets).sum(dim=1) / VARIANCE


def modes_visited(method: Langevin, epochs: int, steps_per_epoch: int) -> list[int]:
    """For each of eight chains from the middle mode, in how many modes it has at least 50 of its states."""
    cycle = method.cycle(epochs, steps_per_epoch)
    start = beginning(method, torch.zeros(8, 2, dtype=DOUBLE))
    states = moved(method, cycle, start, Formula(mixture_gradient), range(cycle.steps))
    chains = torch.stack([state["weights"] for state in states], dim=1)
    near = torch.cdist(chains, MODES.expand(len(chains), -1, -1)) < 0.5
    return (near.sum(dim=1) >= 50).sum(dim=1).tolist()


def test_cyclical_sgld_visits_many_modes_where_plain_sgld_stays_in_one() -> None:
    """In twelve cycles. Plain SGLD has a step size at which it can still sample one mode."""
    sgld = {"momentum": 0.0, "temperature": 1.0, "samples": 1}
    cyclical = Langevin(step_size=0.09, cycles=12, exploration=0.25, **sgld)
    plain = Langevin(step_size=0.02, floor=0.02, cycles=1, exploration=0.0, **sgld)
    visited = modes_visited(cyclical, 12, 200), modes_visited(plain, 1, 2400)
    assert min(visited[0]) >= 7, visited
    assert max(visited[1]) <= 1, visited


# Without noise

DECAY = prior_decay(0.3, 300)
SAMPLING = {"cycles": 1, "samples": 1, "temperature": 0.0}


def against_torch(
    method: WeightMethod, cycle: Cycle, nesterov: Callable[[int], bool], dtype: torch.dtype = DOUBLE
) -> float:
    """The largest distance from torch.optim.SGD, all along a chain."""
    start, centre, curvature = (vector.to(dtype) for vector in quadratic(1))
    formula = Formula(lambda weights: curvature * (weights - centre) + DECAY * weights)
    states = moved(method, cycle, beginning(method, start), formula, range(cycle.steps))
    reference = torch.nn.Parameter(start.clone())
    momentum = method.momentum
    optimiser = torch.optim.SGD([reference], cycle.step_size, momentum=momentum, weight_decay=DECAY)
    largest = 0.0
    for step, state in enumerate(states):
        optimiser.param_groups[0] |= {"lr": cycle.step_size_at(step), "nesterov": nesterov(step)}
        reference.grad = curvature * (reference.detach() - centre)
        optimiser.step()
        largest = max(largest, float((state["weights"] - reference.detach()).abs().max()))
    return largest


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_sgld_at_temperature_zero_is_gradient_descent(dtype: torch.dtype, close: float) -> None:
    method = Langevin(momentum=0.0, exploration=0.0, **SAMPLING)
    assert against_torch(method, method.cycle(1, 30), lambda _: False, dtype) <= close


def test_gradient_descent_is_that_of_the_textbook_bit_for_bit() -> None:
    start, centre, curvature = quadratic(0)
    method = Langevin(momentum=0.0, exploration=0.0, **SAMPLING)
    cycle = method.cycle(1, 30)
    formula = Formula(lambda weights: curvature * (weights - centre))
    plain = start
    for step, state in enumerate(moved(method, cycle, beginning(method, start), formula, range(30))):
        plain = plain - torch.tensor(cycle.step_size_at(step), dtype=DOUBLE) * (curvature * (plain - centre))
        assert torch.equal(state["weights"], plain)


def test_the_nesterov_rule_is_that_of_torch_while_the_step_is_constant() -> None:
    method = Point(floor=0.1)
    assert against_torch(method, method.cycle(2, 20), lambda _: True) < 1e-12


def test_sghmc_at_temperature_zero_is_heavy_ball_momentum() -> None:
    method = Langevin(step_size=0.05, floor=0.05, exploration=0.0, **SAMPLING)
    assert against_torch(method, method.cycle(1, 40), lambda _: False) < 1e-12


def test_a_sampler_explores_with_nesterov_momentum_and_samples_without() -> None:
    method = Langevin(step_size=0.05, floor=0.05, exploration=0.5, **SAMPLING)
    cycle = method.cycle(2, 20)
    assert against_torch(method, cycle, lambda step: not cycle.samples_at(step)) < 1e-12
    assert against_torch(method, cycle, lambda _: False) > 1e-3


def test_adam_is_that_of_torch() -> None:
    method = Adam(step_size=0.05, first=0.8, second=0.99, floor=0.01)
    cycle, (start, centre, curvature) = method.cycle(2, 20), quadratic(2)
    formula = Formula(lambda weights: curvature * (weights - centre))
    reference = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.Adam([reference], betas=(0.8, 0.99))
    for step, state in enumerate(moved(method, cycle, beginning(method, start), formula, range(40))):
        optimiser.param_groups[0]["lr"] = cycle.step_size_at(step)
        reference.grad = curvature * (reference.detach() - centre)
        optimiser.step()
        torch.testing.assert_close(state["weights"], reference.detach(), rtol=0, atol=1e-12)


# Formulas


@pytest.mark.parametrize(
    ("deviation", "images", "decay"), [(1.0, 50_000, 2e-5), (0.2, 50_000, 5e-4), (0.5, 8, 0.5)]
)
def test_a_gaussian_prior_is_a_weight_decay(deviation: float, images: int, decay: float) -> None:
    assert prior_decay(deviation, images) == pytest.approx(decay)


def test_the_noise_has_the_stated_deviation_in_the_sampling_stage_only() -> None:
    method = Langevin(step_size=0.1, cycles=2, samples=1, exploration=0.6, temperature=0.3)
    cycle = method.cycle(4, 10)
    pace = Pace(method, cycle, 1000, torch.device("cpu"), DOUBLE)
    for step in range(cycle.steps):
        expected = 0.0
        if cycle.samples_at(step):
            expected = math.sqrt(2 * (1 - 0.9) * cycle.step_size_at(step) * 0.3 / 1000)
        assert pace.deviation(torch.tensor(step)).item() == pytest.approx(expected, rel=1e-12)


def test_noise_is_added_to_the_velocity_so_that_momentum_carries_it_on() -> None:
    noise, still = torch.tensor([0.5, -0.25]), torch.zeros(2)
    method = Langevin(momentum=0.8)
    quiet, noisy = (Step(torch.tensor(0), torch.tensor([0.1]), False, n) for n in (None, noise))
    once = method.update({"weights": torch.ones(2), "velocity": still}, still, noisy)
    twice = method.update(once, still, quiet)
    torch.testing.assert_close(once["weights"], 1 + noise)
    torch.testing.assert_close(twice["weights"], 1 + 1.8 * noise)


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        (Point, {"step_size": 0.0}, "step_size = 0.0"),
        (Point, {"momentum": 1.0}, "momentum = 1.0"),
        (Point, {"floor": -0.1}, "floor = -0.1"),
        (Langevin, {"step_size": -1.0}, "step_size = -1.0"),
        (Langevin, {"momentum": -0.1}, "momentum = -0.1"),
        (Langevin, {"temperature": -1.0}, "temperature = -1.0"),
        (Langevin, {"cycles": 0}, "cycles = 0"),
        (Langevin, {"samples": 0}, "samples = 0"),
        (Langevin, {"samples": 3, "mean_of": 4}, "mean_of = 4 is out of range; it must lie in 0 … 3"),
    ],
)
def test_senseless_rules_are_refused(kind: type, wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        kind(**wrong)


def test_noise_is_refused_in_a_step_that_looks_ahead() -> None:
    state = {"weights": torch.zeros(2), "velocity": torch.zeros(2)}
    step = Step(torch.tensor(0), torch.tensor([0.1]), True, torch.ones(2))
    with pytest.raises(UraenasError, match="explores"):
        Langevin().update(state, torch.zeros(2), step)
    still = Langevin(nesterov=False).update(state, torch.zeros(2), step)
    assert torch.equal(still["weights"], torch.ones(2))
