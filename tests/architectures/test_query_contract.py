"""What every entry that is learned from queries keeps to, and how well each searches a made-up benchmark."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from choices import Choices
from table import OPTIONS, Table, searched
from torch import Tensor

from uraenas.architectures import DISTRIBUTIONS, Searched, categorical, factors, queried
from uraenas.architectures.reinforce import policy_gradient
from uraenas.base import draws
from uraenas.base.files import read_tensors, write_tensors

QUERIED = [name for name, row in DISTRIBUTIONS.items() if row.made.loop == "queries"]
UNEVEN = (3, 2, 4)
KEY = draws.key(0, "queries")


def likes_last(options: tuple[int, ...], counts: tuple[int, ...]) -> float:
    """An accuracy that is larger the nearer the options are to the last of each decision."""
    return sum(option / (count - 1) for option, count in zip(options, counts, strict=True)) / len(counts)


def learned(here: Any, counts: tuple[int, ...], rounds: int = 4) -> dict[str, Tensor]:
    state = here.initial(counts, 0)
    for number in range(rounds):
        asked = here.propose(state, 5, draws.at(KEY, number), lambda options: options[0] != 1)
        recipes = here.recipes(state, 5, draws.at(KEY, number)) if here.recipes else ()
        state = queried.told(state, asked, [likes_last(options, counts) for options in asked], recipes)
    return state


def small(name: str) -> Any:
    row = DISTRIBUTIONS[name]
    quick = {"together": 5, "population": 6, "first": 5, "candidates": 30}
    if name == "reinforce":
        quick["step_size"] = 0.5
    return row.make({key: value for key, value in quick.items() if key in row.settings})


@pytest.fixture(scope="module", params=QUERIED)
def entry(request: pytest.FixtureRequest) -> tuple[str, Any, dict[str, Tensor]]:
    here = small(request.param)
    return request.param, here, learned(here, UNEVEN, rounds=2)


def test_proposals_are_valid_and_a_function_of_state_and_key(entry: tuple) -> None:
    name, here, state = entry
    for before in (here.initial(UNEVEN, 0), state):
        first, again, other = (
            here.propose(before, 4, draws.at(KEY, number), lambda options: options[0] != 1)
            for number in (7, 7, 8)
        )
        assert first == again
        assert first != other
        for options in (*first, *other):
            assert all(0 <= option < count for option, count in zip(options, UNEVEN, strict=True))
            assert options[0] != 1
    if name in ("random", "local", "bayesian"):  # what is known is not asked for again
        assert not set(first) & set(queried.asked(state))
        assert len(set(first)) == 4
    exhausted = learned(here, (2, 2), rounds=3)  # where nearly all is known, it goes on all the same
    assert len(here.propose(exhausted, 4, draws.at(KEY, 9), lambda options: options[0] != 1)) == 4


def test_a_proposal_needs_nothing_but_the_queries(entry: tuple, tmp_path: Path) -> None:
    _, here, state = entry
    assert {*here.kept} <= state.keys()
    write_tensors(tmp_path / "state", state, {})
    stored, _ = read_tensors(tmp_path / "state")
    ours, theirs = (here.propose(one, 5, draws.at(KEY, 3), lambda options: True) for one in (state, stored))
    assert ours == theirs
    first, second = (Searched(Choices(UNEVEN), here, one).draw(5, seed=1) for one in (state, stored))
    assert first == second


def test_the_best_that_was_trained_stands_for_it(entry: tuple) -> None:
    _, here, state = entry
    assert here.mode(state).tolist() == list(queried.asked(state)[int(state["values"].argmax())])
    assert here.facts(state)["best"] == float(state["values"].max())


def test_shares_and_draws_fit_the_options_there_are(entry: tuple) -> None:
    _, here, state = entry
    absent = torch.arange(4) >= torch.tensor(UNEVEN)[:, None]
    for one in (here.initial(UNEVEN, 0), state):
        shares = here.shares(one)
        torch.testing.assert_close(shares.sum(dim=1), torch.ones(3, dtype=torch.float64))
        assert (shares[absent] == 0).all()
        found = Searched(Choices(UNEVEN), here, one)
        drawn, _ = found.draw(12, seed=2)
        assert len(drawn) == 12
        without, _ = found.draw(12, seed=2, draw_absent=False)
        assert not any(option.endswith("0") for architecture in without for option in architecture)
        assert all(isinstance(value, float | int) for value in here.facts(one).values())
    nothing = here.facts(Searched.nothing(Choices(UNEVEN), here).state)["entropy"]
    assert nothing == pytest.approx(sum(math.log(count) for count in UNEVEN))
    assert here.facts(state)["entropy"] < nothing


def test_of_its_first_queries_what_it_says_is_at_random_does_not_depend_on_what_it_is_told(
    entry: tuple,
) -> None:
    """And that of the next round does; but for random search, which learns from nothing."""
    name, here, _ = entry
    ways = {"architectures": lambda state, key: here.propose(state, 5, key, lambda options: True)}
    if here.recipes:
        ways["recipes"] = lambda state, key: here.recipes(state, 5, key)
    assert set(here.at_random.values()) == (set() if name == "random" else ways.keys())
    known = learned(here, (5,) * 6, rounds=6)
    told = {**known, "values": known["values"].flip(0)}
    for what, ask in ways.items():
        differ = [
            ask(queried.first(known, count), KEY) != ask(queried.first(told, count), KEY)
            for count in range(0, 30, here.together)
        ]
        settings = [setting for setting, of in here.at_random.items() if of == what]
        rounds = math.ceil(getattr(here, settings[0]) / here.together) if settings else len(differ)
        assert differ[: rounds + 1] == [False] * rounds + [True] * bool(settings), what


def test_colder_draws_are_better(entry: tuple) -> None:
    _, here, state = entry
    found = Searched(Choices(UNEVEN), here, state)
    means = []
    for temperature in (0.01, 1.0):
        drawn, _ = found.draw(25, seed=3, temperature=temperature)
        indices = [tuple(int(option[1]) for option in architecture) for architecture in drawn]
        means.append(np.mean([likes_last(options, UNEVEN) for options in indices]))
    assert means[0] >= means[1] - 0.02


@pytest.mark.parametrize("name", ["random", "local", "evolution"])
def test_draws_of_a_population_are_equally_likely_and_colder_ones_are_the_first(name: str) -> None:
    """At T = ½ the first k of n have a chance of √(k/n)."""
    here = DISTRIBUTIONS[name].make({"population": 4})
    every = list(itertools.product(*map(range, UNEVEN)))[::5]
    state = queried.told(here.initial(UNEVEN, 0), every, list(range(len(every))))
    for temperature, power in ((1.0, 1.0), (0.5, 0.5)):
        keys = (draws.at(KEY, number) for number in range(800))
        drawn = [tuple(here.scores(state, key, temperature).argmax(dim=1).tolist()) for key in keys]
        for k, _ in enumerate(here.members(state), 1):
            chance = (k / 4) ** power
            share = np.mean([one in here.members(state)[:k] for one in drawn])
            assert abs(share - chance) <= 4 * math.sqrt(chance * (1 - chance) / 800)


@pytest.mark.parametrize("name", ["random", "local", "bayesian"])
def test_what_is_asked_for_is_new_while_there_is_anything_new(name: str) -> None:
    here = DISTRIBUTIONS[name].make()
    state = here.initial(UNEVEN, 0)
    for number in range(2):
        asked = here.propose(state, 12, draws.at(KEY, number), lambda options: True)
        state = queried.told(state, asked, [likes_last(options, UNEVEN) for options in asked])
    assert len(set(queried.asked(state))) == math.prod(UNEVEN)


# Recipes


def test_recipes_lie_within_their_bounds_and_are_a_function_of_state_and_key() -> None:
    here = DISTRIBUTIONS["agebo"].make({"first": 5, "step_size": (0.25, 4.0), "prior_deviation": (2.0, 2.0)})
    for state in (here.initial(UNEVEN, 0), learned(here, UNEVEN, rounds=2)):
        first, again, other = (here.recipes(state, 4, draws.at(KEY, number)) for number in (7, 7, 8))
        assert first == again
        assert first != other
        assert all(0.25 <= step_size <= 4 and deviation == 2.0 for step_size, deviation in first)
        assert len(set(first)) == 4
    many = here.recipes(here.initial(UNEVEN, 0), 1000, KEY)
    assert len(set(many)) == 1000
    assert abs(np.log2([step_size for step_size, _ in many]).mean()) < 0.2  # log-uniform
    assert here.facts(state)["best_step_size"] == state["recipes"][state["values"].argmax(), 0]


def test_a_factor_lies_between_its_bounds_as_its_logarithm_does() -> None:
    bounds = (0.1, 3.0)
    assert math.isclose(factors.between(bounds, 0.3), 0.1 * 30**0.3)
    for share in (0.0, 0.3, 1.0):
        assert math.isclose(factors.share_of(bounds, factors.between(bounds, share)), share, abs_tol=1e-12)
    assert factors.share_of((2.0, 2.0), 2.0) == 0


def test_later_recipes_are_nearer_the_best_one_than_random_ones() -> None:
    """Where an accuracy depends on the recipe, on the architecture and on luck."""
    here, best = DISTRIBUTIONS["agebo"].make(), np.log([3.0, 0.6])

    def away(recipes: Any) -> np.ndarray:
        return np.abs(np.log(recipes) - best) / np.log([100, 10])  # shares of the ranges

    for seed in range(3):
        key, luck = draws.key(seed, "recipes"), np.random.default_rng(seed)
        state = here.initial(UNEVEN, 0)
        for number in range(5):
            asked = here.propose(state, 10, draws.at(key, number), lambda options: True)
            recipes = here.recipes(state, 10, draws.at(key, 10 + number))
            good = np.exp(-((4 * away(recipes)) ** 2).sum(axis=1)) + luck.normal(0, 0.05, 10)
            values = [
                0.1 * likes_last(options, UNEVEN) + one for options, one in zip(asked, good, strict=True)
            ]
            state = queried.told(state, asked, values, recipes)
        at_random = here.recipes(here.initial(UNEVEN, 0), 300, key)
        assert away(state["recipes"][-20:].numpy()).mean() < 0.6 * away(at_random).mean()


# Rules


def test_the_oldest_of_a_population_dies_and_a_child_differs_in_one_decision() -> None:
    here = DISTRIBUTIONS["evolution"].make({"together": 1, "population": 4, "tournament": 4})
    state = searched(here, Table(0), 12, 0)
    known = queried.asked(state)
    assert sorted(here.members(state)) == sorted(known[-4:])
    for place in range(4, 12):
        parents = known[place - 4 : place]
        apart = [sum(a != b for a, b in zip(known[place], parent, strict=True)) for parent in parents]
        assert 1 in apart
    assert len(here.members(queried.first(state, 3))) == 3  # before there are as many, all are alive
    with_all = DISTRIBUTIONS["evolution"].make({"together": 1, "population": 4, "tournament": 500})
    best = known[queried.best_first(state, range(8, 12))[0]]
    (child,) = with_all.propose(state, 1, draws.at(KEY, 0), lambda options: True)
    assert sum(a != b for a, b in zip(child, best, strict=True)) == 1


def test_local_search_ends_only_where_no_neighbour_is_better() -> None:
    here, table = DISTRIBUTIONS["local"].make({"together": 1}), Table(1)
    state = searched(here, table, 260, 0)
    known, values = queried.asked(state), state["values"].tolist()
    for place in range(1, len(known)):
        apart = [sum(a != b for a, b in zip(known[place], other, strict=True)) for other in known[:place]]
        best = max(range(place), key=lambda one: values[one])
        if 1 not in apart:  # begun anew: what was climbed to is a local optimum
            around = queried.neighbours(known[best], state)
            assert set(around) <= set(known[:place])
            assert all(table[one] <= values[best] for one in around)


def test_reinforces_policy_gradient_is_unbiased_on_a_bandit() -> None:
    """Against the exact gradient of the expected reward of three two-armed and five-armed bandits."""
    policy = categorical.initial_logits((2, 5, 3), key=3)
    policy["logits"] = policy["logits"] * 600
    p = categorical.probabilities(policy)
    rewards = torch.tensor([[1.0, -0.5, 0, 0, 0], [0.2, 0.9, -1, 0.4, 0.1], [0.5, 0.3, 0.8, 0, 0]]).double()
    exact = p * (rewards - (p * rewards).sum(dim=-1, keepdim=True))
    count = 2000
    drawn = torch.stack(
        [categorical.perturbed(policy, draws.at(KEY, number)).argmax(dim=-1) for number in range(count)]
    )
    value = rewards[torch.arange(3), drawn].sum(dim=-1)
    for baseline in (0.0, 1.5):
        each = torch.stack(
            [
                policy_gradient(policy, drawn[k : k + 10], value[k : k + 10] - baseline)
                for k in range(0, count, 10)
            ]
        )
        deviation = each.std(dim=0) / math.sqrt(len(each)) + 1e-9
        assert ((each.mean(dim=0) - exact) / deviation).abs().max() < 4.5
        assert deviation.max() < 0.06


def test_a_policy_moves_towards_what_is_rewarded() -> None:
    here = small("reinforce")
    state = learned(here, UNEVEN, rounds=20)
    assert here.favour(state).argmax(dim=-1).tolist() == [2, 1, 3]


# A made-up benchmark


def courses(name: str, queries: int, repeats: int, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """The best accuracies after each query [R, Q], and how many of a table are better [R, Q]."""
    here, tables = DISTRIBUTIONS[name].make(settings), [Table(seed) for seed in range(repeats)]
    states = [searched(here, table, queries, seed) for seed, table in enumerate(tables)]
    best = np.array([np.maximum.accumulate(state["values"].numpy()) for state in states])
    every = [np.sort(table.accuracy, axis=None) for table in tables]
    return best, np.array(
        [len(each) - np.searchsorted(each, own, "right") for each, own in zip(every, best, strict=True)]
    )


# queries → mean and spread of the answer on NAS-Bench-201
PUBLISHED = {
    "random": {50: (93.63, 0.34), 100: (93.78, 0.28), 200: (93.90, 0.24), 500: (94.01, 0.23)},
    "evolution": {50: (93.77, 0.37), 100: (93.97, 0.32), 200: (94.12, 0.27), 500: (94.22, 0.25)},
}


def test_the_best_found_is_as_good_as_on_the_benchmark_and_better_the_longer_one_searches() -> None:
    """Published: score on validation, answer on test images. Here both are the table's, so no luck is lost."""
    assert len(OPTIONS) == 6
    rank = {}
    for name, published in PUBLISHED.items():
        settings = {"together": 1} if name == "evolution" else {}
        found, better = courses(name, max(published), 4, **settings)
        for queries, (mean, spread) in published.items():
            assert abs(found[:, queries - 1].mean() - mean) < spread, (name, queries)
            rank[name, queries] = better[:, queries - 1].mean()
        assert all(rank[name, few] > rank[name, many] for few, many in itertools.pairwise(published)), name
    assert all(rank["evolution", queries] < rank["random", queries] / 1.5 for queries in PUBLISHED["random"])
    assert rank["evolution", 500] < 1  # the optimum, in most tables


def test_bayesian_optimisation_finds_the_optimum_with_100_queries() -> None:
    found, better = courses("bayesian", 100, 2)
    assert found[:, 99].max() == pytest.approx(94.37)
    assert (np.diff(better[:, [9, 49, 99]].mean(axis=0)) < 0).all()  # the first ten are at random
    for queries in (50, 100):  # better than evolution, by most of its spread
        mean, spread = PUBLISHED["evolution"][queries]
        assert found[:, queries - 1].mean() > mean + 0.6 * spread
