"""Local search: neighbours of the best architecture, until some are better; then those of the best of these.

    a ← argmax over a and a round of those that differ from it in one decision;   at an optimum, begin anew at random

Neighbours are trained in a random order, each once, `together` in a round; all of them only where none is better. A
draw is one of the best that were trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from uraenas.architectures import queried
from uraenas.architectures.distribution import IsValid
from uraenas.base import draws
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class LocalSearch(queried.Population):
    """The neighbours of the best, until none is better; then from elsewhere."""

    recipes = None

    def propose(self, state: Tensors, count: int, key: Tensor, is_valid: IsValid) -> list[queried.Options]:
        known = queried.asked(state)
        seen, found = set(known), list[queried.Options]()
        around = self._unseen_neighbours(state, known, is_valid)
        for place in draws.permutation(draws.at(key, 0), len(around)).tolist()[:count]:
            found.append(around[place])
            seen.add(around[place])
        for number in range(len(found), count):  # there is no neighbour left: begin anew
            found.append(queried.unseen(seen, state, draws.at(key, 1 + number), is_valid))
            seen.add(found[-1])
        return found

    def _unseen_neighbours(
        self, state: Tensors, known: Sequence[queried.Options], is_valid: IsValid
    ) -> list[queried.Options]:
        """Those of the best since the search last began anew: when all neighbours of the best were known."""
        values, seen = state["values"].tolist(), set[queried.Options]()
        best, unseen = -1, list[queried.Options]()
        for place, options in enumerate(known):
            seen.add(options)
            if best < 0 or values[place] > values[best]:
                best = place
                unseen = [one for one in queried.neighbours(options, state) if is_valid(one)]
            unseen = [one for one in unseen if one not in seen]
            if not unseen:
                best = -1
        return unseen
