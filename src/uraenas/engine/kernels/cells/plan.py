"""Which maps, convolutions and sums a stack of networks is made of, as tables of whole numbers.

Kernels know nothing of genotypes. They are launched once for all members, and program k of a launch reads row k of a
table to find what it works on. So the same compiled kernels serve any genotypes, dead edges cost nothing, and the
number of launches does not grow with the number of members. `rows.py` says what there are rows of.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from uraenas.engine.kernels.cells.rows import (
    IMAGE_CHANNELS,
    NORMED,
    PACKED_UNIT,
    Cell,
    Edge,
    Pack,
    Passage,
    Plan,
    Source,
    Span,
    Stage,
    Sum,
    Term,
)
from uraenas.engine.kernels.cells.tuning import grouping
from uraenas.engine.kernels.cells.wiring import SKIP, Wiring
from uraenas.spaces.cells import Skeleton
from uraenas.spaces.cells.skeleton import STAGES
from uraenas.spaces.layout import Layout

Arriving = dict[tuple[int, int], list[Term]]  # (node, member) → what is summed there
UNKNOWN = -1  # the maps of an edge, before it is connected


class _Builder:
    """Numbers maps and lays out packed weights while the plan is drawn up."""

    def __init__(self, wirings: Sequence[Wiring], skeleton: Skeleton, splits: list[int]) -> None:
        self.wirings, self.skeleton, self.splits = wirings, skeleton, splits
        self.nodes = wirings[0].nodes  # of a cell
        self.packs: list[Pack] = []
        self.packed = self.partial = 0
        self.weights = _offsets([wiring.weights for wiring in wirings])
        self.statistics = _offsets([wiring.statistics for wiring in wirings])

    def edge(
        self,
        stage: int,
        m: int,
        name: str,
        shape: tuple[int, int, int],
        part: int = 0,
        pooled: bool = False,
        factor: int = 0,
    ) -> Edge:
        """A new edge; maps are filled in later. `part` counts convolutions stored as one."""
        outputs, inputs, kernel = shape
        stride = 2 if name.endswith(("first", "shortcut")) else 1
        form = grouping("weight_gradient", outputs, stride, name == "stem")
        pack = Pack(
            weight=self.weights[m][f"{name}.weight"] + part * outputs * inputs * kernel**2,
            packed=self.packed,
            partial=self.partial,
            outputs=outputs,
            inputs=inputs,
            padded_inputs=max(inputs, IMAGE_CHANNELS),
            taps=4 if pooled else kernel**2,
            pooled=int(pooled),
            splits=self.splits[stage],
            group=form.group,
            span=form.span,
            factor=factor,
        )
        self.packs.append(pack)
        self.packed += pack.taps * pack.padded_inputs * outputs
        steps = form.steps(2 if pooled else 3)
        self.partial += steps * form.span * pack.padded_inputs * form.group * outputs * pack.splits
        edge = Edge(
            input=UNKNOWN,
            output=UNKNOWN,
            gradient=UNKNOWN,
            arriving=UNKNOWN,
            packed=pack.packed // PACKED_UNIT,
            partial=pack.partial // PACKED_UNIT,
            taps=pack.taps,
            weight=pack.weight,
            factor=factor,
        )
        if f"{name}.norm.scale" in self.weights[m]:
            edge.scale, edge.shift, edge.mean, edge.variance = (
                where[m][f"{name}.norm.{what}"] + part * outputs
                for where, what in (
                    (self.weights, "scale"),
                    (self.weights, "shift"),
                    (self.statistics, "mean"),
                    (self.statistics, "variance"),
                )
            )
        return edge

    def leaving(self, stage: int, m: int, cell: str, node: int, channels: int) -> Iterator[Edge]:
        """New edges for all convolutions that leave a node of one member's cell."""
        wiring = self.wirings[m]
        for kind, (kernel, targets) in enumerate(wiring.convolutions[node]):
            name, shape = f"{cell}.from{node}.conv{kernel}", (channels, channels, kernel)
            for part, target in enumerate(targets):
                yield self.edge(stage, m, name, shape, part, factor=wiring.factor(kind, node, target))


