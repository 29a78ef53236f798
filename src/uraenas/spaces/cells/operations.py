"""The operations that edges of a cell can have, and the edges of a cell."""

import math
from dataclasses import dataclass
from functools import cache

CONVOLUTIONS = {"nor_conv_1x1": 1, "nor_conv_3x3": 3}  # ReLU, convolution, norm: operation → kernel size
NONE, SKIP, POOL = "none", "skip_connect", "avg_pool_3x3"
NASBENCH201 = (NONE, SKIP, "nor_conv_1x1", "nor_conv_3x3", POOL)  # in the benchmark's order
LABELS = {
    NONE: "none",
    SKIP: "skip",
    "nor_conv_1x1": "1×1 conv",
    "nor_conv_3x3": "3×3 conv",
    POOL: "3×3 pool",
}


@cache
def edges(nodes: int) -> tuple[tuple[int, int], ...]:
    """(source, target) of every edge from a lower to a higher node, by target, then by source."""
    return tuple((source, target) for target in range(nodes) for source in range(target))


def node_count(edges: int) -> int:
    """E edges join n nodes where E = n (n − 1) / 2."""
    return (1 + math.isqrt(1 + 8 * edges)) // 2


def known() -> tuple[str, ...]:
    """All operations that there are."""
    return NONE, SKIP, POOL, *CONVOLUTIONS


def label(operation: str) -> str:
    """The operation, for people."""
    kernel = CONVOLUTIONS.get(operation)
    return LABELS.get(operation) or (f"{kernel}×{kernel} conv" if kernel else operation)


@dataclass(frozen=True)
class Cell:
    """How many nodes there are, and what may join them."""

    nodes: int = 4
    operations: tuple[str, ...] = NASBENCH201

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        return edges(self.nodes)

    @property
    def convolutions(self) -> dict[str, int]:
        """Operation → kernel size, of those that are convolutions."""
        return {name: kernel for name, kernel in CONVOLUTIONS.items() if name in self.operations}
