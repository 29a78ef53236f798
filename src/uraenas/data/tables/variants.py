"""What values that were never seen in training are taken for, in each variant of a row.

A new category is another category, and not another row, so that each known one counts as much, however frequent. Of
several columns a row may have any combination of values.
"""

import math
from collections.abc import Sequence
from itertools import product

from uraenas.base import draws

MOST = 24
SIZES = range(MOST // 2 + 1, MOST + 1)  # of them, where there are more combinations


def taken_for(counts: Sequence[int]) -> list[list[int]]:
    """By variant and column the number of a value, of so many by column; 0 is the most frequent, and comes first.

    All combinations; where they are too many, some that hold the values of each column about equally often, in an
    order of its own.
    """
    if math.prod(counts) <= MOST:
        return [list(one) for one in product(*map(range, counts))]
    size = max(SIZES, key=lambda one: (sum(one % count == 0 for count in counts), one))
    orders = [_order(size, place) for place in range(len(counts))]
    return [
        [order[variant] * count // size for order, count in zip(orders, counts, strict=True)]
        for variant in range(size)
    ]


def _order(size: int, place: int) -> list[int]:
    """Numbers below `size`: 0, then the others in a random order, the same for all tables."""
    others = draws.permutation(draws.at(draws.key(0, "variants", place), 0), size - 1)
    return [0, *(1 + others).tolist()]
