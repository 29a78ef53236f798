"""Random search: architectures drawn at random, each once; the best of them are what it has learned.

    a_k ~ Uniform,   answer: argmax_k accuracy(a_k)

A draw is one of the best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from uraenas.architectures import queried
from uraenas.architectures.distribution import IsValid
from uraenas.base import draws
from uraenas.base.errors import require_range
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class RandomSearch:
    """Architectures at random; the best are kept."""

    together: int = 10  # trained side by side
    population: int = 10  # how many of the best make up the distribution

    loop: ClassVar[str] = "queries"
    learned: ClassVar[tuple[str, ...]] = ()
    kept: ClassVar[tuple[str, ...]] = queried.KEPT
    numbers: ClassVar[str] = "share"
    recipes = None

    def __post_init__(self) -> None:
        require_range("together", self.together, 1, 1000)
        require_range("population", self.population, 1, 100_000)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        return queried.nothing_queried(options)

    def propose(self, state: Tensors, count: int, key: Tensor, is_valid: IsValid) -> list[queried.Options]:
        seen = set(queried.asked(state))
        found: list[queried.Options] = []
        for number in range(count):
            found.append(queried.unseen(seen, state, draws.at(key, number), is_valid))
            seen.add(found[-1])
        return found

    def members(self, state: Tensors) -> list[queried.Options]:
        """The best of all that were trained, the best first."""
        known = queried.asked(state)
        return [known[place] for place in queried.best_first(state)[: self.population]]

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return queried.pick(self.members(state), state, key, temperature)

    def mode(self, state: Tensors) -> Tensor:
        """The best that was trained."""
        return queried.best(state)

    def favour(self, state: Tensors) -> Tensor:
        return queried.shares_of(self.members(state), state)

    def spread(self, state: Tensors) -> Tensor | None:
        return None

    def shares(self, state: Tensors) -> Tensor:
        return self.favour(state)

    def facts(self, state: Tensors) -> dict[str, Any]:
        return queried.facts(state, self.shares(state))
