"""Random search: architectures drawn at random, each once; the best of them are what it has learned.

    a_k ~ Uniform,   answer: argmax_k accuracy(a_k)

A draw is one of the best.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.architectures import queried
from uraenas.architectures.distribution import IsValid
from uraenas.base import draws
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class RandomSearch(queried.Population):
    """Architectures at random; the best are kept."""

    recipes = None
    at_random: ClassVar[Mapping[str, str]] = {}  # that is all there is to it

    def propose(self, state: Tensors, count: int, key: Tensor, is_valid: IsValid) -> list[queried.Options]:
        seen = set(queried.asked(state))
        found: list[queried.Options] = []
        for number in range(count):
            found.append(queried.unseen(seen, state, draws.at(key, number), is_valid))
            seen.add(found[-1])
        return found
