"""The update rules: samplers recover known distributions, and without noise they are plain gradient descent."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.inference import Cycle, WeightRule, langevin

DOUBLE = torch.float64


def sample(rule: WeightRule, gradient, start: Tensor, keep: int, key: int) -> Tensor:
    """Run many chains side by side, as training does; returns the last `keep` states [keep, chains, dimension]."""
    weights, velocity = start, torch.zeros_like(start)
    kept = []
    for step in range(rule.cycle.steps):
        deviation = rule.noise_deviation_at(step)
        noise = None
        if deviation > 0:
            noise = deviation * draws.normal(draws.at(key, step), start.numel(), DOUBLE).view_as(start)
        step_size = torch.tensor(rule.cycle.step_size_at(step), dtype=DOUBLE)
        weights, velocity = rule.update(weights, velocity, gradient(weights), step_size, noise)
        if step >= rule.cycle.steps - keep:
            kept.append(weights)
    return torch.stack(kept)


# A known posterior: N images whose likelihood is Gaussian in w with precision N·P around m, and the prior N(0, σ²).
IMAGES, PRIOR_DEVIATION = 50, 0.5
PRECISION = torch.tensor([[3.0, 1.2], [1.2, 1.0]], dtype=DOUBLE) / 10  # of one image
CENTRE = torch.tensor([0.7, -1.1], dtype=DOUBLE)
POSTERIOR_PRECISION = IMAGES * PRECISION + torch.eye(2, dtype=DOUBLE) / PRIOR_DEVIATION**2
POSTERIOR_MEAN = torch.linalg.solve(POSTERIOR_PRECISION, IMAGES * PRECISION @ CENTRE)


def mean_loss_gradient(weights: Tensor) -> Tensor:
    return (weights - CENTRE) @ PRECISION


@pytest.mark.parametrize(("momentum", "step_size", "steps"), [(0.0, 0.1, 500), (0.9, 0.01, 500)])
@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_the_samplers_recover_mean_and_covariance_of_a_known_gaussian(
    momentum: float, step_size: float, steps: int, temperature: float
) -> None:
    """SGLD (no momentum) and SGHMC at T = 1 give the posterior; at another T its covariance is T times that."""
    constant = Cycle(1, steps, step_size, exploration=0.0, floor=step_size)
    rule = WeightRule(constant, IMAGES, PRIOR_DEVIATION, momentum, temperature)
    states = sample(rule, mean_loss_gradient, torch.zeros(15_000, 2, dtype=DOUBLE), keep=1, key=3)[0]
    covariance = temperature * torch.linalg.inv(POSTERIOR_PRECISION)
    deviation = covariance.diagonal().sqrt()
    assert ((states.mean(dim=0) - POSTERIOR_MEAN).abs() < 4 * deviation / math.sqrt(len(states))).all()
    found = torch.cov(states.T) / torch.outer(deviation, deviation)
    expected = covariance / torch.outer(deviation, deviation)
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0)
    assert abs(expected[0, 1]) > 0.4  # the coordinates are correlated, so that this says something


# 25 narrow modes on a grid, as in the paper on cyclical sampling.
GRID = torch.tensor([-4.0, -2.0, 0.0, 2.0, 4.0], dtype=DOUBLE)
MODES = torch.cartesian_prod(GRID, GRID)
VARIANCE = 0.03


def mixture_gradient(weights: Tensor) -> Tensor:
    """Of −log Σ N(w; μ_i, 0.03 I)/25."""
    offsets = weights[:, None] - MODES
    share = torch.softmax(-(offsets**2).sum(dim=-1) / (2 * VARIANCE), dim=1)
    return (share[..., None] * offsets).sum(dim=1) / VARIANCE


def modes_visited(states: Tensor) -> list[int]:
    """For each chain, in how many modes it has at least 50 of its states."""
    distance = torch.cdist(states.transpose(0, 1), MODES.expand(states.shape[1], -1, -1))
    return ((distance < 0.5).sum(dim=1) >= 50).sum(dim=1).tolist()


def test_cyclical_sgld_visits_most_modes_where_plain_sgld_stays_in_few() -> None:
    """All chains start in the middle mode. Plain SGLD has a step size at which it can still sample one mode."""
    steps, cycles, chains = 6_000, 30, 8
    start = torch.zeros(chains, 2, dtype=DOUBLE)
    cyclical = WeightRule(Cycle(cycles, steps // cycles, 0.09, cycles, exploration=0.25), 1, 1e6, 0.0, 1.0)
    plain = WeightRule(Cycle(1, steps, 0.02, exploration=0.0, floor=0.02), 1, 1e6, 0.0, 1.0)
    visited = {
        name: modes_visited(sample(rule, mixture_gradient, start, steps, key=11))
        for name, rule in (("cyclical", cyclical), ("plain", plain))
    }
    assert min(visited["cyclical"]) >= 13, visited
    assert max(visited["plain"]) <= 3, visited


# Without noise


def quadratic(seed: int, size: int = 200) -> tuple[Tensor, Tensor, Tensor]:
    key = draws.key(seed, "quadratic")
    start, centre, curvature = (draws.normal(draws.at(key, n), size, DOUBLE) for n in range(3))
    return start, centre, curvature.abs() + 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sgld_at_temperature_zero_is_gradient_descent_bit_for_bit(dtype: torch.dtype) -> None:
    start, centre, curvature = (vector.to(dtype) for vector in quadratic(0))
    cycle = Cycle(1, 30, 0.1, exploration=0.0)
    rule = WeightRule(cycle, images=100, prior_deviation=1.0, momentum=0.0, temperature=0.0)
    weights, velocity = start, torch.zeros_like(start)
    plain = start.clone()
    reference = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.SGD([reference], lr=0.1, weight_decay=rule.decay)
    for step in range(cycle.steps):
        assert rule.noise_deviation_at(step) == 0
        step_size = torch.tensor(cycle.step_size_at(step), dtype=dtype)
        weights, velocity = rule.update(weights, velocity, curvature * (weights - centre), step_size, None)
        plain = plain - step_size * (curvature * (plain - centre) + rule.decay * plain)
        optimiser.param_groups[0]["lr"] = step_size.item()
        reference.grad = curvature * (reference.detach() - centre)
        optimiser.step()
        assert torch.equal(weights, plain)
    torch.testing.assert_close(
        weights, reference.detach(), rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-14
    )


def test_the_nesterov_rule_is_that_of_torch_while_the_step_is_constant() -> None:
    start, centre, curvature = quadratic(1)
    cycle = Cycle(2, 20, 0.1, floor=0.1)
    rule = WeightRule(cycle, images=300, prior_deviation=0.3, momentum=0.9, nesterov=True)
    weights, velocity = start, torch.zeros_like(start)
    reference = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.SGD([reference], lr=0.1, momentum=0.9, weight_decay=rule.decay, nesterov=True)
    for step in range(cycle.steps):
        lr = cycle.step_size_at(step)
        weights, velocity = rule.update(
            weights, velocity, curvature * (weights - centre), torch.tensor(lr, dtype=DOUBLE), None
        )
        optimiser.param_groups[0]["lr"] = lr
        reference.grad = curvature * (reference.detach() - centre)
        optimiser.step()
        torch.testing.assert_close(weights, reference.detach(), rtol=0, atol=1e-12)


def test_sghmc_at_temperature_zero_is_heavy_ball_momentum() -> None:
    start, centre, curvature = quadratic(2)
    rule = WeightRule(Cycle(1, 40, 0.05, floor=0.05), images=300, prior_deviation=0.3, momentum=0.9)
    weights, velocity = start, torch.zeros_like(start)
    reference = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.SGD([reference], lr=0.05, momentum=0.9, weight_decay=rule.decay)
    for _ in range(40):
        weights, velocity = rule.update(
            weights, velocity, curvature * (weights - centre), torch.tensor(0.05, dtype=DOUBLE), None
        )
        reference.grad = curvature * (reference.detach() - centre)
        optimiser.step()
    torch.testing.assert_close(weights, reference.detach(), rtol=0, atol=1e-12)


def test_a_sampler_explores_with_nesterov_momentum_and_samples_without() -> None:
    start, centre, curvature = quadratic(3)
    cycle = Cycle(
        1, 40, 0.05, exploration=0.5, floor=0.05
    )  # with a constant step both forms of velocity agree
    rule = WeightRule(cycle, images=300, prior_deviation=0.3, momentum=0.9, nesterov=True)
    weights, velocity = start, torch.zeros_like(start)
    reference = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.SGD([reference], lr=0.05, momentum=0.9, weight_decay=rule.decay, nesterov=True)
    for step in range(cycle.steps):
        exploring = not cycle.samples_at(step)
        optimiser.param_groups[0]["nesterov"] = exploring
        weights, velocity = rule.update(
            weights,
            velocity,
            curvature * (weights - centre),
            torch.tensor(0.05, dtype=DOUBLE),
            exploring=exploring,
        )
        reference.grad = curvature * (reference.detach() - centre)
        optimiser.step()
        torch.testing.assert_close(weights, reference.detach(), rtol=0, atol=1e-12)


# Formulas


@pytest.mark.parametrize(
    ("deviation", "images", "decay"), [(1.0, 50_000, 2e-5), (0.2, 50_000, 5e-4), (0.5, 8, 0.5)]
)
def test_a_gaussian_prior_is_a_weight_decay(deviation: float, images: int, decay: float) -> None:
    assert langevin.prior_decay(deviation, images) == pytest.approx(decay)
    rule = WeightRule(Cycle(1, 1, 0.1), images, deviation, momentum=0.0)
    weights = torch.tensor([2.0, -3.0], dtype=DOUBLE)
    moved, _ = rule.update(weights, torch.zeros(2), torch.zeros(2), torch.tensor(0.1), None)
    torch.testing.assert_close(moved, weights * (1 - 0.1 * decay))


def test_the_noise_has_the_stated_deviation_in_the_sampling_stage_only() -> None:
    cycle = Cycle(4, 10, 0.1, cycles=2, exploration=0.6)
    rule = WeightRule(cycle, images=1000, prior_deviation=1.0, momentum=0.9, temperature=0.3)
    for step in range(cycle.steps):
        expected = 0.0
        if cycle.samples_at(step):
            expected = math.sqrt(2 * (1 - 0.9) * cycle.step_size_at(step) * 0.3 / 1000)
        assert rule.noise_deviation_at(step) == pytest.approx(expected, rel=1e-12)
    assert langevin.noise_deviation(0.1, 1.0, 100, 0.0) == pytest.approx(math.sqrt(2 * 0.1 / 100))


def test_noise_is_added_to_the_velocity_so_that_momentum_carries_it_on() -> None:
    noise = torch.tensor([0.5, -0.25], dtype=DOUBLE)
    weights, velocity = langevin.update(torch.ones(2), torch.zeros(2), torch.zeros(2), 0.1, 0.9, noise)
    np.testing.assert_allclose(weights, 1 + noise)
    np.testing.assert_allclose(velocity, noise)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"momentum": 1.0}, "momentum = 1.0"),
        ({"momentum": -0.1}, "momentum = -0.1"),
        ({"temperature": -1.0}, "temperature = -1.0"),
        ({"prior_deviation": 0.0}, "prior_deviation = 0.0"),
    ],
)
def test_senseless_rules_are_refused(wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        WeightRule(**{"cycle": Cycle(1, 1, 0.1), "images": 10, "prior_deviation": 1.0, **wrong})


def test_noise_is_refused_in_a_step_that_looks_ahead() -> None:
    rule = WeightRule(Cycle(1, 4, 0.1, exploration=0.5), 10, 1.0, temperature=1.0, nesterov=True)
    still = torch.zeros(2)
    with pytest.raises(UraenasError, match="explores"):
        rule.update(still, still, still, torch.tensor(0.1), torch.ones(2), exploring=True)
    moved, _ = rule.update(still, still, still, torch.tensor(0.1), torch.ones(2), exploring=False)
    assert torch.equal(moved, torch.ones(2))
