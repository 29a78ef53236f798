"""Several runs side by side: one table, one set of figures, and what their settings differ in."""

from collections.abc import Sequence

from markupsafe import Markup

from uraenas.base.svg import MARKS, Scale, element, join, line, mark, padded, rect, round_ticks, text
from uraenas.evaluation import Row
from uraenas.report.blocks import Cell, Figure, Grid, Key, Line, Note, Section, Table
from uraenas.report.chart import HEAD, WIDTH, draw
from uraenas.report.reading import RunFacts, alike, differing
from uraenas.report.sections.provenance import shown
from uraenas.report.sections.size import Curve, curves
from uraenas.report.seeds import why_no_mean
from uraenas.report.style import METRIC_NAMES, colour, count, direction, show
from uraenas.report.table import COLUMNS, Column, best, over_runs, table

LABELS = 120
ROW = 15
GAP = 8  # between methods


def comparison(runs: Sequence[RunFacts]) -> Section:
    """What the runs have in common and what not; their own sections follow."""
    found = Section(
        "compared",
        "Runs side by side",
        "Their methods, as predicted. Each run's own sections follow below.",
    )
    if not alike(runs):
        found.blocks.append(
            Note(
                "These runs were not tested on the same images: compare across runs with care; no best is marked."
            )
        )
    found.blocks.append(_table(runs))
    settings = _settings(runs)
    if not why_no_mean(runs):
        found.blocks.append(_across(runs))
    found.blocks.append(
        Key([(f"{_name(runs, k)}", f"s{k % 8}", mark(MARKS[k % 7], 0, 0)) for k in range(len(runs))], False)
    )
    found.blocks.append(Grid([figure for column in COLUMNS if (figure := _dots(runs, column))]))
    if alike(runs):
        found.blocks += curves(_curves(runs), "runs-size")
    if settings.lines:
        found.blocks.append(settings)
    else:
        found.blocks.append(Note("The runs have the same settings."))
    return found


def _name(runs: Sequence[RunFacts], position: int) -> str:
    """The run's name, with its place where two runs share a name."""
    name = runs[position].name
    return name if [facts.name for facts in runs].count(name) == 1 else f"{name} ({position + 1})"


def _curves(runs: Sequence[RunFacts]) -> list[Curve]:
    """All methods of all runs; where two share a name, each line has its run's name and a look of its own."""
    found = [(k, facts, name) for k, facts in enumerate(runs) for name in facts.methods]
    if len({name for _, _, name in found}) == len(found):
        return [Curve(facts, name, name) for _, facts, name in found]
    return [
        Curve(facts, name, f"{_name(runs, k)}: {name}", slot) for slot, (k, facts, name) in enumerate(found)
    ]


def _table(runs: Sequence[RunFacts]) -> Table:
    every = [(k, one) for k, facts in enumerate(runs) for one in table(facts.rows)]
    tops = best([one for _, one in every])
    competing = alike(runs)
    lines = []
    for k, one in every:
        cells = [Cell(_name(runs, k)), Cell(str(one.members))]
        for column, value, top in zip(COLUMNS, one.values, tops, strict=True):
            cells.append(
                Cell(
                    column.show(value),
                    mark="best" if competing and value is not None and value == top else "",
                )
            )
        lines.append(Line(one.method, cells, colour(one.method)))
    lines.sort(key=lambda one: _place(runs, one.name))
    header = ["Method", "Run", "Members", *(column.title for column in COLUMNS)]
    tests = ", ".join(f"{_name(runs, k)}: {facts.n}" for k, facts in enumerate(runs))
    return Table(f"Methods of all runs, as predicted. Test images: {tests}.", header, lines)


def _place(runs: Sequence[RunFacts], method: str) -> int:
    return list(dict.fromkeys(name for facts in runs for name in facts.sizes)).index(method)


def _settings(runs: Sequence[RunFacts]) -> Table:
    lines = [
        Line(key, [Cell("–" if value is None else shown(value)) for value in values])
        for key, values in differing(runs).items()
    ]
    names = [_name(runs, k) for k in range(len(runs))]
    return Table("Settings that differ.", ["Setting", *names], lines)


def _across(runs: Sequence[RunFacts]) -> Table:
    """Mean and standard deviation over runs that differ in nothing but their seed."""
    lines = []
    for one in over_runs([one for facts in runs for one in table(facts.rows)]):
        cells = [Cell(str(one.runs))]
        for column, value, spread in zip(COLUMNS, one.values, one.spreads, strict=True):
            cells.append(Cell(column.show(value), "" if spread is None else f"± {column.show(spread)}"))
        lines.append(Line(one.method, cells, colour(one.method)))
    caption = "Mean ± standard deviation (n - 1) over runs that differ in their seed alone."
    return Table(caption, ["Method", "Runs", *(column.title for column in COLUMNS)], lines)


def _dots(runs: Sequence[RunFacts], column: Column) -> Figure | None:
    methods = list(dict.fromkeys(name for facts in runs for name in facts.methods))
    rows: dict[tuple[str, int], Row] = {}
    for k, facts in enumerate(runs):
        shift = facts.shifted if column.shifted else "none"
        for name in facts.methods:
            if shift and (row := facts.row(name, column.metric, shift)) is not None:
                rows[name, k] = row
    if not rows:
        return None
    low, high = padded([end for row in rows.values() for end in (row.value, *(row.interval or ()))])
    scale = Scale(low, high, LABELS, WIDTH - 16)
    bottom = HEAD + ROW * len(rows) + GAP * len({name for name, _ in rows})
    factor = 100 if column.metric == "accuracy" else 1
    parts = []
    for tick in round_ticks(low * factor, high * factor, 4):
        x = scale(tick / factor)
        parts += [line(x, HEAD, x, bottom, "rule"), text(x, bottom + 16, f"{tick:g}", "tick", "middle")]
    top: float = HEAD
    for name in methods:
        of_method = [(k, rows[name, k]) for k in range(len(runs)) if (name, k) in rows]
        if of_method:
            height = ROW * len(of_method) + GAP
            parts.append(text(LABELS - 8, top + height / 2 + 4, name, "tick", "end"))
            for place, (k, row) in enumerate(of_method):
                y = top + GAP / 2 + ROW * (place + 0.5)
                parts.append(_dot(row, k, _name(runs, k), scale, y))
            top += height
    words = "shifted" if column.shifted else "clean"
    percent = " in %" if column.metric == "accuracy" else ""
    intervals = "95 % intervals · " if any(row.interval for row in rows.values()) else ""
    n = f"{direction(column.metric)} · {intervals}n = {count(len(runs), 'run')}"
    title = f"{METRIC_NAMES[column.metric]}{percent}, {words}"
    return draw(f"runs-{column.title}", title, n, bottom + 24, join(parts))


def _dot(row: Row, k: int, name: str, scale: Scale, y: float) -> Markup:
    value = show(row.metric, row.value)
    tip = f"{row.method}\n{{s{k % 8}}}{name}\t{value}"
    parts = [rect(LABELS, y - ROW / 2, WIDTH - LABELS, ROW, "hit")]
    if row.interval:
        low, high = row.interval
        parts.append(line(scale(low), y, scale(high), y, "interval"))
        tip += f"\ninterval\t{show(row.metric, low)} – {show(row.metric, high)}"
    parts.append(mark(MARKS[k % 7], scale(row.value), y))
    return element("g", *parts, class_=f"s{k % 8} spot", data_tip=tip)
