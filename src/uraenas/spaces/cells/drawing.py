"""A cell drawn as a graph: nodes from left to right, one curve per operation.

Widths, dashes and the colours of light paper are attributes, so that a drawing can stand anywhere; a page's style
sheet may overrule the colours.
"""

from collections.abc import Sequence

from markupsafe import Markup

from uraenas.base.svg import Value, element, text
from uraenas.spaces.cells.operations import LABELS, NONE, POOL, SKIP, edges, label, node_count
from uraenas.spaces.pictures import standalone

Curve = tuple[str, float, str | None]  # colour, width, dashes
CURVES: dict[str, Curve] = {
    SKIP: ("#50565e", 1.3, "5 3"),
    "nor_conv_1x1": ("#bb8000", 2.0, None),
    "nor_conv_3x3": ("#0a4fa3", 3.6, None),
    POOL: ("#00805c", 2.6, "2 2.5"),
}
# Height of a curve's control point over its width, by the steps it spans, longer ones as the last; labels need room.
BENDS = {1: 0.0, 2: 0.36, 3: 0.86}
LABELLED_BENDS = {1: 0.0, 2: 0.58, 3: 0.64}


def operation_class(operation: str) -> str:
    """The class that gives a group this operation's colour; larger convolutions have that of the 3×3 one."""
    return f"o{list(LABELS).index(operation if operation in LABELS else 'nor_conv_3x3')}"


def cell_graph(
    operations: Sequence[str],
    live: Sequence[int],
    x: float,
    y: float,
    width: float,
    labels: bool,
    tip: str = "",
) -> Markup:
    """The cell with its input at (x, y); edges that are not live are drawn faint, absent ones not at all."""
    nodes = node_count(len(operations))
    step, bends = width / (nodes - 1), LABELLED_BENDS if labels else BENDS
    parts, words = [], []
    for number, (source, target) in enumerate(edges(nodes)):
        operation = operations[number]
        if operation == NONE:
            continue
        start, end, span = x + step * source, x + step * target, target - source
        bend = bends[min(span, max(bends))] * step * span * (-1 if source == 0 else 1)
        way = f"M{start:.1f} {y:.1f}Q{(start + end) / 2:.1f} {y + bend:.1f} {end:.1f} {y:.1f}"
        told = None if tip else f"node {source} → {target}\t{label(operation)}"
        parts.append(_curve(way, operation, number in live, told))
        if labels:
            lift = -5 if bend <= 0 else 13
            middle = (start + end) / 2
            words.append(text(middle, y + bend / 2 + lift, label(operation), "tick", "middle"))
    radius = 7.0 if labels else 3.5
    parts += [_node(x + step * node, y, radius, str(node) if labels else "") for node in range(nodes)]
    return element("g", *parts, *words, class_="cell-graph", data_tip=tip or None)


def _curve(way: str, operation: str, live: bool = True, tip: str | None = None) -> Markup:
    colour, width, dashes = CURVES.get(operation, CURVES["nor_conv_3x3"])
    paint: dict[str, Value] = {"stroke": colour, "stroke_width": width, "stroke_dasharray": dashes}
    faint = None if live else 0.22
    class_ = f"edge {operation_class(operation)}{'' if live else ' dead'}"
    return element("path", d=way, class_=class_, fill="none", **paint, opacity=faint, data_tip=tip)


def _node(x: float, y: float, radius: float, label: str) -> Markup:
    paint: dict[str, Value] = {"fill": "#fff", "stroke": "#1b1f24", "stroke_width": 1.3}
    circle = element("circle", cx=x, cy=y, r=radius, class_="node", **paint)
    return circle + (text(x, y + 4, label, "node-label", "middle") if label else Markup(""))


def operation_legend(operations: Sequence[str]) -> list[tuple[str, str, Markup]]:
    """A sample of each operation's curve."""
    return [(label(o), "", _curve("M-9 0H9", o)) for o in operations if o != NONE]


def described(operations: Sequence[str], live: Sequence[int]) -> str:
    """The operations in words, one line per edge that is there."""
    ends = edges(node_count(len(operations)))
    lines = [
        f"{source} → {target}\t{label(o)}{'' if e in live else ' (leads nowhere)'}"
        for e, ((source, target), o) in enumerate(zip(ends, operations, strict=True))
        if o != NONE
    ]
    return "\n".join(lines) or "no operation at all"


def cell_picture(operations: Sequence[str], live: Sequence[int], name: str) -> Markup:
    """One cell with its operations named."""
    return standalone(cell_graph(operations, live, 24, 122, 312, labels=True), 360, 226, f"Cell {name}")
