"""Regularised evolution: the fittest of a few is mutated, and the oldest dies (Real et al., 2019).

    parent = the best of `tournament` of the population, drawn with replacement;   child = parent, one option changed

The population is the last `population` that were trained: whoever enters pushes out the oldest, however fit. A draw is
a member of the last population.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.architectures import queried
from uraenas.architectures.distribution import IsValid
from uraenas.base import draws
from uraenas.base.errors import require_range
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Aging(queried.Population):
    """A population that ages. Abstract: an entry adds how its networks are trained."""

    together: int = 10  # children that are trained side by side; 1 is the published form
    tournament: int = 3  # of how many the fittest becomes a parent

    at_random: ClassVar[Mapping[str, str]] = {"population": "architectures"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("tournament", self.tournament, 1, 100_000)

    def propose(self, state: Tensors, count: int, key: Tensor, is_valid: IsValid) -> list[queried.Options]:
        known, alive = queried.asked(state), self._alive(state)

        def child(key: Tensor) -> queried.Options:
            if len(known) < self.population:
                return queried.uniform(state, key)
            drawn = draws.integers(draws.at(key, 0), self.tournament, len(alive)).tolist()
            parent = queried.best_first(state, [alive[place] for place in drawn])[0]
            return queried.mutated(known[parent], state, draws.at(key, 1))

        return [queried.until_valid(child, draws.at(key, number), is_valid) for number in range(count)]

    def members(self, state: Tensors) -> list[queried.Options]:
        """The last population, the fittest first."""
        known = queried.asked(state)
        return [known[place] for place in queried.best_first(state, self._alive(state))]

    def _alive(self, state: Tensors) -> list[int]:
        count = len(state["values"])
        return list(range(max(0, count - self.population), count))


@dataclass(frozen=True)
class Evolution(Aging):
    """A population in which the fittest have children and the oldest die (regularised evolution)."""

    recipes = None
