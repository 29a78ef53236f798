"""Metrics against ensemble size."""

from uraenas.report.blocks import Choice, Figure, Note, Section
from uraenas.report.chart import Axis, Frame, Series, line_chart, method_key
from uraenas.report.reading import RunFacts
from uraenas.report.style import METRIC_NAMES, count, direction, show
from uraenas.svg import padded, round_ticks

METRICS = ("accuracy", "ece", "nll")


def section(facts: RunFacts) -> Section:
    found = Section(
        "size",
        "Ensemble size",
        "What another member brings. A value at a size below the full one is the mean over random subsets of the "
        "members; the curve of a good ensemble falls (ECE, NLL) or rises (accuracy) and then levels off.",
    )
    if max(facts.sizes.values()) == 1:
        found.blocks.append(Note("Every method of this run has one member, so there is nothing to compare."))
        return found
    places = {"clean": "none"} | ({"shifted": facts.shifted} if facts.shifted else {})
    options = {words.capitalize(): _figures(facts, shift, words) for words, shift in places.items()}
    found.blocks += [method_key(facts.methods), Choice("Test images", options)]
    return found


def _figures(facts: RunFacts, shift: str, words: str) -> list[Figure]:
    figures = [_figure(facts, metric, shift, words) for metric in METRICS]
    return [figure for figure in figures if figure is not None]


def _figure(facts: RunFacts, metric: str, shift: str, words: str) -> Figure | None:
    series = []
    for name, full in facts.sizes.items():
        sizes = range(1, full + 1)
        points = [(m, v) for m in sizes if (v := facts.value(name, metric, shift, members=m)) is not None]
        if points:
            series.append(Series(name, points))
    if not series:
        return None
    most = max(facts.sizes.values())
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
        f"size-{metric}-{words}",
        title,
        n,
        series,
        Frame(x, y),
        lambda v: count(int(v), "member"),
        lambda v: show(metric, v),
    )
