"""A cell drawn as a graph: nodes from left to right, one curve per operation."""

from collections.abc import Sequence

from markupsafe import Markup

from uraenas.report.style import operation_class, operation_name
from uraenas.report.svg import element, join, line, text
from uraenas.spaces import EDGES, NODES, OPERATIONS, Genotype

# Height of a curve's control point over its width, by the nodes it passes; labels need room beneath.
BENDS = {1: 0.0, 2: 0.36, 3: 0.86}
LABELLED_BENDS = {1: 0.0, 2: 0.58, 3: 0.64}


def cell_graph(
    genotype: Genotype, x: float, y: float, width: float, labels: bool = False, tip: str = ""
) -> Markup:
    """The cell with its input at (x, y); edges that reach nothing are drawn faint, absent ones not at all."""
    step, bends = width / (NODES - 1), LABELLED_BENDS if labels else BENDS
    parts, words = [], []
    for number, (source, target) in enumerate(EDGES):
        operation = genotype.operations[number]
        if operation == "none":
            continue
        start, end, span = x + step * source, x + step * target, target - source
        bend = bends.get(span, 1.0) * step * span * (-1 if source == 0 else 1)
        dead = "" if number in genotype.live_edges else " dead"
        parts.append(
            element(
                "path",
                d=f"M{start:.1f} {y:.1f}Q{(start + end) / 2:.1f} {y + bend:.1f} {end:.1f} {y:.1f}",
                class_=f"edge {operation_class(operation)}{dead}",
                data_tip=None if tip else f"node {source} → {target}\t{operation_name(operation)}",
            )
        )
        if labels:
            lift = -5 if bend <= 0 else 13
            middle = (start + end) / 2
            words.append(text(middle, y + bend / 2 + lift, operation_name(operation), "tick", "middle"))
    radius = 7.0 if labels else 3.5
    parts += [_node(x + step * node, y, radius, str(node) if labels else "") for node in range(NODES)]
    return element("g", *parts, *words, class_="cell-graph", data_tip=tip or None)


def _node(x: float, y: float, radius: float, label: str) -> Markup:
    circle = element("circle", cx=x, cy=y, r=radius, class_="node")
    return circle + (text(x, y + 4, label, "node-label", "middle") if label else Markup(""))


def operation_legend(operations: Sequence[str] = OPERATIONS) -> list[tuple[str, str, Markup]]:
    """A sample of each operation's curve."""
    return [
        (operation_name(o), "", line(-9, 0, 9, 0, f"edge {operation_class(o)}"))
        for o in operations
        if o != "none"
    ]


def described(genotype: Genotype) -> str:
    """The operations in words, one line per edge that is there."""
    lines = [
        f"{source} → {target}\t{operation_name(o)}{'' if e in genotype.live_edges else ' (leads nowhere)'}"
        for e, ((source, target), o) in enumerate(zip(EDGES, genotype.operations, strict=True))
        if o != "none"
    ]
    return "\n".join(lines) or "no operation at all"


def gallery(groups: Sequence[tuple[Genotype, str, str]], top: float, width: float) -> tuple[Markup, float]:
    """Cells in rows of three, each with two words beneath; and the height they take."""
    columns = 3
    step, rise = width / columns, 92.0
    parts = []
    for k, (genotype, words, tip) in enumerate(groups):
        left, y = step * (k % columns), top + rise * (k // columns) + 48
        parts.append(cell_graph(genotype, left + 10, y, step - 26, tip=f"{tip}\n{described(genotype)}"))
        parts.append(text(left + step / 2 - 3, y + 32, words, "tick", "middle"))
    rows = -(-len(groups) // columns)
    return join(parts), rise * rows
