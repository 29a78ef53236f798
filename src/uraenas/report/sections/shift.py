"""Metrics against severity, and the heat map corruption × severity."""

from uraenas.base.svg import join, padded, text
from uraenas.report.blocks import Choice, Figure, Note, Section
from uraenas.report.chart import (
    HEAD,
    WIDTH,
    Axis,
    Frame,
    Series,
    draw,
    heat_cell,
    line_chart,
    method_key,
    share_of,
)
from uraenas.report.reading import RunFacts
from uraenas.report.style import HEADLINE, METRIC_NAMES, count, direction, shortened, show

LABELS = 118  # pixels for the names of the shifts
ROW = 20


def section(facts: RunFacts) -> Section:
    found = Section(
        "shift",
        "Under shift",
        "What happens when images get worse than those it was trained on. Accuracy falls for everyone; a method that "
        "knows it is out of its depth keeps ECE and NLL low while it does. Severity 0 is the clean test set.",
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
            "Each shift at each severity, predictions as they are. The stronger the colour, the worse; "
            "the scale is the same for all methods."
        ),
        Choice("Metric", maps),
    ]
    return found


def _at_severity(facts: RunFacts, method: str, metric: str, severity: int, kind: str) -> float | None:
    """The mean over shifts at one severity, from the rows of the single shifts."""
    if severity == 0:
        return facts.value(method, metric, calibration=kind)
    found = [
        facts.value(method, metric, shift, severity=severity, calibration=kind) for shift in facts.shifts
    ]
    present = [value for value in found if value is not None]
    return sum(present) / len(present) if present else None


def _curve(facts: RunFacts, metric: str, kind: str) -> Figure:
    severities = [0, *facts.severities]
    series = []
    for name in facts.methods:
        values = [(s, _at_severity(facts, name, metric, s, kind)) for s in severities]
        series.append(Series(name, [(s, value) for s, value in values if value is not None]))
    percent = metric == "accuracy"
    low, high = padded([y for one in series for _, y in one.points])
    y = Axis("", max(low, 0.0), high, (lambda v: f"{100 * v:.4g}") if percent else None)
    x = Axis("severity", -0.2, severities[-1] + 0.2, lambda v: f"{v:.0f}", severities)
    shifts = count(len(facts.shifts), "shift")
    return line_chart(
        f"severity-{metric}-{kind}",
        f"{METRIC_NAMES[metric]}{' in %' if percent else ''} against severity",
        f"{direction(metric)} · mean of {shifts} · {facts.n} images each",
        series,
        Frame(x, y),
        lambda v: "clean" if v == 0 else f"severity {v:.0f}, mean of {shifts}",
        lambda v: show(metric, v),
    )


def _heat_maps(facts: RunFacts, metric: str) -> list[Figure]:
    found = [facts.value(name, metric, s, severity=k) for name in facts.methods for s, k in facts.cells]
    values = [value for value in found if value is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return [_heat_map(facts, metric, name, low, high) for name in facts.methods]


def _heat_map(facts: RunFacts, metric: str, method: str, low: float, high: float) -> Figure:
    top, width = HEAD + 18, (WIDTH - LABELS) / len(facts.severities)
    places = enumerate(facts.severities)
    parts = [text(LABELS + width * (k + 0.5), top - 6, f"{s}", "tick", "middle") for k, s in places]
    parts.append(text(LABELS - 8, top - 6, "severity", "tick", "end"))
    for r, shift in enumerate(facts.shifts):
        y = top + ROW * r
        words = shift.replace("_", " ")
        parts.append(text(LABELS - 8, y + ROW / 2 + 4, shortened(words, 19), "tick", "end"))
        for k, severity in enumerate(facts.severities):
            value = facts.value(method, metric, shift, severity=severity)
            if value is None:
                continue
            share = share_of(value, low, high)
            tip = f"{words}, severity {severity}\n{method}\t{show(metric, value)}"
            label = f"{100 * value:.1f}" if metric == "accuracy" else f"{value:.3f}"[: 5 if width > 34 else 4]
            worse = 1 - share if metric == "accuracy" else share
            parts.append(heat_cell(LABELS + width * k, y, width, ROW, worse, label, tip))
    unit = " in %" if metric == "accuracy" else ""
    return draw(
        f"heat-{metric}-{method}",
        f"{method}: {METRIC_NAMES[metric]}{unit}",
        f"{direction(metric)} · {facts.n} images per cell",
        top + ROW * len(facts.shifts) + 6,
        join(parts),
        summary=f"Between {show(metric, low)} and {show(metric, high)} over all methods.",
    )
