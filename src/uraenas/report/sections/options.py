"""Bars for each option of each decision: what was learned of it, and how often it is drawn where that does not tell."""

import math
from collections.abc import Mapping

import torch
from markupsafe import Markup
from torch import Tensor

from uraenas.architectures import Searched
from uraenas.base.svg import element, join, line, rect
from uraenas.report.blocks import Figure
from uraenas.report.chart import LETTER, WIDTH, Axis, Frame, Legend, draw
from uraenas.spaces import Space, option_counts

DRAWS = "share of draws"


def legend_of(space: Space) -> Legend:
    """All options that some decision has."""
    names = dict.fromkeys(option for decision in space.decisions for option in decision.options)
    return [(*space.look(name), rect(-7, -5, 14, 10, "fill")) for name in names]


def figures(searched: Searched) -> list[Figure]:
    """What was learned; of numbers with a spread the shares of draws, too, since the largest need not be drawn most."""
    distribution, state = searched.distribution, searched.state
    word, shares, spread = distribution.numbers, distribution.shares(state), distribution.spread(state)
    before = Searched.nothing(searched.space, distribution)
    start = before.favour.max().item()
    if spread is None:
        return [_bars(searched, "favour", {word: searched.favour, "expected share": shares}, start)]
    even = distribution.shares(before.state).max().item()
    return [
        _bars(searched, "favour", {word: searched.favour, DRAWS: shares, "deviation": spread}, start, spread),
        _bars(searched, "drawn-options", {DRAWS: shares, word: searched.favour}, even),
    ]


def _bars(
    searched: Searched, id: str, told: Mapping[str, Tensor], start: float, spread: Tensor | None = None
) -> Figure:
    """A group of bars for each decision: the first of what is told, with its spread."""
    space, decisions = searched.space, searched.space.decisions
    word, values = next(iter(told.items()))
    frame = _frame(searched, values, spread)
    expected = searched.distribution.mode(searched.state).tolist()
    most = values.shape[1]
    width = (frame.right - frame.left) / len(decisions) * 0.8 / most
    parts = [frame.axes(), line(frame.left, frame.up(start), frame.right, frame.up(start), "ideal")]
    for d, decision in enumerate(decisions):
        left = frame.across(d) - width * most / 2
        for o, option in enumerate(decision.options):
            name, class_ = space.look(option)
            numbers = [f"{words}\t{of[d, o].item():.4g}" for words, of in told.items()]
            chosen = o == expected[d]
            words = ["expected option of this decision"] if chosen else []
            tip = "\n".join([f"{name} at {decision.name}", *numbers, *words])
            around = 0.0 if spread is None else spread[d, o].item()
            bar = _bar(frame, left + width * o, width, values[d, o].item(), around, chosen)
            parts.append(element("g", bar, class_=f"{class_} spot", data_tip=tip))
    few = "×" if len(set(option_counts(space))) == 1 else "with up to"
    n = f"n = {len(decisions)} decisions {few} {most} options · dashed: start, ● expected"
    n += "" if spread is None else ", | ± one deviation"
    summary = f"Expected architecture {searched.expected}"
    title = f"{word.capitalize()} per decision"
    return draw(id, title, n, frame.figure_height, join(parts), legend_of(space), summary)


def _frame(searched: Searched, values: Tensor, spread: Tensor | None) -> Frame:
    decisions = searched.space.decisions
    named = range(0, len(decisions), _every([decision.name for decision in decisions]))
    x = Axis("decision", -0.5, len(decisions) - 0.5, lambda v: decisions[int(v)].name, named)
    reach = torch.zeros_like(values) if spread is None else spread
    low, high = (values - reach).min().item(), (values + reach).max().item()
    return Frame(x, Axis("", 1.1 * min(0.0, low), 1.1 * high if high > 0 else 1.0))


def _bar(frame: Frame, left: float, width: float, value: float, around: float, chosen: bool) -> Markup:
    """From 0 to the value, one deviation of it to either side, and a mark on that of the expected option."""
    top, bottom, centre = frame.up(max(value, 0.0)), frame.up(min(value, 0.0)), left + width / 2
    parts = [rect(left, top, width - 0.8, bottom - top, "fill")]
    if around:
        parts.append(line(centre, frame.up(value - around), centre, frame.up(value + around), "ideal"))
    if chosen:
        above = frame.up(max(value, 0.0) + around) - 5
        parts.append(element("circle", cx=centre, cy=above, r=2.2, class_="chosen"))
    return join(parts)


def _every(names: list[str]) -> int:
    """1 where all names fit side by side, 2 where every second does, …"""
    return math.ceil(len(names) * (LETTER * max(map(len, names)) + 6) / (WIDTH - 56))
