"""Metrics against severity, and the heat map corruption × severity."""

import statistics

from uraenas.base.svg import join, padded, rect, text
from uraenas.evaluation import CALIBRATIONS
from uraenas.report.blocks import Choice, Figure, Note, Section
from uraenas.report.chart import (
    HEAD,
    WIDTH,
    Axis,
    Frame,
    Series,
    draw,
    line_chart,
    method_key,
    share_of,
    signed_cell,
)
from uraenas.report.reading import RunFacts
from uraenas.report.style import METRIC_NAMES, count, direction, shortened, show
from uraenas.run.show import HEADLINE

LABELS = 134  # pixels for the names of the shifts
ROW = 20
FEW = 4  # shifts, of which a middle half says little


def section(facts: RunFacts) -> Section:
    found = Section(
        "shift",
        "Under shift",
        "What happens when images get worse than those it was trained on. Accuracy falls for everyone; a method that "
        "knows it is out of its depth keeps ECE and NLL low while it does. Severity 0 is the clean test set. Lines "
        "are means "
        "over kinds of shift; a band holds the middle half of these kinds, for the first method and the baseline, "
        f"where there are at least {FEW} kinds: curves without one spread as widely. "
        "Kinds differ far more than methods do, so read differences from the table above, which pairs them.",
    )
    if not facts.cells:
        found.blocks.append(
            Note(
                "This run was evaluated on clean images only (evaluate.suite = none), so there is no shift to show."
            )
        )
        return found
    kinds = {"As predicted": "raw", "Temperature-scaled": "temperature"}
    curves = {words: [_curve(facts, metric, kind) for metric in HEADLINE] for words, kind in kinds.items()}
    maps = {METRIC_NAMES[metric]: _heat_maps(facts, metric) for metric in HEADLINE}
    found.blocks += [
        method_key(facts.methods),
        Choice("Predictions", curves),
        Note(
            "Each shift at each severity, predictions as they are. The stronger the orange, the worse; "
            "the scale is the same for all methods."
        ),
        Choice("Metric", maps),
    ]
    return found


def at_severity(facts: RunFacts, method: str, metric: str, severity: int, kind: str = "raw") -> list[float]:
    """The values of single shifts at one severity; at 0, that of clean images."""
    shifts = facts.shifts if severity else ["none"]
    found = [facts.value(method, metric, shift, severity, kind) for shift in shifts]
    return [value for value in found if value is not None]


def _quartiles(values: list[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _curve(facts: RunFacts, metric: str, kind: str) -> Figure:
    severities = [0, *facts.severities]
    series = []
    for name in facts.methods:
        values = {s: own for s in severities if (own := at_severity(facts, name, metric, s, kind))}
        points = [(s, statistics.fmean(own)) for s, own in values.items()]
        band = [(s, *(_quartiles(own) if len(own) > 1 else (own[0], own[0]))) for s, own in values.items()]
        wide = len(facts.shifts) >= FEW and name in (facts.primary, facts.baseline)
        series.append(Series(name, points, band=band if wide else ()))
    percent = metric == "accuracy"
    banded = [one.name for one in series if one.band]
    ends = [end for one in series for _, *both in one.band for end in both]
    low, high = padded([*(y for one in series for _, y in one.points), *ends], percent)
    y = Axis("", max(low, 0.0), high, (lambda v: f"{100 * v:.4g}") if percent else None)
    x = Axis("severity", -0.2, severities[-1] + 0.2, lambda v: f"{v:.0f}", severities)
    shifts = count(len(facts.shifts), "shift")
    return line_chart(
        f"severity-{metric}-{kind}",
        f"{METRIC_NAMES[metric]}{' in %' if percent else ''} against severity",
        f"{direction(metric)} · mean of {shifts} · {facts.n} {facts.examples} each"
        + f" · {CALIBRATIONS[kind]}"
        + (f" · bands, middle half: {', '.join(banded)} alone" if banded else " · no bands"),
        series,
        Frame(x, y),
        lambda v: "clean" if v == 0 else f"severity {v:.0f}, mean of {shifts}",
        lambda v: show(metric, v),
    )


def _heat_maps(facts: RunFacts, metric: str) -> list[Figure]:
    every = {
        name: {cell: v for cell in facts.cells if (v := facts.value(name, metric, *cell)) is not None}
        for name in facts.methods
    }
    values = [value for of_method in every.values() for value in of_method.values()]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return [_heat_map(facts, metric, name, values, low, high) for name, values in every.items()]


def _heat_map(
    facts: RunFacts, metric: str, method: str, values: dict[tuple[str, int], float], low: float, high: float
) -> Figure:
    top, width = HEAD + 18, (WIDTH - LABELS) / len(facts.severities)
    places = enumerate(facts.severities)
    parts = [text(LABELS + width * (k + 0.5), top - 6, f"{s}", "tick", "middle") for k, s in places]
    parts.append(text(LABELS - 8, top - 6, "severity", "tick", "end"))
    for r, shift in enumerate(facts.shifts):
        y = top + ROW * r
        words = shift.replace("_", " ")
        parts.append(text(LABELS - 8, y + ROW / 2 + 4, shortened(words, 17), "tick", "end"))
        for k, severity in enumerate(facts.severities):
            if (value := values.get((shift, severity))) is None:
                continue
            share = share_of(value, low, high)
            tip = f"{words}, severity {severity}\n{method}\t{show(metric, value)}"
            label = f"{100 * value:.1f}" if metric == "accuracy" else f"{value:.3f}"[: 5 if width > 34 else 4]
            worse = 1 - share if metric == "accuracy" else share
            parts.append(signed_cell(LABELS + width * k, y, width, ROW, -worse, label, tip))
    unit = " in %" if metric == "accuracy" else ""
    return draw(
        f"heat-{metric}-{method}",
        f"{method}: {METRIC_NAMES[metric]}{unit}",
        f"{direction(metric)} · {facts.n} {facts.examples} per cell",
        top + ROW * len(facts.shifts) + 6,
        join(parts),
        [("the stronger, the worse", "", rect(-9, -6, 18, 12, "heat worse"))],
        summary=f"Between {show(metric, low)} and {show(metric, high)} over all methods.",
    )