def make_plan(wirings: Sequence[Wiring], skeleton: Skeleton, splits: list[int]) -> Plan:
    """The plan of a stack; weight gradients of stage s are summed in `splits[s]` parts."""
    builder = _Builder(wirings, skeleton, splits)
    stages: list[Stage] = []
    for number in range(STAGES):
        channels, halvings = skeleton.channels * 2**number, 2**number
        stage = Stage(channels, skeleton.height // halvings, skeleton.width // halvings, len(wirings))
        _number_edges(builder, number, stage)
        _connect(builder, number, stage, stages[-1] if stages else None)
        stages.append(stage)
    head = [offsets["head.norm.scale"] for offsets in builder.weights]
    head_statistics = [offsets["head.norm.mean"] for offsets in builder.statistics]
    return Plan(stages, builder.packs, builder.packed, builder.partial, head, head_statistics)


def _number_edges(builder: _Builder, number: int, stage: Stage) -> None:
    """First all edges get their numbers, because map e is what edge e writes."""
    skeleton, members, channels = builder.skeleton, range(stage.members), stage.channels
    half = channels // 2
    if number == 0:
        entry = {"stem": (channels, skeleton.image_channels, 3)}
    else:
        entry = {
            f"reduce{number}.first": (channels, half, 3),
            f"reduce{number}.second": (channels, channels, 3),
            f"reduce{number}.shortcut": (channels, half, 1),
        }
    for name, shape in entry.items():
        pooled = name.endswith("shortcut")
        stage.entry.leaving.append(Span(len(stage.edges), stage.members))
        stage.edges += [builder.edge(number, m, name, shape, pooled=pooled) for m in members]
    for c in range(skeleton.cells):
        cell, start = Cell(), len(stage.edges)
        for node in range(builder.nodes - 1):
            first = len(stage.edges)
            for m in members:
                stage.edges += builder.leaving(
                    number, m, f"cell{number * skeleton.cells + c}", node, channels
                )
            cell.leaving.append(Span.since(first, stage.edges))
        cell.edges = Span.since(start, stage.edges)
        stage.cells.append(cell)
    for e, edge in enumerate(stage.edges):
        edge.output = edge.gradient = e
    stage.maps = len(stage.edges)


def _connect(builder: _Builder, number: int, stage: Stage, before: Stage | None) -> None:
    """Then nodes and gradients get theirs, and edges learn which maps they read."""

    def new_maps(count: int) -> list[int]:
        stage.maps += count
        return list(range(stage.maps - count, stage.maps))

    members = stage.members
    # Of the first and the last node in turn (two maps), then of each node between them; a residual block has one.
    gradients = [new_maps(max(3, builder.nodes)) for _ in range(members)]
    nodes = new_maps(members)
    entry_gradients = [gradient[0] for gradient in gradients]
    if before is None:
        _connect_stem(stage, nodes, entry_gradients)
    else:
        _connect_reduction(
            stage, before, new_maps(members), nodes, [g[2] for g in gradients], entry_gradients
        )
    stage.inputs = nodes
    for c, cell in enumerate(stage.cells):
        inputs, nodes = nodes, new_maps(members)
        maps: list[list[int | None]] = []
        node_gradients: list[list[int]] = []
        for m, wiring in enumerate(builder.wirings):
            inner = [new_maps(1)[0] if node in wiring.fed else None for node in range(1, builder.nodes - 1)]
            maps.append([inputs[m], *inner, nodes[m]])
            g = gradients[m]
            node_gradients.append([g[c % 2], *g[2 : builder.nodes], g[(c + 1) % 2]])
        _connect_cell(builder.wirings, stage, cell, maps, node_gradients)
    stage.outputs = nodes
    stage.output_gradients = [gradient[len(stage.cells) % 2] for gradient in gradients]


def _connect_stem(stage: Stage, nodes: list[int], gradients: list[int]) -> None:
    for m, node in enumerate(nodes):
        stage.edges[m].input, stage.edges[m].arriving = m, gradients[m]
        stage.sums.append(Sum(node, [(NORMED, m, 0)]))
    stage.entry.sums = [Span(0, stage.members)]
    stage.entry.arriving = [_order(stage, range(stage.members))]


def _connect_reduction(
    stage: Stage,
    before: Stage,
    middle: list[int],
    nodes: list[int],
    middle_gradients: list[int],
    gradients: list[int],
) -> None:
    """Residual block: x → first → middle → second → node, beside x → shortcut → node."""
    members = stage.members
    for m in range(members):
        first, second, shortcut = (stage.edges[part * members + m] for part in range(3))
        first.input = shortcut.input = before.outputs[m]
        first.arriving, second.input, second.arriving = middle_gradients[m], middle[m], gradients[m]
        shortcut.gradient = gradients[m]  # nothing lies between the shortcut and the node
        stage.sums.append(Sum(middle[m], [(NORMED, m, 0)]))
        stage.sources.append(Source(middle[m], middle_gradients[m], members + m, 1, -1, []))
    for m in range(members):
        stage.sums.append(Sum(nodes[m], [(NORMED, members + m, 0), (SKIP, 2 * members + m, 0)]))
        stage.sources.append(Source(before.outputs[m], before.output_gradients[m], m, 1, 2 * members + m, []))
    stage.entry.sums = [Span(0, members), Span(members, members)]
    stage.entry.sources = [Span(0, members), Span(members, members)]
    stage.entry.arriving = [_order(stage, range(part * members, (part + 1) * members)) for part in range(2)]


def _connect_cell(
    wirings: Sequence[Wiring],
    stage: Stage,
    cell: Cell,
    maps: list[list[int | None]],
    gradients: list[list[int]],
) -> None:
    """Every node learns what leaves it, and then what arrives at it."""
    arriving: Arriving = defaultdict(list)
    first_passage = len(stage.passages)
    for node, edges in enumerate(cell.leaving):
        e, first_source = edges.first, len(stage.sources)
        for m, wiring in enumerate(wirings):
            source = maps[m][node]
            if source is None:
                continue
            targets = [target for _, own in wiring.convolutions[node] for target in own]
            for number, target in enumerate(targets, start=e):
                edge = stage.edges[number]
                edge.input, edge.arriving = source, gradients[m][target]
                arriving[target, m].append((NORMED, number, edge.factor))
            terms = []
            for line in wiring.lines[node]:
                gradient = gradients[m][line.target]
                arriving[line.target, m] += [(kind, source, factor) for kind, factor in line.kinds]
                terms += [(kind, gradient, factor) for kind, factor in line.kinds]
                if wiring.mixed:
                    stage.passages.append(Passage(source, gradient, line.skip or 0, line.pool or 0))
            stage.sources.append(Source(source, gradients[m][node], e, len(targets), -1, terms))
            e += len(targets)
        cell.sources.append(Span.since(first_source, stage.sources))
    cell.passages = Span.since(first_passage, stage.passages)
    for target in range(1, len(cell.leaving) + 1):
        _connect_sums(stage, cell, target, maps, arriving)


def _connect_sums(
    stage: Stage, cell: Cell, target: int, maps: list[list[int | None]], arriving: Arriving
) -> None:
    first, normed = len(stage.sums), []
    for m, own in enumerate(maps):
        if terms := arriving.get((target, m)):
            output = own[target]
            assert output is not None
            stage.sums.append(Sum(output, terms))
            normed += [number for kind, number, _ in terms if kind == NORMED]
    cell.sums.append(Span.since(first, stage.sums))
    cell.arriving.append(_order(stage, normed))


def _order(stage: Stage, edges: Sequence[int]) -> Span:
    stage.order += edges
    return Span(len(stage.order) - len(edges), len(edges))


def _offsets(layouts: list[Layout]) -> list[dict[str, int]]:
    """Where each tensor starts in the stack's flat vector, by member."""
    position, offsets = 0, []
    for layout in layouts:
        named = {}
        for entry in layout.entries:
            named[entry.name] = position
            position += entry.size
        offsets.append(named)
    return offsets
