"""A cell drawn as a graph: nodes from left to right, one curve per operation.

Widths, dashes and the colours of light paper are attributes, so that a drawing can stand anywhere; a page's style
sheet may overrule the colours.
"""

from collections.abc import Sequence

from markupsafe import Markup

from uraenas.spaces.nasbench201 import EDGES, NODES, OPERATIONS, Genotype
from uraenas.svg import Value, element, join, text

OPERATION_NAMES = {
    "none": "none",
    "skip_connect": "skip",
    "nor_conv_1x1": "1×1 conv",
    "nor_conv_3x3": "3×3 conv",
    "avg_pool_3x3": "3×3 pool",
}
CURVES: dict[str, tuple[str, float, str | None]] = {  # colour, width, dashes
    "skip_connect": ("#50565e", 1.3, "5 3"),
    "nor_conv_1x1": ("#bb8000", 2.0, None),
    "nor_conv_3x3": ("#0a4fa3", 3.6, None),
    "avg_pool_3x3": ("#00805c", 2.6, "2 2.5"),
}
# Height of a curve's control point over its width, by the steps it spans, longer ones as the last; labels need room.
BENDS = {1: 0.0, 2: 0.36, 3: 0.86}
LABELLED_BENDS = {1: 0.0, 2: 0.58, 3: 0.64}


def operation_class(operation: str) -> str:
    """The class that gives a group this operation's colour."""
    return f"o{list(OPERATION_NAMES).index(operation)}"


def operation_name(operation: str) -> str:
    return OPERATION_NAMES[operation]


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
        bend = bends[min(span, max(bends))] * step * span * (-1 if source == 0 else 1)
        way = f"M{start:.1f} {y:.1f}Q{(start + end) / 2:.1f} {y + bend:.1f} {end:.1f} {y:.1f}"
        told = None if tip else f"node {source} → {target}\t{operation_name(operation)}"
        parts.append(_curve(way, operation, number in genotype.live_edges, told))
        if labels:
            lift = -5 if bend <= 0 else 13
            middle = (start + end) / 2
            words.append(text(middle, y + bend / 2 + lift, operation_name(operation), "tick", "middle"))
    radius = 7.0 if labels else 3.5
    parts += [_node(x + step * node, y, radius, str(node) if labels else "") for node in range(NODES)]
    return element("g", *parts, *words, class_="cell-graph", data_tip=tip or None)


def _curve(way: str, operation: str, live: bool = True, tip: str | None = None) -> Markup:
    colour, width, dashes = CURVES[operation]
    paint: dict[str, Value] = {"stroke": colour, "stroke_width": width, "stroke_dasharray": dashes}
    faint = None if live else 0.22
    class_ = f"edge {operation_class(operation)}{'' if live else ' dead'}"
    return element("path", d=way, class_=class_, fill="none", **paint, opacity=faint, data_tip=tip)


def _node(x: float, y: float, radius: float, label: str) -> Markup:
    paint: dict[str, Value] = {"fill": "#fff", "stroke": "#1b1f24", "stroke_width": 1.3}
    circle = element("circle", cx=x, cy=y, r=radius, class_="node", **paint)
    return circle + (text(x, y + 4, label, "node-label", "middle") if label else Markup(""))


def operation_legend() -> list[tuple[str, str, Markup]]:
    """A sample of each operation's curve."""
    return [(operation_name(o), "", _curve("M-9 0H9", o)) for o in OPERATIONS if o != "none"]


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


def standalone(drawing: Markup, width: float, height: float, label: str) -> Markup:
    """A drawing as a picture of its own, on white so that it can be read in a dark notebook too."""
    view = f"0 0 {width:.0f} {height:.0f}"
    return element(
        "svg",
        drawing,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=view,
        width=width,
        height=height,
        role="img",
        aria_label=label,
        style="background: #fff; font: 11px sans-serif",
    )


def cell_picture(genotype: Genotype) -> Markup:
    """One cell with its operations named."""
    return standalone(cell_graph(genotype, 24, 122, 312, labels=True), 360, 206, f"Cell {genotype}")
