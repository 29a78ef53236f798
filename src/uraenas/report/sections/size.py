"""Metrics against ensemble size."""

from collections.abc import Sequence
from dataclasses import dataclass

from uraenas.base.svg import padded, round_ticks
from uraenas.report.blocks import Block, Choice, Figure, Key, Note, Section
from uraenas.report.chart import Axis, Frame, Series, line_chart, series_legend
from uraenas.report.reading import RunFacts
from uraenas.report.style import METRIC_NAMES, count, direction, show


@dataclass(frozen=True)
class Curve:
    """A method of a run, and how its line is called and looks."""

    facts: RunFacts
    method: str
    name: str
    slot: int | None = None  # None: as the method does everywhere

    @property
    def members(self) -> int:
        return self.facts.sizes[self.method]

    def series(self, metric: str, shift: str) -> Series:
        sizes = range(1, self.members + 1)
        values = [(m, self.facts.value(self.method, metric, shift, members=m)) for m in sizes]
        return Series(self.name, [(m, v) for m, v in values if v is not None], self.slot)


def section(facts: RunFacts) -> Section:
    found = Section(
        "size",
        "Ensemble size",
        "What another member brings. A value at a size below the full one is the mean over random subsets of the "
        "members; the curve of a good ensemble falls (ECE, NLL) or rises (accuracy) and then levels off.",
    )
    found.blocks += curves([Curve(facts, name, name) for name in facts.methods], "size")
    return found


def curves(lines: Sequence[Curve], id: str) -> list[Block]:
    """Figures with a line for each; all were tested on the same images. Their ids begin with this one."""
    if max(line.members for line in lines) == 1:
        return [Note("Every method has one member, so there is nothing to compare.")]
    places = lines[0].facts.places
    options = {words.capitalize(): _figures(lines, id, shift, words) for words, shift in places.items()}
    legend = series_legend([Series(line.name, (), line.slot) for line in lines])
    return [Key(legend, methods=all(line.slot is None for line in lines)), Choice("Test images", options)]


def _figures(lines: Sequence[Curve], id: str, shift: str, words: str) -> list[Figure]:
    figures = [_figure(lines, id, metric, shift, words) for metric in lines[0].facts.headline]
    return [figure for figure in figures if figure is not None]


def _figure(lines: Sequence[Curve], id: str, metric: str, shift: str, words: str) -> Figure | None:
    series = [found for line in lines if (found := line.series(metric, shift)).points]
    if max((len(one.points) for one in series), default=0) < 2:
        return None  # it is not known, or of whole ensembles alone
    facts = lines[0].facts
    most = max(line.members for line in lines)
    percent = metric == "accuracy"
    ticks = [t for t in round_ticks(1, most, 6) if t == int(t)] or [1]
    x = Axis("members", 0.75, most + 0.25, lambda v: f"{v:.0f}", ticks if 1 in ticks else [1, *ticks])
    low, high = padded([y for one in series for _, y in one.points])
    y = Axis("", low, high, (lambda v: f"{100 * v:.4g}") if percent else None)
    title = f"{METRIC_NAMES[metric]}{' in %' if percent else ''}, {words}"
    n = f"{direction(metric)} · {facts.n} images"
    if shift != "none":
        n += f" × {count(len(facts.cells), 'shift')}"
    return line_chart(
        f"{id}-{metric}-{words}",
        title,
        n,
        series,
        Frame(x, y),
        lambda v: count(int(v), "member"),
        lambda v: show(metric, v),
    )
