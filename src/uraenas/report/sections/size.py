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
    """A method in one run, or in several that are seeds of it, and how its line is called and looks."""

    runs: Sequence[RunFacts]
    method: str
    name: str
    shape: int | None = None  # None: as the method's everywhere

    @property
    def members(self) -> int:
        return self.runs[0].sizes[self.method]

    def series(self, metric: str, shift: str) -> Series:
        points, band = [], []
        for size in range(1, self.members + 1):
            rows = [facts.row(self.method, metric, shift, members=size) for facts in self.runs]
            known = [row for row in rows if row is not None]
            if known:
                points.append((size, sum(row.value for row in known) / len(known)))
            if len(known) == 1 and known[0].spread is not None:
                value, spread = known[0].value, known[0].spread
                band.append((size, value - spread, value + spread))
        if band and points[-1][0] == self.members:
            band.append((self.members, points[-1][1], points[-1][1]))  # there is one subset of all
        return Series(self.name, points, self.method, self.shape, band)


def section(facts: RunFacts) -> Section:
    found = Section(
        "size",
        "Ensemble size",
        "What another member brings. A value at a size below the full one is the mean over random subsets of the "
        "members; the curve of a good ensemble gets better and then levels off. Bands: one "
        "standard deviation over the subsets to either side, where it was kept; a curve without one is no surer.",
    )
    found.blocks += curves([Curve([facts], name, name) for name in facts.methods], "size")
    return found


def curves(lines: Sequence[Curve], id: str, shifted: bool = True) -> list[Block]:
    """Figures with a line for each; all were tested on the same images or rows. Their ids begin with this one.

    `shifted`: so were those that were tested on shifted ones.
    """
    if max(line.members for line in lines) == 1:
        return [Note("Every method has one member, so there is nothing to compare.")]
    facts = lines[0].runs[0]
    places = {words: shift for line in lines for words, shift in line.runs[0].places.items()}
    options = {
        words.capitalize(): _figures(lines, id, shift, words)
        for words, shift in places.items()
        if shifted or shift == "none"
    }
    own = all(line.shape is None for line in lines)
    legend = series_legend([Series(line.name, (), line.method, line.shape) for line in lines])
    return [Key(legend, methods=own), Choice(f"{facts.part.capitalize()} {facts.examples}", options)]


def _figures(lines: Sequence[Curve], id: str, shift: str, words: str) -> list[Figure]:
    figures = [_figure(lines, id, metric, shift, words) for metric in lines[0].runs[0].headline]
    return [figure for figure in figures if figure is not None]


def _bands(series: Sequence[Series]) -> str:
    """What they are, and that a curve without one is no surer than others."""
    curves = [one for one in series if len(one.points) > 1]
    if not any(one.band for one in curves):
        return " · no bands"
    return " · band: ± one deviation" + ("" if all(one.band for one in curves) else ", where it was kept")


def _figure(lines: Sequence[Curve], id: str, metric: str, shift: str, words: str) -> Figure | None:
    lines = [line for line in lines if line.series(metric, shift).points]
    series = [line.series(metric, shift) for line in lines]
    if max((len(one.points) for one in series), default=0) < 2:
        return None  # it is not known, or of whole ensembles alone
    facts = lines[0].runs[0]
    most = max(line.members for line in lines)
    percent = metric == "accuracy"
    ticks = [t for t in round_ticks(1, most, 6) if t == int(t)] or [1]
    x = Axis("members", 0.75, most + 0.25, lambda v: f"{v:.0f}", ticks if 1 in ticks else [1, *ticks])
    ends = [end for one in series for _, *both in one.band for end in both]
    low, high = padded([*(y for one in series for _, y in one.points), *ends], percent)
    y = Axis("", low, high, (lambda v: f"{100 * v:.4g}") if percent else None)
    title = f"{METRIC_NAMES[metric]}{' in %' if percent else ''}, {words}"
    n = f"{direction(metric)} · {facts.n} {facts.examples}"
    if shift != "none":
        n += f" × {count(len(facts.cells), 'shift')}"
    if (runs := len({run for line in lines for run in line.runs})) > 1:
        n += f" · {count(runs, 'run')}"
    n += f" · means over up to {facts.settings['evaluate.subsets']} subsets{_bands(series)}"
    return line_chart(
        f"{id}-{metric}-{words}",
        title,
        n,
        series,
        Frame(x, y),
        lambda v: count(int(v), "member"),
        lambda v: show(metric, v),
    )
