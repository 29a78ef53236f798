"""Drawings of architectures put together: a gallery, and a picture that stands alone."""

from collections.abc import Sequence

from markupsafe import Markup

from uraenas.base.svg import element, join, text
from uraenas.spaces.space import Architecture, Space

COLUMNS, RISE = 3, 100.0


def gallery(
    space: Space, groups: Sequence[tuple[Architecture, str, str]], top: float, width: float
) -> tuple[Markup, float]:
    """Architectures in rows of three, each with words beneath and a tip; and the height they take."""
    step = width / COLUMNS
    parts = []
    for k, (architecture, words, tip) in enumerate(groups):
        left, y = step * (k % COLUMNS), top + RISE * (k // COLUMNS) + 48
        told = f"{tip}\n{space.describe(architecture)}"
        parts.append(space.draw(architecture, left + 10, y, step - 26, tip=told))
        parts.append(text(left + step / 2 - 3, y + 42, words, "tick", "middle"))
    return join(parts), RISE * -(-len(groups) // COLUMNS)


def standalone(drawing: Markup, width: float, height: float, label: str) -> Markup:
    """A drawing as a picture of its own, on white so that it can be read in a dark notebook too."""
    return element(
        "svg",
        drawing,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        style="background: #fff; font: 11px sans-serif",
    )
