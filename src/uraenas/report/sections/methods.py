"""The table of methods, and the differences to the baseline."""

from operator import attrgetter

from markupsafe import Markup

from uraenas.base.svg import Scale, element, join, line, mark, rect, round_ticks, text
from uraenas.base.words import three_decimals
from uraenas.evaluation import CALIBRATIONS, Diverged, Row, unbeaten
from uraenas.report.blocks import Cell, Choice, Figure, Grid, Key, Line, Note, Section, Table
from uraenas.report.chart import HEAD, WIDTH, beside, draw
from uraenas.report.reading import RunFacts
from uraenas.report.style import LARGER_IS_BETTER, METRIC_NAMES, colour, count, listed, marker, of_one_seed
from uraenas.report.table import DISAGREEMENT, TableLine, best, columns_of, table

LEADS = {
    "classes": "Accuracy in percent, higher is better; ECE: the gap between confidence and accuracy, and NLL: how "
    "surprised the prediction is by the truth, lower is better.",
    "numbers": "RMSE and MAE: how far the mean is off, in the unit of the target; CRPS: how far the whole prediction "
    "is; NLL: how surprised it is by the truth; lower is better. Of central 90\u00a0% intervals the share that holds "
    "the truth, in percent, and their width.",
}
COLUMN = attrgetter("metric", "shift", "calibration")
FEW = 5  # errors: resamples of fewer often have none
LEAST = 20  # images: of 5, every sixth difference by chance is called clear
BOLD = (
    "Bold: the best of a column, and all that are not clearly worse (95\u00a0% interval of the paired difference, each "
    "by itself: of many equal methods some miss it by chance); 95\u00a0% intervals, where there are any, stand beneath."
)


def lead_of(facts: RunFacts, means: str) -> str:
    """What the metrics of its target mean, and of several targets what has `means` over them."""
    lead = LEADS["classes" if facts.classes else "numbers"]
    if targets := facts.data.targets:
        lead += f" {means} means over {len(targets)} targets, each in units of its standard deviation in training."
    return lead


def section(facts: RunFacts) -> Section:
    lead = f"{lead_of(facts, 'The first table, the figures and the tiles above have')} {BOLD}"
    if facts.classes:
        lead += (
            " ECE leans upwards, most where a method is least sure, and its intervals and differences with it: see ECE "
            "by chance under Calibration. Dis: how often two members name different classes."
        )
    if facts.shifted:
        lead += (
            f" Columns with c are means over {count(len(facts.shifts), 'kind')} of shifted images at "
            f"{count(len(facts.severities), 'severity')}."
        )
    found = Section("methods", "Methods", lead)
    tables = {words.capitalize(): _tables(facts, kind) for kind, words in CALIBRATIONS.items()}
    found.blocks.append(Choice("Predictions", {words: shown for words, shown in tables.items() if shown}))
    found.blocks += [Note(f"{line}.") for line in unbeaten(facts.main_rows, facts.primary)]
    found.blocks += map(Note, [*few_tested(facts), *_few_errors(facts)])
    if facts.metrics.diverged:
        found.blocks.append(Note(_divergence(facts.metrics.diverged)))
    if facts.baseline is None:
        found.blocks.append(Note(_why_no_differences(facts)))
        return found
    found.blocks.append(Key([(n, colour(n), mark(marker(n), 0, 0)) for n in facts.methods]))
    found.blocks.append(Grid(_forests(facts)))
    return found


def few_tested(facts: RunFacts) -> list[str]:
    """That images are too few to be resampled, where they are."""
    if facts.measured >= LEAST or not facts.settings["evaluate.bootstrap"]:
        return []
    return [
        f"{facts.measured} {facts.examples} are too few for intervals: they are too short, and signs of better "
        "and worse come by chance far more often than in one case of twenty."
    ]


def _few_errors(facts: RunFacts) -> list[str]:
    """Which methods' errors, or right answers, are too few to be resampled."""
    rows = [row for name in facts.sizes if (row := facts.row(name, "accuracy")) and row.interval]
    sides = {"error": [1 - row.value for row in rows], "right answer": [row.value for row in rows]}
    notes = []
    for what, shares in sides.items():
        few = [row.method for row, one in zip(rows, shares, strict=True) if round(one * facts.measured) < FEW]
        if few:
            notes.append(
                f"{listed(few)}: fewer than {FEW} {what}s, so the interval of the accuracy is too short; without any "
                "it has no width."
            )
    return notes


