"""Gaussians over weights: SWAG's covariance, and schedules that gather samples for it."""

import math

import pytest
import torch
from chains_in_memory import DOUBLE

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.weights import WEIGHTS, Cycle
from uraenas.weights.swag import Gaussian

SAMPLES = list(
    draws.normal(torch.tensor(5), 6 * 4, DOUBLE).view(6, 4) @ torch.tril(torch.ones(4, 4)).double()
)


def test_the_covariance_of_swags_draws_is_the_one_it_says() -> None:
    """scale · (diag σ² + D Dᵀ / (K − 1)), of the K newest samples."""
    rank, scale = 4, 0.5
    gaussian = Gaussian.through(SAMPLES, rank)
    drawn = gaussian.draw(draws.words(torch.tensor(8), 20_000)[:, None], scale)  # a row for each key
    every = torch.stack(SAMPLES)
    apart = (every - every.mean(dim=0))[:rank]
    expected = scale * (torch.diag(every.var(dim=0, correction=0)) + apart.T @ apart / (rank - 1))
    deviation = expected.diagonal().sqrt()
    torch.testing.assert_close(
        torch.cov(drawn.T) / torch.outer(deviation, deviation),
        expected / torch.outer(deviation, deviation),
        atol=0.04,
        rtol=0,
    )
    assert ((drawn.mean(dim=0) - every.mean(dim=0)).abs() < 4 * deviation / math.sqrt(len(drawn))).all()


def test_swag_without_scale_is_the_mean_of_all_samples() -> None:
    method = WEIGHTS["swag"].make({"scale": 0.0, "draws": 3})
    found = method.candidates(SAMPLES, [0] * 6, key=1)
    assert [one.samples for one in found] == [tuple(range(6))] * 3
    for one in found:
        assert torch.equal(one.weights, torch.stack(SAMPLES).mean(dim=0))


def test_swags_draws_are_keyed_by_chain_and_number() -> None:
    method = WEIGHTS["swag"].make()
    one, again, other = (method.candidates(SAMPLES, [0] * 6, key) for key in (1, 1, 2))
    assert torch.equal(one[1].weights, again[1].weights)
    assert not torch.equal(one[1].weights, other[1].weights)
    assert not torch.equal(one[0].weights, one[1].weights)
    fewer = WEIGHTS["swag"].make({"draws": 2}).candidates(SAMPLES, [0] * 6, 1)
    assert torch.equal(fewer[1].weights, one[1].weights)


def test_a_level_stage_begins_where_the_cosine_has_come_down_to_it() -> None:
    cycle = Cycle(20, 5, 0.4, exploration=0.5, samples_per_cycle=6, level=0.25)
    sizes = [cycle.step_size_at(step) for step in range(cycle.steps)]
    assert sizes[0] == 0.4
    assert sizes[25] == pytest.approx((0.4 + 0.1) / 2)  # half way down
    assert sizes[50:] == [pytest.approx(0.1)] * 50
    assert sizes[:51] == sorted(sizes[:51], reverse=True)
    assert [cycle.samples_at(step) for step in (49, 50)] == [False, True]
    assert [epoch for epoch in range(20) if cycle.collects_after(epoch)] == list(range(14, 20))
    whole = Cycle(4, 2, 0.1, exploration=0.0, level=0.5)
    assert [whole.step_size_at(step) for step in (0, 7)] == [0.05, 0.05]
    with pytest.raises(UraenasError, match="level = 2"):
        Cycle(4, 2, 0.1, level=2)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("swag", {"samples": 1}, "samples = 1"),
        ("swag", {"rank": 1}, "rank = 1"),
        ("swag", {"scale": -1.0}, "scale = -1.0"),
        ("swag", {"level": 0.0}, "level = 0.0"),
        ("fge", {"peak": 0.0}, "peak = 0.0"),
        ("fge", {"samples": 0}, "samples = 0"),
    ],
)
def test_senseless_settings_are_refused(name: str, wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        WEIGHTS[name].make(wrong)


def test_too_few_epochs_for_the_samples_are_refused() -> None:
    for name in ("swag", "fge"):
        with pytest.raises(UraenasError, match="of which each needs one"):
            WEIGHTS[name].make({"samples": 10, "exploration": 0.5}).check(16)
