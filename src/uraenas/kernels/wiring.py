"""What a cell of one network is made of, and where its numbers lie: all that the plan asks of a network."""

from dataclasses import dataclass

from uraenas.networks.layout import Entry, Layout, norm, statistics
from uraenas.networks.skeleton import skeleton_statistics
from uraenas.networks.stack import convolutions_from, statistics_layout, weight_layout
from uraenas.networks.supernet import supernet_layout
from uraenas.spaces import CONVOLUTIONS, EDGES, NODES, Genotype, Skeleton

SKIP, POOL = 2, 3


@dataclass(frozen=True)
class Line:
    """What passes along an edge without a convolution. A number is the place of its factor in `mixing`."""

    target: int
    skip: int | None = None
    pool: int | None = None


@dataclass(frozen=True)
class Wiring:
    """One network: by source node its convolutions (kernel size, target nodes) and lines, and its layouts."""

    convolutions: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    lines: tuple[tuple[Line, ...], ...]
    weights: Layout
    statistics: Layout
    mixed: bool = False  # every operation on every edge, each with a factor to be learned

    @property
    def fed(self) -> set[int]:
        """Nodes that something arrives at."""
        by_convolution = {t for node in self.convolutions for _, targets in node for t in targets}
        return by_convolution | {line.target for node in self.lines for line in node}


def wiring_of(genotype: Genotype, skeleton: Skeleton) -> Wiring:
    """A member: one operation on each live edge."""
    lines: list[tuple[Line, ...]] = []
    for node in range(NODES - 1):
        leaving = [e for e in genotype.live_edges if EDGES[e][0] == node]
        skips = {EDGES[e][1] for e in leaving if genotype.operations[e] == "skip_connect"}
        pools = {EDGES[e][1] for e in leaving if genotype.operations[e] == "avg_pool_3x3"}
        found = [Line(t, skip=0) for t in skips] + [Line(t, pool=0) for t in pools]
        lines.append(tuple(sorted(found, key=lambda line: line.target)))
    convolutions = tuple(convolutions_from(genotype, node) for node in range(NODES - 1))
    layouts = weight_layout(genotype, skeleton), statistics_layout(genotype, skeleton)
    return Wiring(convolutions, tuple(lines), *layouts)


def wiring_of_supernet(skeleton: Skeleton) -> Wiring:
    """All operations on all edges. Skips and pools take their factors from places 1 … 6 and 7 … 12 of `mixing`.

    The factor of a convolution is its norm's scale, so the vector of weights is longer than the supernet's own: scales
    and shifts of all norms in cells follow it.
    """
    count = len(EDGES)
    targets = [tuple(t for source, t in EDGES if source == node) for node in range(NODES - 1)]
    convolutions = tuple(tuple((kernel, to) for kernel in CONVOLUTIONS.values()) for to in targets)
    lines = tuple(
        tuple(Line(t, 1 + e, 1 + count + e) for e, (source, t) in enumerate(EDGES) if source == node)
        for node in range(NODES - 1)
    )
    scales: list[Entry] = []
    moments = skeleton_statistics(skeleton)
    for block in skeleton.blocks():
        if not block.reduces:
            for node, to in enumerate(targets):
                for kernel in CONVOLUTIONS.values():
                    name, outputs = f"{block.name}.from{node}.conv{kernel}.norm", len(to) * block.channels
                    scales += norm(name, outputs)
                    moments += statistics(name, outputs)
    weights = Layout((*supernet_layout(skeleton).entries, *scales))
    return Wiring(convolutions, lines, weights, Layout(tuple(moments)), mixed=True)