def _divergence(diverged: list[Diverged]) -> str:
    """Which chains did not run as planned: their members were drawn with smaller steps, or are missing."""
    sentences = []
    for one in diverged:
        restarts = f"{one.chain} was restarted with a smaller step ({count(one.restarts, 'time')})"
        sentences.append(restarts + (f" and given up: {one.given_up}." if one.given_up else "."))
    return f"{count(len(diverged), 'chain')} diverged. " + " ".join(sentences)


def _why_no_differences(facts: RunFacts) -> str:
    wanted = facts.config.evaluate.baseline
    if facts.against:
        return f"No differences to {facts.against}: it is the only method shown."
    if facts.settings["evaluate.bootstrap"] == 0:
        return "No intervals and differences: the bootstrap was switched off (evaluate.bootstrap = 0)."
    if facts.methods == [wanted]:
        return f"No differences: {wanted} is the baseline and the only method shown."
    return (
        f"No differences: the baseline {wanted} is not among the methods of this run. "
        "uraenas report RUN --against METHOD shows those to another."
    )


def _tables(facts: RunFacts, kind: str) -> list[Table]:
    values = _values(facts, kind, f"Methods, {CALIBRATIONS[kind]}. {facts.tested}.")
    if values is None:
        return []
    several = [_of_target(one, kind) for one in facts.by_target if one.target]
    found = [values, *(one for one in several if one is not None)]
    return found if facts.baseline is None else [*found, _differences(facts, kind)]


def _of_target(facts: RunFacts, kind: str) -> Table | None:
    return _values(
        facts,
        kind,
        f"{facts.target}, in its own unit, {CALIBRATIONS[kind]}. {facts.tested}.",
    )


def _values(facts: RunFacts, kind: str, caption: str) -> Table | None:
    lines = table(facts.main_rows, kind)
    if not any(value is not None for line in lines for value in line.values):
        return None
    tops = best(lines)
    columns = columns_of(lines)
    kept = [k for k in range(len(columns)) if any(line.values[k] is not None for line in lines)]
    leaders = [_leaders(facts, kind, k, tops[k], lines) for k in range(len(columns))]
    last = [DISAGREEMENT] if any(line.disagreement is not None for line in lines) else []
    rows = []
    for one in lines:
        cells = [Cell(str(one.members))]
        for k in kept:
            value, marked = one.values[k], "best" if one.method in leaders[k] else ""
            interval = one.intervals[k] if one.intervals else None
            small = " – ".join(columns[k].show(end) for end in interval) if interval else ""
            cells.append(Cell(columns[k].show(value), small, marked))
        cells += [Cell(column.show(one.disagreement)) for column in last]
        rows.append(Line(one.method, cells, colour(one.method)))
    header = ["Method", "Members", *(columns[k].title for k in kept), *(column.title for column in last)]
    return Table(caption, header, rows)


def _leaders(facts: RunFacts, kind: str, place: int, top: float | None, lines: list[TableLine]) -> set[str]:
    """Who has the best value of a column, as printed, and who is not clearly worse."""
    column = lines[0].columns[place]
    best = {
        line.method
        for line in lines
        if top is not None and column.show(line.values[place]) == column.show(top)
    }
    where = (column.metric, (facts.shifted or "") if column.shifted else "none", kind)
    rows = [row for row in facts.metrics.differences if COLUMN(row) == where and row.baseline in best]
    worse = {row.method for row in rows if verdict(row) == "worse"}
    judged = {row.method for row in rows} & {line.method for line in lines}
    return best | (judged - worse)


def ends(row: Row) -> tuple[float, float]:
    """Of a difference's interval, which it always has."""
    assert row.interval is not None
    return row.interval


def verdict(row: Row) -> str:
    """better or worse where the interval leaves out zero."""
    low, high = ends(row)
    if low <= 0 <= high:
        return ""
    return "better" if (low > 0) == (row.metric in LARGER_IS_BETTER) else "worse"


