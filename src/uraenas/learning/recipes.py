"""How the chains of a method are trained: all alike, or each with a recipe of its own. A way is a row of RECIPES."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.base.parts import Part

MOST_FACTOR = 1000.0


@dataclass(frozen=True)
class Recipe:
    """What is special about one chain."""

    step_size: float = 1.0  # times that of its kind of weights
    prior_deviation: float = 1.0  # times that of all chains
    smoothing: float = 0.0  # share of each label that is spread over all classes
    augmentation: float | None = (
        None  # which one, as a share of the way through them; None: each image its own
    )

    def kind(self, kinds: int) -> int | None:
        """Which of so many augmentations all of its images go through, if it is one."""
        return None if self.augmentation is None else int(self.augmentation * kinds)


class Recipes(Protocol):
    """A frozen dataclass whose fields are the settings `train.<name>.…`."""

    def draw(self, count: int, seed: int, source: str) -> list[Recipe]:
        """One for each chain."""


@dataclass(frozen=True)
class Same:
    """All chains alike."""

    def draw(self, count: int, seed: int, source: str) -> list[Recipe]:
        return [Recipe()] * count


@dataclass(frozen=True)
class Varied:
    """Each chain its own: factors are log-uniform, smoothing is uniform, augmentation is one of those there are."""

    step_size: tuple[float, ...] = (0.5, 2.0)  # bounds of a factor of the step size
    prior_deviation: tuple[float, ...] = (0.5, 2.0)  # bounds of a factor of the prior's deviation
    smoothing: tuple[float, ...] = (
        0.0,
        0.01,
    )  # bounds of the share of a label that is spread over all classes
    augmentation: bool = True  # off: each image goes through one of them, by chance

    def __post_init__(self) -> None:
        for name in ("step_size", "prior_deviation"):
            _require_bounds(name, getattr(self, name), 1 / MOST_FACTOR, MOST_FACTOR)
        _require_bounds("smoothing", self.smoothing, 0, 0.9)

    def draw(self, count: int, seed: int, source: str) -> list[Recipe]:
        found = []
        for number in range(count):
            key = draws.at(draws.key(seed, "recipe", source), number)
            first, second, third = draws.uniform(key, 3).tolist()
            step_size, deviation = _between(self.step_size, first), _between(self.prior_deviation, second)
            low, high = self.smoothing
            kind = draws.uniform(draws.at(key, 1), 1).item() if self.augmentation else None
            found.append(Recipe(step_size, deviation, low + (high - low) * third, kind))
        return found


RECIPES: dict[str, Part[Any]] = {"same": Part(Same), "varied": Part(Varied)}


def _between(bounds: tuple[float, ...], share: float) -> float:
    low, high = map(math.log, bounds)
    return math.exp(low + (high - low) * share)


def _require_bounds(name: str, bounds: tuple[float, ...], least: float, most: float) -> None:
    if len(bounds) != 2 or not least <= bounds[0] <= bounds[1] <= most:
        raise UraenasError(
            f"{name} = {bounds} is out of range; it takes a lower and an upper bound between {least:g} and {most:g}"
        )
