"""Charts: a frame with axes, lines with markers, heat maps. Each carries its title, its n and its legend."""

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from markupsafe import Markup, escape

from uraenas.base.svg import Scale, decimals, element, finished, join, line, mark, path, rect, text
from uraenas.report.blocks import Figure, Key
from uraenas.report.style import colour, marker

WIDTH = 360
HEAD = 44  # pixels that title and n take, each on one line
LETTER = 7.3  # pixels that a letter takes, rather too many
WIDE_LETTER = 8.4  # of a method's name: hyphens are few, and m, w and b many
TITLE, WORDS = 40, 51  # letters of a title, and of other words, that fit into a line
Legend = Sequence[tuple[str, str, Markup]]


def beside(names: Iterable[str]) -> float:
    """Where a figure's inside begins, to the right of a column of methods' names."""
    return 16 + WIDE_LETTER * max(map(len, names))


def draw(
    id: str, title: str, n: str, height: float, content: str, legend: Legend = (), summary: str = ""
) -> Figure:
    """A figure: title and n above the content. The legend lies below the visible part and is shown when saved."""
    titles, words = wrapped(title, TITLE), wrapped(n, WORDS)
    head = [text(0, 15 + 17 * k, line, "title") for k, line in enumerate(titles)]
    below = 32 + 17 * (len(titles) - 1)
    head += [text(0, below + 16 * k, line, "n") for k, line in enumerate(words)]
    if more := below - 32 + 16 * (len(words) - 1):
        content = element("g", content, transform=f"translate(0 {more})")
    drawn_legend, legend_height = _legend(legend, height + more)
    svg = element(
        "svg",
        *head,
        content,
        drawn_legend,
        viewBox=f"0 0 {WIDTH} {height + more:.0f}",
        role="img",
        tabindex="0",
        aria_label=f"{title}. {n}. {summary}".strip(),
        data_name=id,
        data_legend=legend_height,
    )
    return Figure(id, title, svg)


def wrapped(words: str, most: int) -> list[str]:
    """Lines of at most so many letters: broken between parts where that is enough, else between words."""
    lines: list[str] = []
    for part in words.split(" · "):
        if lines and len(lines[-1]) + len(part) + 3 <= most:
            lines[-1] += f" · {part}"
            continue
        if lines:
            lines[-1] += " ·"
        lines += [part] if len(part) <= most else textwrap.wrap(part, most)
    return lines


def _legend(legend: Legend, top: float) -> tuple[Markup, int]:
    parts, x, y = [], 0.0, top + 14
    for name, class_, sample in legend:
        first, *more = textwrap.wrap(name, int((WIDTH - 30) / LETTER)) or [""]
        width = 30 + LETTER * len(first)
        if x and x + width > WIDTH:
            x, y = 0.0, y + 18
        drawn = element("g", sample, class_=class_, transform=f"translate({x + 10:.0f} {y - 4:.0f})")
        parts += [drawn, text(x + 22, y, first)]
        for words in more:  # a name that is longer than a line has its lines to itself
            y += 17
            parts.append(text(x + 22, y, words))
        x = WIDTH if more else x + width
    return join(parts), (int(y - top) + 8 if legend else 0)


def method_legend(methods: Sequence[str]) -> Legend:
    return series_legend([Series(name, ()) for name in methods])


def series_legend(series: Sequence["Series"]) -> Legend:
    return [(one.name, one.colour, _sample(one.marker)) for one in series]


@cache
def _sample(shape: str) -> Markup:
    return line(-9, 0, 9, 0, "line") + mark(shape, 0, 0)


def method_key(methods: Sequence[str]) -> Key:
    return Key(method_legend(methods))


@dataclass(frozen=True)
class Axis:
    """What an axis shows; `ticks` are chosen if none are given."""

    title: str
    low: float
    high: float
    show: Callable[[float], str] | None = None
    ticks: Sequence[float] = ()
    log: bool = False


@dataclass(frozen=True)
class Frame:
    """The rectangle that values are drawn in."""

    x: Axis
    y: Axis
    top: float = HEAD + 8
    height: float = 170
    right: float = WIDTH - 16

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @cached_property
    def left(self) -> float:
        """Beside the longest label of the y axis."""
        return 12 + LETTER * max(3, *(len(label) for _, label in _labels(self.y, self.up)))

    @cached_property
    def across(self) -> Scale:
        return Scale(self.x.low, self.x.high, self.left, self.right, self.x.log)

    @cached_property
    def up(self) -> Scale:
        return Scale(self.y.low, self.y.high, self.bottom, self.top, self.y.log)

    @property
    def figure_height(self) -> float:
        return self.bottom + 40

    def axes(self) -> Markup:
        """Grid lines, tick labels and axis titles."""
        parts = []
        across, up = self.across, self.up
        for value, label in _labels(self.y, up):
            parts.append(line(self.left, up(value), self.right, up(value), "rule"))
            parts.append(text(self.left - 6, up(value) + 4, label, "tick", "end"))
        for value, label in _labels(self.x, across):
            parts.append(line(across(value), self.bottom, across(value), self.bottom + 4, "axis"))
            parts.append(text(across(value), self.bottom + 17, label, "tick", "middle"))
        parts.append(line(self.left, self.bottom, self.right, self.bottom, "axis"))
        middle = (self.left + self.right) / 2
        parts.append(text(middle, self.bottom + 34, self.x.title, "label", "middle"))
        return join(parts)

    def bands(self, positions: Sequence[float], tips: Sequence[str]) -> Markup:
        """Invisible columns, one around each position, that tell its values when pointed at."""
        pixels = [self.across(position) for position in positions]
        edges = [self.left, *((a + b) / 2 for a, b in itertools.pairwise(pixels)), self.right]
        parts = []
        for k, (pixel, tip) in enumerate(zip(pixels, tips, strict=True)):
            inside = rect(edges[k], self.top, max(edges[k + 1] - edges[k], 1), self.height, "hit")
            guide = line(pixel, self.top, pixel, self.bottom, "guide")
            parts.append(element("g", inside, guide, class_="band", data_tip=tip))
        return join(parts)


