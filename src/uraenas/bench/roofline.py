"""The least time a device could take: its arithmetic or its memory, whichever needs longer.

Memory traffic is that of maps alone, each moved as seldom as can be: written and read once forward; in training the
stored map is read once more, and its gradient written and read. Weights are left out: maps of a batch are far larger.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from uraenas.bench.plain import EDGES, NODES
from uraenas.engine import Engine
from uraenas.spaces.cells import Genotype, Skeleton
from uraenas.spaces.cells.skeleton import cost

TRAINING, PREDICTION = 5, 2  # how often a map is moved


@dataclass(frozen=True)
class Work:
    """What one call must at least do: numbers moved to or from memory, and multiply-adds."""

    moved: float = 0.0
    multiply_adds: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.moved + other.moved, self.multiply_adds + other.multiply_adds)


@dataclass(frozen=True)
class Peak:
    """What a device reaches, measured: numbers copied and multiply-adds of a large matrix product, per second."""

    moved: float
    multiply_adds: float

    def least_seconds(self, work: Work) -> float:
        return max(work.moved / self.moved, work.multiply_adds / self.multiply_adds)


def of_member(genotype: Genotype, skeleton: Skeleton, images: int, transfers: int, passes: int) -> Work:
    """One network on so many images; `passes` is 1 forward, 3 with both gradients."""
    live = genotype.live_edges
    convolutions = sum(genotype.operations[edge].startswith("nor_conv") for edge in live)
    nodes = len({EDGES[edge][1] for edge in live})
    maps = _numbers_per_image(skeleton, convolutions + nodes)
    return Work(images * transfers * maps, images * passes * cost(genotype, skeleton).multiply_adds)


def of_search_step(skeleton: Skeleton, images: int) -> Work:
    """Both halves of a step on so many images each: the architecture's has no weight gradient."""
    maps = _numbers_per_image(skeleton, 2 * len(EDGES) + NODES - 1)
    heaviest, lightest = (
        cost(Genotype((name,) * len(EDGES)), skeleton).multiply_adds
        for name in ("nor_conv_3x3", "nor_conv_1x1")
    )
    bare = cost(Genotype(("skip_connect",) * len(EDGES)), skeleton).multiply_adds
    both = heaviest + lightest - bare
    return Work(2 * images * TRAINING * maps, images * (3 + 2) * both)


def _numbers_per_image(skeleton: Skeleton, maps_per_cell: int) -> int:
    # The stem's convolutions and their norms' outputs.
    total = sum(2 * skeleton.channels * step.height * step.width for step in skeleton.stem())
    for block in skeleton.blocks():
        maps = 5 if block.reduces else maps_per_cell  # a residual block: three convolutions, two nodes
        total += maps * block.channels * block.height * block.width
    return total


def measure_peak(engine: Engine) -> Peak:
    """Copy a large tensor, and multiply large matrices, in the engine's number format for maps."""
    cuda = engine.device.type == "cuda"
    dtype = torch.bfloat16 if engine.lowered else engine.dtype
    source = torch.zeros((1 << 29) if cuda else (1 << 26), dtype=dtype, device=engine.device)
    target = torch.empty_like(source)
    side = 8192 if cuda else 1024
    matrix = torch.ones(side, side, dtype=dtype, device=engine.device)
    product = torch.empty_like(matrix)
    copying = _best(lambda: target.copy_(source), cuda)
    multiplying = _best(lambda: torch.mm(matrix, matrix, out=product), cuda)
    return Peak(2 * source.numel() / copying, side**3 / multiplying)


def _best(call: Callable[[], object], cuda: bool) -> float:
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        call()
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
