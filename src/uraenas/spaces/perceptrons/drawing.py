"""A perceptron drawn as a graph: nodes from left to right, with an arc for each skip."""

from markupsafe import Markup

from uraenas.base.svg import Value, element, text
from uraenas.spaces.perceptrons.wiring import IDENTITY, Perceptron, split

COLOURS = {"relu": "#0a4fa3", "swish": "#bb8000", "tanh": "#00805c", "linear": "#50565e"}
CLASSES = {"relu": "o3", "swish": "o2", "tanh": "o4", "linear": "o1"}
SKIP: dict[str, Value] = {"stroke": "#50565e", "stroke_width": 1.3, "stroke_dasharray": "5 3"}


def look(option: str) -> tuple[str, str]:
    """An option for people, and its class."""
    if option in ("none", "skip", IDENTITY):
        return option, "o0" if option == "none" else "o1"
    activation, width = split(option)
    return f"{width} {activation}", CLASSES[activation]


def described(architecture: Perceptron) -> str:
    """A line for each layer that is there."""
    layers, last = architecture.dense
    lines = [
        f"layer {k}\t{one.width} {one.activation}, reads {_read(one.sources)}"
        for k, one in enumerate(layers, 1)
    ]
    return "\n".join([*lines, f"output\treads {_read(last)}"])


def _read(sources: tuple[int, ...]) -> str:
    return ", ".join("the input" if j == 0 else f"layer {j}" for j in sources)


def graph(
    architecture: Perceptron, x: float, y: float, width: float, labels: bool = False, tip: str = ""
) -> Markup:
    """Input at (x, y), output at the other end; the larger a node, the wider its layer."""
    nodes = len(architecture.layers)
    step = width / (nodes + 1)
    parts = [_line(x, y, width)]
    for k, own in enumerate(architecture.skips):
        for j in own:
            start, end = x + step * j, x + step * (k + 1)
            lift = (22 if labels else 12) * (k - j)
            way = f"M{start:.1f} {y:.1f}Q{(start + end) / 2:.1f} {y - lift:.1f} {end:.1f} {y:.1f}"
            parts.append(element("path", d=way, class_="edge o1", fill="none", **SKIP))
    for k, layer in enumerate(("input", *architecture.layers, "out")):
        parts.append(_node(x + step * k, y, layer))
        if labels:
            words = layer if layer in ("input", "out", IDENTITY) else look(layer)[0]
            parts.append(text(x + step * k, y + 24, words, "tick", "middle"))
    return element("g", *parts, class_="cell-graph", data_tip=tip or None)


def legend(activations: tuple[str, ...]) -> list[tuple[str, str, Markup]]:
    """A sample of each activation's node, and of a skip."""
    found = [(one, "", _node(0, 0, f"{one}32")) for one in activations]
    return [*found, ("skip", "", element("path", d="M-9 0H9", class_="edge o1", fill="none", **SKIP))]


def _line(x: float, y: float, width: float) -> Markup:
    paint: dict[str, Value] = {"stroke": "#1b1f24", "stroke_width": 1.0}
    return element("line", x1=x, y1=y, x2=x + width, y2=y, class_="edge", **paint)


def _node(x: float, y: float, layer: str) -> Markup:
    colour, radius = "#fff", 3.0
    if layer not in ("input", "out", IDENTITY):
        activation, width = split(layer)
        colour, radius = COLOURS[activation], min(9.0, 2.5 + width**0.5 / 2)
    paint: dict[str, Value] = {"fill": colour, "stroke": "#1b1f24", "stroke_width": 1.0}
    return element("circle", cx=x, cy=y, r=radius, class_="node", **paint)
