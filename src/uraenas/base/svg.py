"""SVG as text: escaped elements, scales with round ticks, and marks."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial

from markupsafe import Markup, escape

AIR = 0.08  # around what a range must hold, as a part of it

Value = str | float | int | None

finished: Callable[[str], Markup] = partial(str.__new__, Markup)  # what is escaped already


def element(name: str, *children: str, **attributes: Value) -> Markup:
    """`<name …>children</name>`; children that are not markup are escaped. `class_` is class, `data_tip` data-tip."""
    shown = "".join(
        [f' {_name(key)}="{_attribute(value)}"' for key, value in attributes.items() if value is not None]
    )
    inside = join(children)
    return finished(f"<{name}{shown}>{inside}</{name}>" if inside else f"<{name}{shown}/>")


@cache
def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _attribute(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value) if isinstance(value, int) else _escaped(value or "")


@lru_cache(maxsize=10_000)
def _escaped(words: str) -> str:
    """A page says the same thing thousands of times: classes, names, ticks."""
    return str(escape(words))


def join(parts: Sequence[str]) -> Markup:
    return finished("".join([part if type(part) is Markup else _escaped(part) for part in parts]))


# The shapes of which a page has tens of thousands are written without a dictionary of attributes.


def text(x: float, y: float, words: str, class_: str | None = None, anchor: str | None = None) -> Markup:
    more = f' class="{class_}"' if class_ else ""
    more += f' text-anchor="{anchor}"' if anchor else ""
    return finished(f'<text x="{x:.1f}" y="{y:.1f}"{more}>{_escaped(words)}</text>')


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return finished(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{class_}"/>')


def rect(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return finished(f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="{class_}"/>')


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through points; where a value is missing, the line is broken."""
    steps, pen = [], "M"
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            steps.append(f"{pen}{x:.1f} {y:.1f}")
            pen = "L"
        else:
            pen = "M"
    return finished(f'<path d="{"".join(steps)}" class="{class_}"/>')


MARKS = ("circle", "square", "triangle", "diamond", "cap", "cross", "ring", "plus")


def mark(shape: str, x: float, y: float, radius: float = 4.0) -> Markup:
    """A point of this shape; colour comes from the group it stands in."""
    if shape in ("circle", "ring"):
        class_ = "ring" if shape == "ring" else "dot"
        return finished(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" class="{class_}"/>')
    (right, down), steps = _outline(shape, radius)
    class_ = "stroke" if shape in ("cross", "plus") else "dot"
    return finished(f'<path d="M{x + right:.1f} {y + down:.1f}{steps}" class="{class_}"/>')


@cache
def _outline(shape: str, r: float) -> tuple[tuple[float, float], str]:
    """Where the pen is set down, from the middle of a mark, and how it goes on from there."""
    outlines = {
        "square": ((-r, -r), f"h{2 * r:.1f}v{2 * r:.1f}h{-2 * r:.1f}z"),
        "triangle": ((0, -1.2 * r), f"l{1.15 * r:.1f} {2.1 * r:.1f}h{-2.3 * r:.1f}z"),
        "diamond": (
            (0, -1.3 * r),
            f"l{1.3 * r:.1f} {1.3 * r:.1f}l{-1.3 * r:.1f} {1.3 * r:.1f}l{-1.3 * r:.1f} {-1.3 * r:.1f}z",
        ),
        "cap": ((0, 1.2 * r), f"l{1.15 * r:.1f} {-2.1 * r:.1f}h{-2.3 * r:.1f}z"),
        "plus": ((-1.3 * r, 0), f"h{2.6 * r:.1f}m{-1.3 * r:.1f} {-1.3 * r:.1f}v{2.6 * r:.1f}"),
        "cross": ((-r, -r), f"l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}"),
    }
    return outlines[shape]


@dataclass(frozen=True)
class Scale:
    """Values low … high to pixels start … end."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        at_zero, slope = self._line
        return at_zero + slope * (self._bent(value) if self.log else value)

    @cached_property
    def _line(self) -> tuple[float, float]:
        """Pixels at zero, and for one more; the middle where there is no range."""
        low, high = self._bent(self.low), self._bent(self.high)
        if high == low:
            return (self.start + self.end) / 2, 0.0
        slope = (self.end - self.start) / (high - low)
        return self.start - slope * low, slope

    def _bent(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.log else value  # what is too small lies on the floor

    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else round_ticks(self.low, self.high)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values within low … high, roughly this many."""
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … within low … high; powers of ten alone where there are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if len(powers) <= 4 else (1,)
    return [d * 10.0**p for p in powers for d in digits if low <= d * 10.0**p <= high]


def padded(values: Sequence[float], shares: bool = False) -> tuple[float, float]:
    """A range that holds all values with some air around them; of shares little above 1, where none can be."""
    low, high = min(values), max(values)
    air = (high - low) * AIR or abs(high) * 0.1 or 0.5
    most = max(high, 1 + air * AIR) if shares else math.inf
    return low - air, min(high + air, most)


def decimals(ticks: Sequence[float]) -> int:
    """How many decimals tell these ticks apart."""
    steps = [b - a for a, b in itertools.pairwise(ticks) if b > a]
    if not steps:
        return 2
    places = max(0, -math.floor(math.log10(min(steps)) + 1e-9))
    return places + (round(min(steps) * 10**places, 6) % 1 > 0)
