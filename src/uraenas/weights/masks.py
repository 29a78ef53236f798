"""Masks: each value is 1 with the chance to be kept, else 0, drawn by key for a place in the network.

In training every image has its own. In prediction one mask serves all images: a draw is a function of its own, so
that what it says of an image does not depend on those beside it.
"""

from functools import cache

from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.spaces import Draw

MOST_DRAWS = 1000


def masked(draw: Draw, place: str, x: Tensor, axes: int, chance: float, scaled: bool = True) -> Tensor:
    """Values [N, …] under a mask over N and the next `axes` − 1 axes, which the others share.

    Unless told otherwise what is kept is divided by its chance, so that the mean stays.
    """
    key = draws.at(draw.key, number_of(place))
    return draws.masked(key, x, axes, draw.number is None, chance, scaled)


@cache
def number_of(place: str) -> int:
    """A number for a place in the network, to draw by."""
    return draws.key(0, "place", place)


def require_chance(name: str, chance: float) -> None:
    if not 0 <= chance < 1:
        raise UraenasError(f"{name} = {chance} is out of range; it must lie in 0 … 1, 1 excluded")
