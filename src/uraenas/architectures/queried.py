"""What distributions that are learned from queries have in common: the queries, and populations of them.

The state is `queried` [Q, D], the options of all architectures that were trained, in order, and `values` [Q], how well
each did: its accuracy on validation images. Who asks for recipes, too, has `recipes` [Q, R], their factors. All are
float64, so that a file of them is one of numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from uraenas.architectures.distribution import IsValid, entropy_of, option_mask
from uraenas.architectures.factors import PLAIN, Factors
from uraenas.base import draws
from uraenas.base.errors import UraenasError, require_range
from uraenas.spaces import Tensors

KEPT = ("queried", "values", "options")
MOST_TRIES = 10_000  # of one proposal, until it is a network
MOST_SEEN = 100  # tries until one is found that was not trained before
Options = tuple[int, ...]


def nothing_queried(options: Sequence[int]) -> Tensors:
    """The state before the first query."""
    counts = torch.tensor(options, dtype=torch.float64)
    queried = torch.zeros(0, len(options), dtype=torch.float64)
    return {"queried": queried, "values": queried.new_zeros(0), "options": counts, **option_mask(options)}


def told(
    state: Tensors, queried: Sequence[Options], values: Sequence[float], recipes: Sequence[Factors] = ()
) -> Tensors:
    """The state after these queries, too; without recipes they were trained as all are."""
    every = {"queried": queried, "values": values, "recipes": recipes or [PLAIN] * len(values)}
    new = {name: torch.tensor(rows, dtype=torch.float64) for name, rows in every.items() if name in state}
    return {**state, **{name: torch.cat([state[name], rows]) for name, rows in new.items()}}


def first(state: Tensors, count: int) -> Tensors:
    """The state as it was after so many queries."""
    by_query = [name for name in ("queried", "values", "recipes") if name in state]
    return {**state, **{name: state[name][:count] for name in by_query}}


def counts_of(state: Tensors) -> list[int]:
    """How many options each decision has."""
    return [int(count) for count in state["options"].tolist()]


def asked(state: Tensors) -> list[Options]:
    return [tuple(int(option) for option in row) for row in state["queried"].tolist()]


def best_first(state: Tensors, among: Sequence[int] | None = None) -> list[int]:
    """Positions of queries, all or those given, by their values; of two that are tied the earlier comes first."""
    values = state["values"].tolist()
    places = range(len(values)) if among is None else among
    return sorted(places, key=lambda place: (-values[place], place))


def best(state: Tensors) -> Tensor:
    """The best architecture that was trained [D]; before the first query, the first options."""
    if not len(state["values"]):
        return torch.zeros(len(state["options"]), dtype=torch.int64)
    return state["queried"][best_first(state)[0]].to(torch.int64)


# Proposals


def uniform(state: Tensors, key: Tensor) -> Options:
    """Every option of every decision equally likely."""
    numbers = draws.uniform(key, len(state["options"]), torch.float64).tolist()
    return tuple(int(number * count) for number, count in zip(numbers, counts_of(state), strict=True))


def mutated(parent: Options, state: Tensors, key: Tensor) -> Options:
    """The parent with another option at one decision, all such equally likely."""
    found = neighbours(parent, state)
    return found[int(draws.integers(key, 1, len(found)))]


def neighbours(parent: Options, state: Tensors) -> list[Options]:
    """All that differ from the parent in one decision."""
    counts = enumerate(counts_of(state))
    return [(*parent[:d], o, *parent[d + 1 :]) for d, count in counts for o in range(count) if o != parent[d]]


def until_valid(propose: Callable[[Tensor], Options], key: Tensor, is_valid: IsValid) -> Options:
    """The first proposal that is a network."""
    for attempt in range(MOST_TRIES):
        options = propose(draws.at(key, attempt))
        if is_valid(options):
            return options
    raise UraenasError("almost no architecture of this space is a network; there is nothing to ask for")


def unseen(seen: set[Options], state: Tensors, key: Tensor, is_valid: IsValid) -> Options:
    """A valid architecture at random that was not seen yet; where nearly all were, any."""
    for attempt in range(MOST_SEEN):
        options = uniform(state, draws.at(key, attempt))
        if options not in seen and is_valid(options):
            return options
    return until_valid(lambda key: uniform(state, key), draws.at(key, MOST_SEEN), is_valid)


# Populations


def shares_of(members: Sequence[Options], state: Tensors) -> Tensor:
    """How many of the members have each option [D, O]; without members, as many of each."""
    counts = counts_of(state)
    found = torch.zeros(len(counts), max(counts), dtype=torch.float64)
    for member in members:
        found[torch.arange(len(counts)), torch.tensor(member)] += 1 / len(members)
    if not members:
        for d, count in enumerate(counts):
            found[d, :count] = 1 / count
    return found


def pick(members: Sequence[Options], state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
    """Scores [D, O] of one member, each as likely as any other; below T = 1 the first ones are more likely.

    Where the option that a member has may not be taken, the one that most others have comes next; of several, any.
    """
    shares = shares_of(members, state)
    if not members:
        present = shares > 0
        noise = draws.uniform(key, shares.numel(), torch.float64).view(shares.shape)
        return torch.where(present, noise, -1.0)
    number = float(draws.uniform(key, 1, torch.float64)) ** max(1.0, 1 / temperature)
    chosen = members[int(number * len(members))]
    ties = 1e-6 * draws.uniform(draws.at(key, 1), shares.numel(), torch.float64).view(shares.shape)
    scores = torch.where(shares_of([], state) > 0, shares + ties, -1.0)
    scores[torch.arange(len(chosen)), torch.tensor(chosen)] += 2
    return scores


def facts(state: Tensors, shares: Tensor) -> dict[str, Any]:
    """For the history: the spread of options, and the best that was seen."""
    values = state["values"]
    found: dict[str, Any] = {"entropy": float(entropy_of(shares).sum())}
    if len(values):
        found |= {"best": float(values.max()), "mean": float(values.mean())}
    return found


# Entries


@dataclass(frozen=True)
class Asking(ABC):
    """What is learned from queries. Abstract: an entry adds what it asks for, what it favours and how it draws."""

    together: int = 10  # trained side by side

    loop: ClassVar[str] = "queries"
    learned: ClassVar[tuple[str, ...]] = ()
    kept: ClassVar[tuple[str, ...]] = KEPT
    numbers: ClassVar[str] = "share"
    bars: ClassVar[str]
    at_random: ClassVar[Mapping[str, str]] = {
        "together": "architectures"
    }  # nothing is known in the first round

    def __post_init__(self) -> None:
        require_range("together", self.together, 1, 1000)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        return nothing_queried(options)

    @abstractmethod
    def favour(self, state: Tensors) -> Tensor:
        """As the seam has it."""

    def mode(self, state: Tensors) -> Tensor:
        """The best that was trained."""
        return best(state)

    def spread(self, state: Tensors) -> Tensor | None:
        return None

    def shares(self, state: Tensors) -> Tensor:
        return self.favour(state)

    def facts(self, state: Tensors) -> dict[str, Any]:
        return facts(state, self.shares(state))


@dataclass(frozen=True)
class Population(Asking):
    """Some of those that were trained, each as likely as any other: the best, unless an entry says otherwise."""

    population: int = 10  # how many make up the distribution

    bars: ClassVar[str] = (
        "A bar is the share of the population that has an option. A draw takes one of the population, as a whole, so "
        "the options of two decisions are not drawn apart."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("population", self.population, 1, 100_000)

    def members(self, state: Tensors) -> list[Options]:
        """The best first."""
        known = asked(state)
        return [known[place] for place in best_first(state)[: self.population]]

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return pick(self.members(state), state, key, temperature)

    def favour(self, state: Tensors) -> Tensor:
        return shares_of(self.members(state), state)
