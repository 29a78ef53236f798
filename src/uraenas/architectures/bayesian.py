"""Bayesian optimisation: a Gaussian process of accuracy over architectures, and Thompson draws from it.

    f ~ GP(0, k),   k(a, b) = exp(−h/ℓ²),   h: in how many decisions a and b differ;   ask for argmax f

Each query has a draw of f of its own (`process.py`). A draw is the architecture at which a draw of f is largest: likely
the best, as far as one can tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from uraenas.architectures import process, queried
from uraenas.architectures.distribution import IsValid
from uraenas.base import draws
from uraenas.base.errors import require_range
from uraenas.spaces import Tensors

AROUND = 10  # of the best, whose neighbours are candidates
FUNCTIONS = 64  # drawn to tell how likely each option is


@dataclass(frozen=True)
class Bayesian(queried.Asking):
    """Thompson draws from a Gaussian process of accuracy (Bayesian optimisation)."""

    first: int = 10  # at random, before the process is asked
    candidates: int = 300  # drawn at random, besides the neighbours of the best

    recipes = None
    at_random: ClassVar[Mapping[str, str]] = {"first": "architectures"}
    bars: ClassVar[str] = (
        f"A bar is an option's share of {FUNCTIONS} draws. A draw takes the architecture, as a whole, at which a draw "
        "of the Gaussian process is largest, so the options of two decisions are not drawn apart."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("first", self.first, 1, 100_000)
        require_range("candidates", self.candidates, 1, 10_000)

    def propose(self, state: Tensors, count: int, key: Tensor, is_valid: IsValid) -> list[queried.Options]:
        seen = set(queried.asked(state))
        found: list[queried.Options] = []
        if len(seen) >= self.first:
            known = self._candidates(state, draws.at(key, 0))
            candidates = [one for one in known if one not in seen and is_valid(one)]
            functions = _functions(state, candidates, count, draws.at(key, 1))
            found = [candidates[place] for place in process.distinct(functions)]
        seen |= set(found)
        for number in range(len(found), count):
            found.append(queried.unseen(seen, state, draws.at(key, 2 + number), is_valid))
            seen.add(found[-1])
        return found

    def _candidates(self, state: Tensors, key: Tensor) -> list[queried.Options]:
        """The best, their neighbours, and some at random; each once."""
        known = queried.asked(state)
        best = [known[place] for place in queried.best_first(state)[:AROUND]]
        around = [one for parent in best for one in queried.neighbours(parent, state)]
        counts = state["options"]
        numbers = draws.uniform(key, self.candidates * len(counts), torch.float64).view(-1, len(counts))
        others = [tuple(row) for row in (numbers * counts).long().tolist()]
        return list(dict.fromkeys([*best, *around, *others]))

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return queried.pick(self._drawn(state, key, 1, temperature), state, draws.at(key, 1))

    def _drawn(
        self, state: Tensors, key: Tensor, count: int, temperature: float = 1.0
    ) -> list[queried.Options]:
        """Where `count` draws of the function are largest; nothing before anything is known."""
        if not len(state["values"]):
            return []
        candidates = self._candidates(state, draws.at(key, 0))
        functions = _functions(state, candidates, count, draws.at(key, 1), temperature)
        return [candidates[place] for place in functions.argmax(dim=0).tolist()]

    def favour(self, state: Tensors) -> Tensor:
        return queried.shares_of(self._drawn(state, draws.at(0, 0), FUNCTIONS), state)


def _functions(
    state: Tensors, candidates: Sequence[queried.Options], count: int, key: Tensor, temperature: float = 1.0
) -> Tensor:
    """`count` draws of the function at these candidates [C, count]; T scales its variance."""
    if not candidates:
        return torch.zeros(0, count, dtype=torch.float64)
    known = _one_hot(queried.asked(state), state)
    return process.functions(known, state["values"], _one_hot(candidates, state), count, key, temperature)


def _one_hot(architectures: Sequence[queried.Options], state: Tensors) -> np.ndarray:
    """A column for each option of each decision; two that differ in h decisions lie √(2h) apart."""
    chosen = torch.tensor(architectures, dtype=torch.int64)
    most = max(queried.counts_of(state))
    return torch.nn.functional.one_hot(chosen, most).flatten(1).double().numpy()
