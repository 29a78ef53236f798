"""Aging evolution of architectures, with Bayesian optimisation of the recipes that they are trained by (AgEBO).

    child = parent, one option changed (`evolution.py`);   recipe = argmax of a draw f ~ GP | how well recipes did

As AutoDEUQ searches (Egele et al., 2022): the process knows recipes alone, whatever architecture they trained. It is a
Gaussian process with Thompson draws (`process.py`) where the authors have a random forest with a bound. A draw is a
member of the last population, and it comes with the recipe that it was trained by: a draw of both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from uraenas.architectures import factors, process, queried
from uraenas.architectures.evolution import Aging
from uraenas.base import draws
from uraenas.base.errors import require_range
from uraenas.spaces import Tensors

CANDIDATES = 300  # at least
WIDTH = 4.0  # of a range in the process's units: its lengths are a sixth of the range to all of it
NOISES = (0.1, 0.3, 1.0)  # architectures differ, which the process does not know


@dataclass(frozen=True)
class Agebo(Aging):
    """Evolution of architectures, and Bayesian optimisation of their recipes (AgEBO)."""

    step_size: tuple[float, ...] = (0.1, 10.0)  # bounds of a factor of the step size
    prior_deviation: tuple[float, ...] = (0.3, 3.0)  # bounds of a factor of the prior's deviation
    first: int = 10  # recipes at random, before the process is asked

    kept: ClassVar[tuple[str, ...]] = (*queried.KEPT, "recipes")
    at_random: ClassVar[Mapping[str, str]] = {"population": "architectures", "first": "recipes"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("first", self.first, 1, 100_000)
        for name, bounds in zip(factors.NAMES, self._bounds, strict=True):
            factors.require_bounds(name, bounds)

    @property
    def _bounds(self) -> list[tuple[float, ...]]:
        return [getattr(self, name) for name in factors.NAMES]

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        nothing = torch.zeros(0, len(factors.NAMES), dtype=torch.float64)
        return {**super().initial(options, key), "recipes": nothing}

    def recipes(self, state: Tensors, count: int, key: Tensor) -> list[factors.Factors]:
        """Each best by a draw of the process of its own; at first at random, log-uniform."""
        most = max(CANDIDATES, count)
        shares = draws.uniform(draws.at(key, 0), most * len(factors.NAMES), torch.float64).view(most, -1)
        drawn = [tuple(map(factors.between, self._bounds, one)) for one in shares.tolist()]
        if len(state["values"]) < self.first:
            return drawn[:count]
        facts = (self._places(state["recipes"].tolist()), state["values"], self._places(drawn))
        functions = process.functions(*facts, count, draws.at(key, 1), noises=NOISES)
        return [drawn[place] for place in process.distinct(functions)]

    def _places(self, recipes: Sequence[Sequence[float]]) -> np.ndarray:
        """Where recipes lie between the bounds [C, R], as the process sees them."""
        return WIDTH * np.array([list(map(factors.share_of, self._bounds, one)) for one in recipes])

    def facts(self, state: Tensors) -> dict[str, Any]:
        found = super().facts(state)
        if len(state["values"]):
            best = state["recipes"][queried.best_first(state)[0]].tolist()
            found |= {f"best_{name}": factor for name, factor in zip(factors.NAMES, best, strict=True)}
        return found
