"""Keyed draws: the bits are SplitMix64's, and the numbers made of them have the right distributions."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from uraenas.base import draws

COUNT = 20_000
KEYS = [draws.key(seed, "test") for seed in range(3)]
MASK = 2**64 - 1


def plain_mix(word: int) -> int:
    """SplitMix64's finaliser on Python's integers."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def plain_words(seed: int, count: int) -> list[int]:
    """The generator as it was published: a state that grows by a constant, mixed."""
    found, state = [], seed & MASK
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        found.append(plain_mix(state))
    return found


def unsigned(words: torch.Tensor) -> list[int]:
    return [word & MASK for word in words.tolist()]


def test_the_plain_reference_gives_the_published_values() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert plain_words(1234567, 4) == published


@pytest.mark.parametrize("seed", [0, 1, -1, 1234567, 2**63 - 1, -(2**63), *KEYS])
def test_words_equal_a_plain_integer_reference(seed: int) -> None:
    assert unsigned(draws.words(torch.tensor(seed), 50)) == plain_words(seed, 50)


@pytest.mark.parametrize("step", [0, 1, 2, 77, 2**40])
def test_the_key_of_a_step_equals_a_plain_integer_reference(step: int) -> None:
    expected = plain_mix((KEYS[0] + plain_mix(step * 0x9E3779B97F4A7C15 & MASK)) & MASK)
    assert draws.at(KEYS[0], step).item() & MASK == expected


def test_keys_differ_by_seed_and_purpose_and_are_the_same_every_time() -> None:
    purposes = [
        (0,),
        (1,),
        (0, "a"),
        (0, "b"),
        (0, "a", 1),
        (0, "a", 2),
        (0, "a", "1", "2"),
        (11, "a"),
        (1, "1a"),
    ]
    keys = [draws.key(*purpose) for purpose in purposes]
    assert len(set(keys)) == len(keys)
    assert keys == [draws.key(*purpose) for purpose in purposes]
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert draws.key(0, "pinned", 3) == 3107284946027737042


def test_steps_of_a_key_do_not_meet() -> None:
    streams = torch.stack([draws.words(draws.at(key, step), 100) for key in KEYS for step in range(50)])
    assert len(streams.unique()) == streams.numel()


def test_a_step_drawn_as_a_tensor_equals_the_step_drawn_as_a_number() -> None:
    steps = torch.arange(10)
    together = draws.at(torch.tensor(KEYS[0]), steps)
    assert together.tolist() == [draws.at(KEYS[0], int(step)).item() for step in steps]


@pytest.mark.parametrize("draw", [draws.words, draws.uniform, lambda key, n: draws.integers(key, n, 10)])
def test_a_longer_draw_begins_with_the_shorter_one(draw: Callable[..., torch.Tensor]) -> None:
    key = draws.at(KEYS[0], 0)
    assert torch.equal(draw(key, 1000)[:10], draw(key, 10))


def test_drawing_leaves_the_global_generators_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    draws.log_gamma(draws.at(KEYS[0], 0), torch.ones(5))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_draws_are_uniform_on_the_open_interval(key: int, dtype: torch.dtype) -> None:
    sample = draws.uniform(draws.at(key, 0), COUNT, dtype)
    assert sample.dtype == dtype
    assert sample.min() > 0
    assert sample.max() < 1
    assert stats.kstest(sample.double().numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_extreme_words_stay_inside_the_open_interval(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    extremes = torch.tensor([0, -1, -(2**63), 2**63 - 1])
    monkeypatch.setattr(draws, "words", lambda key, count: extremes)
    sample = draws.uniform(torch.tensor(0), 4, dtype)
    assert sample.min() > 0
    assert sample.max() < 1
    assert torch.isfinite(draws.normal(torch.tensor(0), 8, dtype)).all()
    assert draws.integers(torch.tensor(0), 4, 10).tolist() == [0, 9, 5, 4]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_draws_are_normal_and_uncorrelated(key: int, dtype: torch.dtype) -> None:
    sample = draws.normal(draws.at(key, 1), COUNT + 1, dtype)
    assert sample.dtype == dtype
    assert sample.shape == (COUNT + 1,)
    values = sample.double().numpy()
    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert abs(values.mean()) < 4 / np.sqrt(COUNT)
    assert abs(values.var() - 1) < 4 * np.sqrt(2 / COUNT)
    assert abs(stats.kurtosis(values)) < 4 * np.sqrt(24 / COUNT)
    half = (COUNT + 2) // 2  # cosine and sine of one angle
    for lag in (1, 2, half):
        assert abs(np.corrcoef(values[:-lag], values[lag:])[0, 1]) < 4.5 / np.sqrt(len(values) - lag)


@pytest.mark.parametrize("below", [1, 2, 7, 1000])
def test_integers_are_uniform_below_the_bound(below: int) -> None:
    sample = draws.integers(draws.at(KEYS[0], 2), COUNT, below)
    assert sample.min() >= 0
    assert sample.max() < below
    counts = torch.bincount(sample, minlength=below).numpy()
    assert below == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_permutations_hold_every_number_once_and_reach_every_order() -> None:
    assert draws.permutation(draws.at(KEYS[0], 0), 1000).sort().values.tolist() == list(range(1000))
    orders: dict[tuple[int, ...], int] = {}
    for step in range(960):
        order = tuple(draws.permutation(draws.at(KEYS[1], step), 4).tolist())
        orders[order] = orders.get(order, 0) + 1
    assert len(orders) == 24
    assert stats.chisquare(list(orders.values())).pvalue > 1e-3


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.0, 40.0])
def test_gamma_draws_are_gamma(key: int, shape: float) -> None:
    sample = draws.log_gamma(draws.at(key, 3), torch.full((COUNT,), shape)).exp().numpy()
    assert stats.kstest(sample, stats.gamma(shape).cdf).pvalue > 1e-3
    assert abs(sample.mean() - shape) < 4 * np.sqrt(shape / COUNT)


def test_gamma_draws_of_unequal_shapes_keep_to_their_places() -> None:
    shape = torch.tensor([[0.2, 2.0], [8.0, 0.7]])
    sample = draws.log_gamma(draws.at(KEYS[2], 0), shape.expand(4000, 2, 2)).exp()
    assert sample.dtype == torch.float64
    for row in range(2):
        for column in range(2):
            reference = stats.gamma(float(shape[row, column])).cdf
            assert stats.kstest(sample[:, row, column].numpy(), reference).pvalue > 1e-3
    assert abs(np.corrcoef(sample.view(-1, 4).T.numpy())[np.triu_indices(4, 1)]).max() < 5 / np.sqrt(4000)


def test_gamma_draws_of_tiny_shapes_are_finite() -> None:
    sample = draws.log_gamma(draws.at(KEYS[0], 4), torch.full((1000,), 1e-4)).exp()
    assert torch.isfinite(sample).all()
    assert (sample >= 0).all()
