"""Reliability diagrams with counts, and the risk–coverage curve."""

import math

import torch
from markupsafe import Markup
from torch import Tensor

from uraenas.base.svg import element, join, line, log_ticks, rect, text
from uraenas.evaluation import CALIBRATIONS, metrics
from uraenas.report.blocks import Cell, Choice, Figure, Grid, Line, Note, Section, Table
from uraenas.report.chart import HEAD, Axis, Frame, Series, draw, line_chart, method_key
from uraenas.report.reading import RunFacts
from uraenas.report.style import colour, show

COUNTS_HEIGHT = 34
COVERAGES = 80  # points of a risk–coverage curve
RISKS = (0.01, 0.02, 0.05)
FOOT = 0.4  # of an error, where 0 is drawn
WILSON = 1.96  # a normal deviate, for 95 %


def section(facts: RunFacts) -> Section:
    found = Section(
        "calibration",
        "Calibration",
        f"Can a confidence be taken at its word? Of the {facts.examples} predicted with 80\u00a0% confidence, "
        "80\u00a0% should be right: bars on the diagonal. Bars below it: overconfident. "
        f"The small bars count the {facts.examples} behind each bin; thin lines are 95\u00a0% intervals of a bin's "
        f"accuracy (Wilson), long where {facts.examples} are few. ECE, the mean gap, leans upwards: chance alone "
        "opens gaps, and the table below says how large an ECE a perfectly calibrated method with these "
        "confidences would have.",
    )
    if not facts.predictions:
        found.blocks.append(missing("reliability diagrams and the risk–coverage curve"))
        return found
    kinds = {"As predicted": "raw", "Temperature-scaled": "temperature"}
    diagrams = {w: [_diagram(facts, name, kind) for name in facts.predictions] for w, kind in kinds.items()}
    found.blocks += [
        Choice("Predictions", diagrams),
        Note(
            f"Risk and coverage: if it answers only its most confident share of the {facts.examples} (coverage), "
            "how often is it wrong on those (risk)? The further right a curve stays low, the more can be answered "
            "safely; at 0, the foot of the figure, there is no error yet. AURC is the mean risk over all coverages."
        ),
        method_key(list(facts.predictions)),
        Grid([_risk(facts)]),
        _areas(facts),
    ]
    return found


def missing(what: str) -> Note:
    """Why a part that needs predictions is not there."""
    return Note(
        "The predictions on the clean test set are not in the run directory, or the test set is not at hand, so the "
        f"{what} are left out."
    )


def _diagram(facts: RunFacts, method: str, kind: str) -> Figure:
    bins, confidence, right = metrics.confidence_bins(facts.prediction(method, kind), facts.labels)
    counts = torch.bincount(bins, minlength=metrics.BINS).tolist()
    sums = [torch.bincount(bins, weights=w, minlength=metrics.BINS).tolist() for w in (confidence, right)]
    frame = Frame(
        Axis("confidence", 0, 1, ticks=(0, 0.25, 0.5, 0.75, 1)),
        Axis("", 0, 1, ticks=(0, 0.25, 0.5, 0.75, 1)),
        top=HEAD + COUNTS_HEIGHT + 18,
        height=190,
    )
    parts = [frame.axes(), text(frame.left, HEAD + 8, f"{facts.examples} per bin", "tick")]
    parts.append(line(frame.left, frame.bottom, frame.right, frame.top, "ideal"))
    most = max(counts)
    for b, number in enumerate(counts):
        if number:
            means = sums[0][b] / number, sums[1][b] / number
            parts.append(_bin(frame, facts.examples, b, number, number / most, *means))
    ece = facts.value(method, "ece", calibration=kind)
    shown = "" if ece is None else f"ECE {show('ece', ece)} · "
    return draw(
        f"reliability-{method}-{kind}",
        f"{method}: reliability",
        f"{shown}accuracy against confidence · {CALIBRATIONS[kind]} · {facts.n}",
        frame.figure_height,
        element("g", join(parts), class_=colour(method)),
        [
            ("accuracy", colour(method), rect(-6, -6, 12, 12, "bar")),
            ("its gap to confidence", colour(method), rect(-6, -6, 12, 12, "gap")),
            ("95 % interval", "", line(0, -7, 0, 7, "whisker")),
            ("as confidence", "", line(-9, 0, 9, 0, "ideal")),
        ],
        summary=f"{metrics.BINS} bins of confidence.",
    )


