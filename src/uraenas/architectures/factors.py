"""Factors of a training's settings, which a recipe has: what of, their bounds, and draws between them."""

import math
from collections.abc import Sequence

from uraenas.base.errors import UraenasError

NAMES = ("step_size", "prior_deviation")  # what a search can ask for factors of
MOST = 1000.0
Factors = tuple[float, ...]  # one of each
PLAIN: Factors = (1.0,) * len(NAMES)  # nothing changed


def require_bounds(name: str, bounds: Sequence[float], least: float = 1 / MOST, most: float = MOST) -> None:
    """Refuse bounds that are none, or out of range."""
    if len(bounds) != 2 or not least <= bounds[0] <= bounds[1] <= most:
        raise UraenasError(
            f"{name} = {bounds} is out of range; it takes a lower and an upper bound between {least:g} and {most:g}"
        )


def between(bounds: Sequence[float], share: float) -> float:
    """So far on the way from the lower to the upper bound, in logarithms."""
    low, high = map(math.log, bounds)
    return math.exp(low + (high - low) * share)


def share_of(bounds: Sequence[float], factor: float) -> float:
    """The inverse; 0 where there is no way to go."""
    low, high = map(math.log, bounds)
    return (math.log(factor) - low) / (high - low) if high > low else 0.0
