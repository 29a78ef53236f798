"""What a cell of one network is made of, and where its numbers lie: all that the plan asks of a network."""

from dataclasses import dataclass

from uraenas.spaces.cells import Cell, Genotype, Skeleton, edges, operations
from uraenas.spaces.cells.blocks import skeleton_statistics
from uraenas.spaces.cells.network import convolutions_from, statistics_layout, weight_layout
from uraenas.spaces.cells.supernet import stored_in, supernet_layout
from uraenas.spaces.layout import Entry, Layout, norm, statistics

SKIP, POOL = 2, 3  # what passes along an edge, as tables have it
FACTORS = 4  # of an edge, at most: of its skip, its pool, and two kinds of convolutions


@dataclass(frozen=True)
class Line:
    """What passes along an edge without a convolution. A number is the place of its factor in `mixing`."""

    target: int
    skip: int | None = None
    pool: int | None = None

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """SKIP, POOL or both, each with the place of its factor."""
        both = ((SKIP, self.skip), (POOL, self.pool))
        return [(kind, factor) for kind, factor in both if factor is not None]


@dataclass(frozen=True)
class Wiring:
    """One network: by source node its convolutions (kernel size, target nodes) and lines, and its layouts."""

    convolutions: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    lines: tuple[tuple[Line, ...], ...]
    weights: Layout
    statistics: Layout
    mixed: bool = False  # every operation on every edge, each with a factor to be learned

    @property
    def nodes(self) -> int:
        return len(self.convolutions) + 1

    @property
    def fed(self) -> set[int]:
        """Nodes that something arrives at."""
        by_convolution = {t for node in self.convolutions for _, targets in node for t in targets}
        return by_convolution | {line.target for node in self.lines for line in node}

    def factor(self, kind: int, node: int, target: int) -> int:
        """The place in `mixing` of the factor of a node's convolutions of one kind on one edge; 0 unless mixed."""
        if not self.mixed:
            return 0
        along = edges(self.nodes)
        return 1 + (2 + kind) * len(along) + along.index((node, target))


def wiring_of(genotype: Genotype, skeleton: Skeleton) -> Wiring:
    """A member: one operation on each live edge."""
    lines: list[tuple[Line, ...]] = []
    ends = genotype.edges
    for node in range(genotype.nodes - 1):
        leaving = [e for e in genotype.live_edges if ends[e][0] == node]
        skips = {ends[e][1] for e in leaving if genotype.operations[e] == operations.SKIP}
        pools = {ends[e][1] for e in leaving if genotype.operations[e] == operations.POOL}
        found = [Line(t, skip=0) for t in skips] + [Line(t, pool=0) for t in pools]
        lines.append(tuple(sorted(found, key=lambda line: line.target)))
    convolutions = tuple(convolutions_from(genotype, node) for node in range(genotype.nodes - 1))
    layouts = weight_layout(genotype, skeleton), statistics_layout(genotype, skeleton)
    return Wiring(convolutions, tuple(lines), *layouts)


def wiring_of_supernet(cell: Cell, skeleton: Skeleton) -> Wiring:
    """All operations on all E edges. Skips and pools take their factors from places 1 … E and E + 1 … 2E of `mixing`.

    The factor of a convolution is its norm's scale, so the vector of weights is longer than the supernet's own: scales
    and shifts of all norms in cells follow it. Its place in `mixing`, after those, tells only whether it runs.
    """
    count, kernels = len(cell.edges), tuple(cell.convolutions.values())
    skips, pools = operations.SKIP in cell.operations, operations.POOL in cell.operations
    targets = [tuple(t for source, t in cell.edges if source == node) for node in range(cell.nodes - 1)]
    lines = tuple(
        tuple(
            Line(t, 1 + e if skips else None, 1 + count + e if pools else None)
            for e, (source, t) in enumerate(cell.edges)
            if source == node
        )
        for node in range(cell.nodes - 1)
    )
    scales: list[Entry] = []
    moments = skeleton_statistics(skeleton)
    cells = (block for block in skeleton.blocks() if not block.reduces)
    for name, outputs, _ in (one for block in cells for one in stored_in(block, cell)):
        scales += norm(f"{name}.norm", outputs)
        moments += statistics(f"{name}.norm", outputs)
    weights = Layout((*supernet_layout(cell, skeleton).entries, *scales))
    convolutions = tuple(tuple((kernel, to) for kernel in kernels) for to in targets)
    return Wiring(convolutions, lines, weights, Layout(tuple(moments)), mixed=True)