def _interval(right: float, number: int) -> tuple[float, float]:
    """Wilson's interval of a share that so many images show."""
    z = WILSON
    centre = (right + z * z / (2 * number)) / (1 + z * z / number)
    half = z / (1 + z * z / number) * math.sqrt(right * (1 - right) / number + z * z / (4 * number**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def by_chance(log_p: Tensor, labels: Tensor) -> float:
    """About the ECE of a perfectly calibrated method with these confidences c.

    By chance a bin's gap is normal with variance Σ c (1 − c) / N², so E|gap| = √(2/π · Σ c (1 − c)) / N.
    """
    bins, confidence, _ = metrics.confidence_bins(log_p, labels)
    variance = torch.bincount(bins, weights=confidence * (1 - confidence), minlength=metrics.BINS)
    return float((2 / math.pi * variance).sqrt().sum() / len(labels))


def coverage_at(risk_N: Tensor) -> list[float]:
    """At each of RISKS, the largest share of the images that can be answered with no more errors."""
    within = [(risk_N <= most).nonzero() for most in RISKS]
    return [(int(found[-1]) + 1) / len(risk_N) if len(found) else 0.0 for found in within]


def _bin(
    frame: Frame, examples: str, b: int, number: int, share: float, confidence: float, accuracy: float
) -> Markup:
    left, right = frame.across(b / metrics.BINS) + 1, frame.across((b + 1) / metrics.BINS) - 1
    base, height = HEAD + 12 + COUNTS_HEIGHT, max(1.0, share * (COUNTS_HEIGHT - 6))
    top, ideal = frame.up(accuracy), frame.up(confidence)
    tip = (
        f"confidence {b / metrics.BINS:.2f} – {(b + 1) / metrics.BINS:.2f}\n{examples}\t{number:,}\n"
        f"mean confidence\t{confidence:.3f}\naccuracy\t{accuracy:.3f}\ngap\t{accuracy - confidence:+.3f}"
    )
    width = right - left
    low, high = _interval(accuracy, number)
    tip += f"\ninterval\t{low:.3f} – {high:.3f}"
    middle = (left + right) / 2
    parts = [
        rect(left, base - height, width, height, "count"),
        rect(left, top, width, frame.bottom - top, "bar"),
        rect(left, min(top, ideal), width, abs(top - ideal), "gap"),
        line(left, top, right, top, "line"),
        line(middle, frame.up(low), middle, frame.up(high), "whisker"),
        rect(left - 1, HEAD, width + 2, frame.bottom - HEAD, "hit"),
    ]
    return element("g", *parts, class_="spot", data_tip=tip)


def _curve(risk_N: Tensor) -> list[tuple[float, float]]:
    images = len(risk_N)
    kept = torch.linspace(1, images, min(COVERAGES, images)).round().long().unique()
    return [(k / images, one) for k, one in zip(kept.tolist(), risk_N[kept - 1].tolist(), strict=True)]


def _risk(facts: RunFacts) -> Figure:
    series = [Series(name, _curve(risk_N)) for name, risk_N in facts.risks.items()]
    high = max(y for one in series for _, y in one.points)
    images = len(facts.labels)
    foot = FOOT / images  # a logarithm has no 0, which is drawn here, apart from the least risk above it
    top = max(1.3 * high, 4 * foot)
    ticks = [foot, *log_ticks(1 / images, top)]
    frame = Frame(
        Axis(f"coverage: share of the {facts.examples} in %", 0, 1, lambda v: f"{100 * v:.0f}"),
        Axis("", foot, top, lambda v: "0" if v == foot else f"{100 * v:.3g}", ticks, log=True),
        height=220,
    )
    return line_chart(
        "risk-coverage",
        "Risk against coverage",
        f"error among the answered, in %, log scale above 0 · as predicted · {facts.n}",
        series,
        frame,
        lambda v: f"coverage {100 * v:.1f} %, {round(v * images):,} of {images:,} {facts.examples}",
        lambda v: f"{100 * v:.2f} %" if v else "0, no error",
        marks=False,
    )


def _areas(facts: RunFacts) -> Table:
    lines = []
    for name in facts.predictions:
        found = [facts.value(name, metric) for metric in ("aurc", "adaptive_ece", "brier")]
        cells = [Cell("–" if v is None else f"{v:.4f}") for v in found]
        cells.append(Cell(f"{by_chance(facts.prediction(name), facts.labels):.4f}"))
        cells += [Cell(f"{100 * share:.1f} %") for share in coverage_at(facts.risks[name])]
        lines.append(Line(name, cells, colour(name)))
    caption = (
        f"Lower is better in the first three. As predicted, {facts.tested}. Answered: the largest "
        f"share of the {facts.part} {facts.examples} with no more errors than that; the section Guarantees has what "
        "can be relied on beforehand."
    )
    header = ["Method", "AURC", "Adaptive ECE", "Brier score", "ECE by chance"]
    return Table(caption, [*header, *(f"Answered at {100 * risk:g} % risk" for risk in RISKS)], lines)
