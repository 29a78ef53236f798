"""Masks: each value is 1 with the chance to be kept, else 0, drawn by key for a place in the network.

In training every image has its own. In prediction one mask serves all images: a draw is a function of its own, so
that what it says of an image does not depend on those beside it.
"""

import math
from functools import cache

from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.spaces import Draw

MOST_DRAWS = 1000


def mask(draw: Draw, place: str, like: Tensor, axes: int, chance: float) -> Tensor:
    """For values [N, …]: a mask over N and the next `axes` − 1 axes, which the others share."""
    images = like.shape[0] if draw.number is None else 1
    shape = (images, *like.shape[1:axes])
    drawn = draws.coins(draws.at(draw.key, number_of(place)), math.prod(shape), chance)
    return drawn.view(*shape, *(1 for _ in like.shape[axes:])).to(like.dtype)


@cache
def number_of(place: str) -> int:
    """A number for a place in the network, to draw by."""
    return draws.key(0, "place", place)


def require_chance(name: str, chance: float) -> None:
    if not 0 <= chance < 1:
        raise UraenasError(f"{name} = {chance} is out of range; it must lie in 0 … 1, 1 excluded")
