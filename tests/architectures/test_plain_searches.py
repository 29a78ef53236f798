"""Searches by queries against plain second versions of their rules."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import rankdata

from uraenas.architectures import DISTRIBUTIONS, bayesian, process, queried
from uraenas.base import draws

KEY = draws.key(5, "plain searches")


def apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


def test_reinforces_policy_is_adam_on_the_rewards_above_their_running_mean() -> None:
    counts, numbers = (2, 4, 3), np.random.default_rng(0)
    asked = [tuple(int(numbers.integers(count)) for count in counts) for _ in range(8)]
    rewards = numbers.random(8).tolist()
    here = DISTRIBUTIONS["reinforce"].make({"together": 3})
    found = here.policy(queried.told(here.initial(counts, 0), asked, rewards))["logits"].numpy()

    there = np.arange(4) < np.array(counts)[:, None]
    logits, first, second = np.zeros((3, 3, 4))
    baseline = rewards[0]
    for step, start in enumerate(range(0, 8, 3)):  # the last round has two
        p = np.where(there, np.exp(logits), 0)
        p /= p.sum(axis=1, keepdims=True)
        part = list(zip(asked[start : start + 3], rewards[start : start + 3], strict=True))
        gradient = -sum((one - baseline) * (np.eye(4)[list(options)] - p) for options, one in part) / len(
            part
        )
        first, second = 0.5 * first + 0.5 * gradient, 0.999 * second + 0.001 * gradient**2
        mean, square = first / (1 - 0.5 ** (step + 1)), second / (1 - 0.999 ** (step + 1))
        logits = logits - 0.3 * mean / (np.sqrt(square) + 1e-8)
        for _, one in part:
            baseline = 0.9 * baseline + 0.1 * one
    assert np.abs(np.where(there, found - logits, 0)).max() < 1e-12


def test_a_parent_is_the_best_of_a_tournament_among_the_living() -> None:
    """The child's chance: (k² − (k − 1)²)/25 of the parent that k of the five are no better than, by its neighbours."""
    known = [(0, 0, 0), (0, 0, 0), (2, 2, 2), (0, 0, 0), (1, 1, 1), (0, 2, 1), (2, 0, 1)]
    values = [0.99, 0.99, 0.3, 0.98, 0.5, 0.7, 0.1]  # the first two are dead
    here = DISTRIBUTIONS["evolution"].make({"population": 5, "tournament": 2})
    state = queried.told(here.initial((3, 3, 3), 0), known, values)
    drawn = Counter(here.propose(state, 2000, draws.at(KEY, 1), lambda options: True))
    expected: Counter = Counter()
    for better, place in enumerate(sorted(range(2, 7), key=lambda one: -values[one])):
        chance = ((5 - better) ** 2 - (4 - better) ** 2) / 25
        for child in itertools.product(range(3), repeat=3):
            expected[child] += chance / 6 if apart(child, known[place]) == 1 else 0
    possible = [child for child in expected if expected[child]]
    assert set(drawn) <= set(possible)
    chi = sum((drawn[child] - 2000 * expected[child]) ** 2 / (2000 * expected[child]) for child in possible)
    assert chi < len(possible) - 1 + 4 * math.sqrt(2 * (len(possible) - 1))


@pytest.mark.parametrize("together", [1, 3, 7])
def test_local_search_asks_for_neighbours_of_the_best_each_once_until_none_is_left(together: int) -> None:
    counts, numbers = (4, 3, 5, 3), np.random.default_rng(together)
    table = {options: numbers.random() for options in itertools.product(*map(range, counts))}

    def is_valid(options: tuple[int, ...]) -> bool:
        return options[:2] != (2, 0)

    def around(centre: tuple[int, ...]) -> set[tuple[int, ...]]:
        return {one for one in table if apart(one, centre) == 1 and is_valid(one)}

    here = DISTRIBUTIONS["local"].make({"together": together})
    state, centre, seen, optima = here.initial(counts, 0), None, set(), 0
    for number in range(100 // together):
        asked = here.propose(state, together, draws.at(KEY, number), is_valid)
        left = set() if centre is None else around(centre) - seen
        assert set(asked[: len(left)]) <= left
        assert len(set(asked) - seen) == together
        for one in asked:
            seen.add(one)
            centre = one if centre is None or table[one] > table[centre] else centre
            if not around(centre) - seen:
                assert all(table[other] < table[centre] for other in around(centre))
                centre, optima = None, optima + 1
        state = queried.told(state, asked, [table[one] for one in asked])
    assert optima > 1


def test_functions_are_draws_of_the_process_that_is_likeliest() -> None:
    """Mean and covariance by the textbook's formulas, the kernel by counting differences."""
    numbers = np.random.default_rng(0)
    every = list(itertools.product(range(3), repeat=3))
    known = [every[place] for place in numbers.permutation(27)[:12]]
    values = [sum(options) + 0.1 * numbers.normal() for options in known]
    here = DISTRIBUTIONS["bayesian"].make()
    state = queried.told(here.initial((3, 3, 3), 0), known, values)
    drawn = bayesian._functions(state, every, 4000, draws.at(KEY, 0)).numpy()

    def kernel(some: list, others: list, length: float) -> np.ndarray:
        return np.exp(-np.array([[apart(a, b) for b in others] for a in some]) / length**2)

    scores = ndtri((rankdata(values) - 0.5) / 12)

    def likelihood(choice: tuple[float, float]) -> float:
        own = kernel(known, known, choice[0]) + choice[1] * np.eye(12)
        return -scores @ np.linalg.solve(own, scores) / 2 - np.linalg.slogdet(own)[1] / 2

    length, noise = max(itertools.product(process.LENGTHS, process.NOISES), key=likelihood)
    own, cross = kernel(known, known, length) + noise * np.eye(12), kernel(every, known, length)
    mean = cross @ np.linalg.solve(own, scores)
    covariance = kernel(every, every, length) - cross @ np.linalg.solve(own, cross.T)
    error = np.sqrt(np.diag(covariance) / 4000)
    assert np.abs((drawn.mean(axis=1) - mean) / error).max() < 4.5
    assert np.abs(np.cov(drawn) - covariance).max() < 0.1