def _differences(facts: RunFacts, kind: str) -> Table:
    columns = [c for c in facts.columns if (facts.shifted or not c.shifted) and c.compared]
    lines = []
    for name in facts.sizes:
        places = [(c.metric, (facts.shifted or "") if c.shifted else "none") for c in columns]
        found = [facts.difference(name, *place, kind) for place in places]
        if any(found):  # the baseline itself has none
            lines.append(Line(name, [_difference(row) for row in found], colour(name)))
    caption = (
        f"Differences to {facts.baseline}, {CALIBRATIONS[kind]}: paired bootstrap over the same {facts.examples}, "
        f"{facts.n}, 95\u00a0% intervals. △ better, ▽ worse on these {facts.examples}, one seed: the interval leaves "
        f"out zero. It is over {facts.examples}, not over seeds: another seed may move a method by more."
    )
    if ":" in (facts.baseline or ""):
        caption += " The baseline is of another run, and what was set differently may be all of a difference."
    return Table(caption, ["Method", *(column.title for column in columns)], lines)


def _difference(row: Row | None) -> Cell:
    if row is None:
        return Cell("–")
    return Cell(shown(row.metric, row.value), _range(row), of_one_seed(verdict(row)))


def shown(metric: str, value: float) -> str:
    """A difference with its sign; of accuracy in percentage points."""
    return (f"{100 * value:+.2f}" if metric == "accuracy" else three_decimals(metric, value, "+")).replace(
        "-", "−"
    )


def _forests(facts: RunFacts) -> list[Figure]:
    return [
        _forest(facts, metric, words, found)
        for words, shift in facts.places.items()
        for metric in facts.headline
        if (found := [row for name in facts.methods if (row := facts.difference(name, metric, shift))])
    ]


def _forest(facts: RunFacts, metric: str, words: str, rows: list[Row]) -> Figure:
    low = min(0.0, *(ends(row)[0] for row in rows))
    high = max(0.0, *(ends(row)[1] for row in rows))
    air = (high - low) * 0.06 or 0.01
    scale = Scale(low - air, high + air, beside(row.method for row in rows), WIDTH - 16)
    bottom = HEAD + 24 * len(rows) + 4
    factor = 100 if metric == "accuracy" else 1
    parts = []
    ticks = round_ticks(scale.low * factor, scale.high * factor, 4)
    for tick in ticks:
        x = scale(tick / factor)
        zero = abs(tick) < 1e-12
        label = "0" if zero else f"{tick:+.3g}".replace("-", "−")
        parts += [
            line(x, HEAD, x, bottom, "zero" if zero else "rule"),
            text(x, bottom + 16, label, "tick", "middle"),
        ]
    for k, row in enumerate(rows):
        parts.append(_forest_row(row, scale, HEAD + 24 * k + 14))
    unit = "points" if metric == "accuracy" else "difference"
    good = "right of zero is better" if metric in LARGER_IS_BETTER else "left of zero is better"
    parts.append(text(WIDTH - 4, bottom + 33, f"{unit}; {good}", "label", "end"))
    baseline = (facts.baseline or "").rpartition("/")[2]  # of another run: without the way to it
    title = f"{METRIC_NAMES[metric]}, {words}, against {baseline}"
    summary = ". ".join(_spoken(row) for row in rows)
    n = f"as predicted · {facts.n} {facts.examples} · 95 % interval"
    return draw(f"difference-{metric}-{words}", title, n, bottom + 40, join(parts), summary=summary)


def _forest_row(row: Row, scale: Scale, y: float) -> Markup:
    interval = line(scale(ends(row)[0]), y, scale(ends(row)[1]), y, "interval")
    point = mark(marker(row.method), scale(row.value), y)
    name = text(scale.start - 8, y + 4, row.method, "tick", "end")
    tip = f"{row.method}\ndifference\t{shown(row.metric, row.value)}\ninterval\t{_range(row)}"
    hit = rect(0, y - 12, WIDTH, 24, "hit")
    return element("g", hit, name, interval, point, class_=colour(row.method) + " spot", data_tip=tip)


def _range(row: Row) -> str:
    low, high = (shown(row.metric, end) for end in ends(row))
    return f"{low} – {high}"


def _spoken(row: Row) -> str:
    return f"{row.method} {shown(row.metric, row.value)}, interval {_range(row)}"