def _labels(axis: Axis, scale: Scale) -> list[tuple[float, str]]:
    ticks = list(axis.ticks) or scale.ticks()
    places = decimals(ticks)
    show = axis.show or (lambda value: f"{value:g}" if axis.log else f"{value:.{places}f}")
    return [(tick, show(tick).replace("-", "−")) for tick in ticks]


@dataclass(frozen=True)
class Series:
    """A line's values: points (x, y) from left to right. Its colour is the method's, its shape that or a run's."""

    name: str
    points: Sequence[tuple[float, float]]
    method: str = ""  # its name, unless told
    shape: int | None = None  # None: as the method's
    band: Sequence[tuple[float, float, float]] = ()  # x, low, high

    @property
    def colour(self) -> str:
        return colour(self.method or self.name)

    @property
    def marker(self) -> str:
        return marker((self.method or self.name) if self.shape is None else self.shape)


def line_chart(
    id: str,
    title: str,
    n: str,
    series: Sequence[Series],
    frame: Frame,
    heading: Callable[[float], str],
    show: Callable[[float], str],
    marks: bool = True,
    beneath: str = "",
) -> Figure:
    """One line per method, over what is drawn beneath; pointing at an x gives all their values there."""
    bands = [_band(one, frame) for one in series if one.band]
    drawn = [_line(one, frame, marks) for one in series]
    told: dict[float, list[str]] = {x: [heading(x)] for x in sorted({x for s in series for x, _ in s.points})}
    for one in series:
        _tell(one, show, told)
    positions, tips = list(told), list(map("".join, told.values()))
    content = join([*bands, frame.axes(), beneath, frame.bands(positions, tips), *drawn])
    summary = "Last values: " + ", ".join(f"{s.name} {show(s.points[-1][1])}" for s in series if s.points)
    return draw(id, title, n, frame.figure_height, content, series_legend(series), summary)


def _line(one: Series, frame: Frame, marks: bool) -> Markup:
    places = [(frame.across(x), frame.up(y)) for x, y in one.points]
    points = [mark(one.marker, x, y, 3.4) for x, y in places] if marks else []
    level = line(places[0][0], places[0][1], frame.right, places[0][1], "level") if len(places) == 1 else ""
    method = one.method or one.name
    return element("g", path(places, "line"), level, *points, class_=one.colour, data_method=method)


def _band(one: Series, frame: Frame) -> Markup:
    low = [(frame.across(x), frame.up(low)) for x, low, _ in one.band]
    high = [(frame.across(x), frame.up(high)) for x, _, high in reversed(one.band)]
    method = one.method or one.name
    return element("g", path([*low, *high], "spread"), class_=one.colour, data_method=method)


def _tell(one: Series, show: Callable[[float], str], told: Mapping[float, list[str]]) -> None:
    """Add a line's values to what is told at each x."""
    between = {x: f" ({show(low)} – {show(high)})" for x, low, high in one.band}
    name = f"\n{{{one.colour}}}{one.name}\t"
    for x, y in one.points:
        if math.isfinite(y):
            told[x].append(f"{name}{show(y)}{between.get(x, '')}")


def heat_cell(x: float, y: float, width: float, height: float, share: float, label: str, tip: str) -> Markup:
    """A cell coloured by a share 0 … 1 of the range, its value printed on it."""
    opacity = 0.05 + 0.95 * min(max(share, 0.0), 1.0)
    return _cell(x, y, width, height, "heat", opacity, label, tip)


def signed_cell(
    x: float, y: float, width: float, height: float, share: float, label: str, tip: str
) -> Markup:
    """A cell coloured by how much better (0 … 1) or worse (−1 … 0) something is."""
    kind = "heat better" if share > 0 else "heat worse"
    return _cell(x, y, width, height, kind, min(abs(share), 1.0), label, tip)


def _cell(
    x: float, y: float, width: float, height: float, kind: str, opacity: float, label: str, tip: str
) -> Markup:
    """Thousands are drawn: no element more than is needed."""
    cell = (
        f'<rect class="{kind}" x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{width - 1:.1f}" '
        f'height="{height - 1:.1f}" fill-opacity="{opacity:.2f}" data-tip="{escape(tip)}"/>'
    )
    words = text(x + width / 2, y + height / 2 + 4, label, "cell") if label else ""
    return finished(f"{cell}{words}")


def share_of(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.0
