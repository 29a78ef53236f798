"""Predicted numbers: against those observed, and how often intervals hold them."""

import math

import torch
from torch import Tensor

from uraenas.base.svg import Scale, element, join, line, mark, padded
from uraenas.base.words import as_precise
from uraenas.evaluation import CALIBRATIONS, numbers
from uraenas.report.blocks import Cell, Choice, Figure, Grid, Line, Note, Section, Table
from uraenas.report.chart import Axis, Frame, Series, draw, line_chart, method_key
from uraenas.report.reading import RunFacts
from uraenas.report.sections.reliability import missing
from uraenas.report.style import colour

DRAWN = 150  # rows at most: more would hide each other
COVERAGE = 0.9
UNBOUNDED = "unbounded"
KINDS = {"As predicted": "raw", "Temperature-scaled": "temperature"}


def observed(facts: RunFacts) -> Section:
    found = Section(
        "observed",
        "Predicted and observed",
        f"A point is a {facts.part} row, the line through it its {100 * COVERAGE:.0f}\u00a0% interval, "
        "temperature-scaled. Of rows whose line misses the diagonal there should be one in ten.",
    )
    if not facts.predictions:
        found.blocks.append(missing("predictions"))
        return found
    drawn = [_scatter(one, name, k) for k, one in enumerate(facts.by_target) for name in one.predictions]
    found.blocks.append(Grid(drawn))
    return found


def intervals(facts: RunFacts) -> Section:
    found = Section(
        "intervals",
        "Reliability of intervals",
        "How often central intervals hold the observed value, against how often they should: the diagonal. Below it "
        "intervals are too narrow. The table has the conformal intervals, from rows that members did not learn from.",
    )
    if not facts.predictions:
        found.blocks.append(missing("interval diagrams"))
        return found
    found.blocks.append(method_key(list(facts.predictions)))
    every = facts.by_target
    diagrams = {
        words: [_diagram(one, kind, k) for k, one in enumerate(every)] for words, kind in KINDS.items()
    }
    found.blocks.append(Choice("Predictions", diagrams))
    if facts.part != "test":
        found.blocks.append(
            Note("Conformal intervals are left out: they rest on the very rows measured here.")
        )
        return found
    found.blocks += map(_conformal, every)
    if len(every) > 1:
        found.blocks.append(Note("Coverage is of each target by itself; that all are held at once is rarer."))
    return found


def _scatter(facts: RunFacts, method: str, place: int) -> Figure:
    mixture, labels = facts.prediction(method, "temperature"), facts.labels
    shown = torch.linspace(0, len(labels) - 1, min(DRAWN, len(labels))).round().long()
    ends, centre = numbers.interval(mixture[:, shown], COVERAGE), numbers.moments(mixture[:, shown])[0]
    low, high = padded([*labels.tolist(), *ends.flatten().tolist()])
    frame = Frame(Axis("observed", low, high), Axis("", low, high), height=230)
    parts = [frame.axes(), line(*_corners(frame.across, frame.up, low, high), "ideal")]
    for n, (bottom, top), middle in zip(shown.tolist(), ends.tolist(), centre.tolist(), strict=True):
        x = frame.across(float(labels[n]))
        values = (float(labels[n]), middle, bottom, top)
        observed, predicted, *around = (as_precise(value, (top - bottom) / 2) for value in values)
        tip = f"observed\t{observed}\npredicted\t{predicted}\ninterval\t{' – '.join(around)}"
        whole = line(x, frame.up(bottom), x, frame.up(top), "interval") + mark(
            "circle", x, frame.up(middle), 2
        )
        parts.append(element("g", whole, class_="spot", data_tip=tip))
    rmse = facts.value(method, "rmse")
    n_words = f"RMSE {rmse:.4g} · {len(shown)} of {facts.n} rows" if rmse is not None else facts.n
    content = element("g", join(parts), class_=colour(method))
    title = f"{method}: predicted against observed"
    title = f"{facts.target}, {title}" if facts.target else title
    return draw(f"observed-{method}{_mark(place)}", title, n_words, frame.figure_height, content)


def _corners(across: Scale, up: Scale, low: float, high: float) -> tuple[float, float, float, float]:
    return across(low), up(low), across(high), up(high)


def _mark(place: int) -> str:
    """What tells figures of several targets apart."""
    return f"-{place + 1}" if place else ""


def _diagram(facts: RunFacts, kind: str, place: int) -> Figure:
    levels = [k / 20 for k in range(1, 20)]
    series = []
    for name in facts.predictions:
        transform = numbers.distribution(facts.prediction(name, kind), facts.labels)
        series.append(Series(name, [(c, _inside(transform, c)) for c in levels]))
    ticks = (0, 0.25, 0.5, 0.75, 1)
    frame = Frame(Axis("nominal coverage", 0, 1, ticks=ticks), Axis("", 0, 1, ticks=ticks), height=230)
    title = f"{facts.target}: " * bool(facts.target) + "Observed coverage against nominal"
    n = f"central intervals · {CALIBRATIONS[kind]} · {facts.n}"
    words = (lambda v: f"nominal {100 * v:.0f} %"), (lambda v: f"{100 * v:.1f} %")
    ideal = line(*_corners(frame.across, frame.up, 0, 1), "ideal")
    name = f"coverage-{kind}{_mark(place)}"
    return line_chart(name, title, n, series, frame, *words, marks=False, beneath=ideal)


def _inside(transform: Tensor, coverage: float) -> float:
    return float(((transform - 0.5).abs() <= coverage / 2).double().mean())


def _conformal(facts: RunFacts) -> Table:
    lines = []
    for name, residuals in facts.residuals.items():
        if name not in facts.predictions:
            continue
        said, cells = facts.prediction(name, "raw"), []
        for share in (0.8, 0.9, 0.95):
            ends = residuals.interval(said, share)
            held = ((facts.labels >= ends[:, 0]) & (facts.labels <= ends[:, 1])).double().mean()
            width = float((ends[:, 1] - ends[:, 0]).mean())
            words = f"width {width:.4g}" if math.isfinite(width) else UNBOUNDED
            cells.append(Cell(f"{100 * float(held):.1f}\u00a0%", words))
        lines.append(Line(name, [Cell(str(residuals.images_apart)), *cells], colour(name)))
    header = ["Method", "Held-out rows", "80\u00a0%", "90\u00a0%", "95\u00a0%"]
    of = f" of {facts.target}" if facts.target else ""
    caption = f"Conformal intervals{of}: share that hold the observed value, {facts.tested}."
    if any(cell.small == UNBOUNDED for line in lines for cell in line.cells):
        caption += f" {UNBOUNDED.capitalize()}: held-out rows are too few for this share, so intervals hold all values."
    return Table(caption, header, lines)
