"""Which method is best, and whether that is sure: the table of all runs, and the differences to one line of it."""

from markupsafe import Markup

from uraenas.base.svg import Scale, decimals, element, join, line, mark, padded, rect, round_ticks, text
from uraenas.evaluation import REFERENCES
from uraenas.learning.recipes import RECIPES
from uraenas.learning.sources import SOURCES
from uraenas.report.blocks import Cell, Choice, Facts, Figure, Grid, Line, Note, Section, Table, Tile, Tiles
from uraenas.report.chart import HEAD, WIDTH, beside, draw
from uraenas.report.compared.words import beneath, keys, n_of, said, shapes, tested_on
from uraenas.report.entries import Difference, Entries, Entry, Value
from uraenas.report.paper import reference
from uraenas.report.sections.methods import CALIBRATIONS, few_tested, lead_of, shown
from uraenas.report.style import METRIC_NAMES, colour, count, direction, listed, marker, show
from uraenas.report.table import Column
from uraenas.run.directory import PRIMARY
from uraenas.weights import WEIGHTS

ROW = 18
GAP = 8  # between methods
MOST_TIED = 3  # named in a tile
FEW_SEEDS = 5  # so many agree by chance in one case of sixteen


SHIFTED = (
    " Columns and figures with c or “shifted” are means over shifted images, the others are of clean ones."
)


def section(entries: Entries, baseline: Entry | None, wanted: str, paper: bool) -> Section:
    found = Section(
        "compared",
        "Which method is best?",
        _tests(entries) + lead_of(entries.runs[0], "All values are") + (SHIFTED if entries.shifted else ""),
    )
    if not entries.competing:
        found.blocks.append(
            Note(
                f"These runs were not tested on the same {entries.examples}: {_tests_of_each(entries)}. Compare "
                "across runs with care; no best is marked, and no difference is drawn."
            )
        )
    else:
        found.blocks.append(Tiles([_tile(entries, c) for c in _judged(entries)]))
        if not_all := _shifts_of_some(entries):
            found.blocks.append(Note(not_all))
        if unsure := _unsure(entries):
            found.blocks.append(Note(unsure))
        found.blocks += map(Note, few_tested(entries.runs[0]))
    tables = {words.capitalize(): _tables(entries, baseline, kind) for kind, words in CALIBRATIONS.items()}
    found.blocks.append(Choice("Predictions", {words: shown for words, shown in tables.items() if shown}))
    if why := _why_no_differences(entries, baseline, wanted):
        found.blocks.append(Note(why))
    if paper:
        found.blocks.append(reference())
    if entries.runs[0].classes:
        found.blocks.append(Note(ECE_LEANS))
    found.blocks.append(_about(entries))
    found.blocks += keys(entries)
    found.blocks.append(Grid([figure for c in _compared(entries) if (figure := _dots(entries, c))]))
    return found


def _tests(entries: Entries) -> str:
    """What all were tested on."""
    if not entries.competing:
        return ""
    facts = entries.runs[0]
    classes = f", {count(len(facts.classes), 'class')}" if facts.classes else ""
    return f"{facts.rows[0].dataset}: {facts.tested}{classes}. "


def _tests_of_each(entries: Entries) -> str:
    """Which run was tested on what."""
    of_runs = zip(entries.labels, entries.runs, strict=True)
    return "; ".join(f"{label} on {facts.rows[0].dataset}, {facts.n}" for label, facts in of_runs)


def _shifts_of_some(entries: Entries) -> str:
    """Where not all were tested on the same shifted images: which were, and what of that."""
    sets = {label: len(facts.cells) for label, facts in zip(entries.labels, entries.runs, strict=True)}
    without = [label for label, number in sets.items() if not number]
    if not entries.shifted or (entries.compete(shifted=True) and not without):
        return ""
    words = f"Not tested on shifted images: {listed(without)}. " if without else ""
    if entries.compete(shifted=True):
        return f"{words}Columns with c compare the others."
    tests = "; ".join(f"{label} on {count(number, 'set')}" for label, number in sets.items() if number)
    which = "The others" if without else "These runs"
    return (
        f"{words}{which} were not tested on the same shifted images: {tests}. In columns with c no best is marked, "
        "and no difference is drawn."
    )


def _about(entries: Entries) -> Facts:
    """What the methods are: where their architectures come from, and their weights."""
    found = {}
    for entry in entries:
        if entry.method in entry.runs[0].methods:
            row = entry.runs[0].method(entry.method).row
            parts = [SOURCES[row.source], WEIGHTS[row.weights]]
            parts += [RECIPES[row.recipes]] if row.recipes != "same" else []
            kind = "A single network." if row.single else "An ensemble."
            found[entry.method] = " ".join([*(part.about for part in parts), kind])
        else:
            found[entry.method] = REFERENCES[entry.method]
    return Facts("What the methods are", found, prose=True)


ECE_LEANS = (
    "ECE leans upwards: chance alone opens gaps between confidence and accuracy, the more the smaller the test set, so "
    "even a perfectly calibrated method has an ECE above zero, and a resample of the test set a larger one than "
    "the set itself: intervals of ECE lie too high. Differences of ECE lean, too: chance opens larger gaps where a "
    "method is less sure, so of two perfectly calibrated methods the surer one may look better, and a calibrated one "
    "less far ahead of others than it is. A run's own section “Calibration” has the ECE by chance of each method."
)


def _unsure(entries: Entries) -> str:
    """Of a method whose calibration under shift is the best for the wrong reason."""
    if not entries.shifted:
        return ""
    names: list[Entry] = []
    accuracy = entries.standing("accuracy", shifted=True)
    for metric in ("ece", "nll"):
        best = entries.best(metric, shifted=True)
        if best is not None and best not in names and accuracy.get(best) == "worse":
            names.append(best)
    if not names:
        return ""
    return (
        f"Under shift {listed([entries.names[one] for one in names])} has the lowest ECE or NLL and is clearly less "
        "accurate "
        "than the best: it is less sure of everything rather than better. Weigh accuracy against NLL before you "
        "choose it."
    )


def _columns(entries: Entries) -> list[Column]:
    every = entries.runs[0].columns
    return [column for column in every if entries.shifted or not column.shifted]


def _compared(entries: Entries) -> list[Column]:
    """Those of which one value is better than another."""
    return [column for column in _columns(entries) if column.compared]


def _judged(entries: Entries) -> list[Column]:
    """Those of which all values are of the same images."""
    return [column for column in _compared(entries) if entries.compete(column.shifted)]


def _tile(entries: Entries, column: Column) -> Tile:
    """Who is best, who is not clearly worse, and where ours stand."""
    metric, shifted = column.metric, column.shifted
    title = f"{METRIC_NAMES[metric]}, {entries.place(shifted)}: best"
    best = entries.best(metric, shifted)
    if best is None:
        return Tile(title, "–", "")
    value = best.value(metric, best.shift(shifted))
    assert value is not None
    ours = next((one for name in PRIMARY for one in entries if one.method == name), None)
    rank = ""
    if len(entries) > 1 and ours is not None and ours.value(metric, ours.shift(shifted)) is not None:
        place, lines = entries.rank(ours, metric, shifted)
        rank = f"{entries.names[ours]}: rank {place} of {lines} lines"
    beneath = "; ".join([entries.names[best], *_others(entries, best, column)])
    return Tile(title, said(metric, value), beneath, rank)


def _others(entries: Entries, best: Entry, column: Column) -> list[str]:
    """Who is not clearly worse than the best, and of whom that cannot be said."""
    standing = entries.standing(column.metric, column.shifted)
    found: dict[str, list[str]] = {}
    for entry, words in standing.items():
        if entry is not best:
            found.setdefault(words, []).append(entries.names[entry])
    parts = [f"not clearly worse: {_few(found['best'])}"] if "best" in found else []
    if not parts and "worse" in found:
        others = _few(found["worse"]) if "unjudged" in found else "all others"
        once = all(len(e.pairs(best)) == 1 for e, words in standing.items() if words == "worse")
        parts.append(
            f"clearly ahead of {others}" + (f" on these {entries.examples}, one seed" if once else "")
        )
    return parts + ([f"not judged: {_few(found['unjudged'])}"] if "unjudged" in found else [])


def _few(names: list[str]) -> str:
    more = [f"{len(names) - MOST_TIED} more"] if len(names) > MOST_TIED else []
    return listed(names[:MOST_TIED] + more)


def _tables(entries: Entries, baseline: Entry | None, kind: str) -> list[Table]:
    values = _values(entries, kind)
    if values is None:
        return []
    return [values] if baseline is None else [values, _differences(entries, baseline, kind)]


def _values(entries: Entries, kind: str) -> Table | None:
    columns = [c for c in _columns(entries) if entries.best(c.metric, c.shifted, kind) is not None]
    if not columns:
        return None
    standing = {c: entries.standing(c.metric, c.shifted, kind) if c.compared else {} for c in columns}
    lines = []
    for entry in entries:
        cells = [Cell(str(entry.members))]
        for column in columns:
            value = entry.value(column.metric, entry.shift(column.shifted), kind)
            marked = standing[column].get(entry, "").replace("worse", "")
            small = "" if value is None else beneath(column, value)
            cells.append(Cell(column.show(None if value is None else value.mean), small, marked))
        lines.append(Line(entry.method, cells, colour(entry.method), entries.of_group(entry.group)))
    small = "the 95\u00a0% interval of a single run"
    small = f"± standard deviation over seeds (n − 1), or {small}" if entries.folded else small
    caption = f"Methods of all runs, {CALIBRATIONS[kind]}. {tested_on(entries)}; beneath, {small}."
    if entries.competing:
        caption += (
            " Bold: the best value of a column, as printed, and all that are not clearly worse: the paired interval of "
            f"the difference holds zero{', or seeds disagree' if entries.folded else ''}. Each is judged by itself: of "
            "many equal methods some miss it by chance."
        )
    if any("unjudged" in found.values() for found in standing.values()):
        caption += (
            " °: not judged, as it shares no seed with the best of the column or has no replicates, or not as many, to "
            "be paired."
        )
    return Table(caption, ["Method", "Members", *(column.title for column in columns)], lines)


def _differences(entries: Entries, baseline: Entry, kind: str) -> Table:
    lines = []
    columns = [column for column in _judged(entries) if baseline.shift(column.shifted)]
    for entry in entries:
        if entry is baseline:
            continue
        cells = []
        for column in columns:
            found = entry.minus(baseline, column.metric, baseline.shift(column.shifted), kind)
            cells.append(_difference(found, column.metric))
        small = entries.of_group(entry.group) + _by_seeds(entry, baseline)
        lines.append(Line(entry.method, cells, colour(entry.method), small))
    seeds = " and all seeds agree" if entries.folded else ""
    caption = (
        f"Differences to {entries.names[baseline]}, {CALIBRATIONS[kind]}: paired bootstrap over the same "
        f"{entries.examples}, {tested_on(entries)}, 95\u00a0% intervals, runs of the same seed paired. ▲ better, ▼ "
        f"worse: the interval leaves out zero{seeds}; △ and ▽: the same on these {entries.examples}, one seed. –: "
        "a run has not this value, or no replicates, or not as many, to be paired. Bold above is held against the best "
        "of its column instead."
    )
    caption += _of_which_seeds(entries, baseline)
    return Table(caption, ["Method", *(column.title for column in columns)], lines)


def _by_seeds(entry: Entry, baseline: Entry) -> str:
    """The seeds of a difference, where they are not all that its line and the baseline have."""
    pairs = entry.pairs(baseline)
    if len(pairs) == max(len(entry.runs), len(baseline.runs)):
        return ""
    seeds = ", ".join(str(own.config.seed) for own, _ in pairs)
    return f"; of seed {seeds} alone" if all(a.config.seed == b.config.seed for a, b in pairs) else ""


def _of_which_seeds(entries: Entries, baseline: Entry) -> str:
    """Whose difference rests on fewer seeds than its mean, and whose on one."""
    words = ""
    pairs = {entry: entry.pairs(baseline) for entry in entries if entry is not baseline}
    if any(_by_seeds(entry, baseline) for entry in pairs):
        words += (
            " Of a seed alone: that is all that both have, so it is not the difference of the means above."
        )
    strange = [
        entries.names[entry]
        for entry, of in pairs.items()
        if all(own.config.seed != other.config.seed for own, other in of)
    ]
    if strange:
        words += (
            f" Of other seeds than the baseline, which may be all of a difference, so without a sign: "
            f"{listed(strange)}."
        )
    if any(len(of) < FEW_SEEDS for of in pairs.values()):
        words += (
            f" Intervals are over {entries.examples}, not over seeds: where fewer than {FEW_SEEDS} runs are paired, "
            "another seed may move a method by more than the interval, and a few agree by chance."
        )
    return words


def _difference(found: Difference | None, metric: str) -> Cell:
    if found is None:
        return Cell("–")
    low, high = (shown(metric, end) for end in found.interval)
    return Cell(shown(metric, found.value), f"{low} – {high}", found.mark(metric))


def _why_no_differences(entries: Entries, baseline: Entry | None, wanted: str) -> str:
    if not entries.competing:
        return ""
    if baseline is None:
        return (
            f"No differences: {wanted} is not among these methods. uraenas report RUN RUN --against METHOD, or "
            "RUN:METHOD of a run on the page, shows those to another."
        )
    lack = [label for label, facts in zip(entries.labels, entries.runs, strict=True) if not facts.replicates]
    return f"Without bootstrap replicates, and so not paired with others: {', '.join(lack)}." if lack else ""


def _dots(entries: Entries, column: Column) -> Figure | None:
    shown = {e: v for e in entries if (v := e.value(column.metric, e.shift(column.shifted))) is not None}
    if not shown:
        return None
    drawn = [end for e, v in shown.items() for end in (*_seeds(e, column), v.mean, *(v.interval or ()))]
    low, high = padded(drawn, column.metric == "accuracy")
    methods = list(dict.fromkeys(entry.method for entry in shown))
    left = beside(methods)
    scale = Scale(low, high, left, WIDTH - 16)
    bottom = HEAD + ROW * len(shown) + GAP * len(methods)
    factor = 100 if column.metric == "accuracy" else 1
    parts = []
    ticks = round_ticks(low * factor, high * factor, 4)
    for tick in ticks:
        x, label = scale(tick / factor), f"{tick:.{decimals(ticks)}f}"
        parts += [line(x, HEAD, x, bottom, "rule"), text(x, bottom + 16, label, "tick", "middle")]
    top: float = HEAD
    for method in methods:
        own = [entry for entry in shown if entry.method == method]
        height = ROW * len(own) + GAP
        parts.append(text(left - 8, top + height / 2 + 4, method, "tick", "end"))
        for place, entry in enumerate(own):
            y = top + GAP / 2 + ROW * (place + 0.5)
            parts.append(_dot(entries, entry, column, scale, y, shown[entry]))
        top += height
    words = entries.place(column.shifted)
    percent = " in %" if column.metric == "accuracy" else ""
    bars = f"bars: 95 % intervals over {entries.runs[0].part} {entries.examples}"
    bars += " · small dots: seeds" if entries.folded else ""
    n = f"{direction(column.metric)} · {bars} · {n_of(shown)}"
    title = f"{METRIC_NAMES[column.metric]}{percent}, {words}"
    summary = ", ".join(f"{entries.names[e]} {show(column.metric, v.mean)}" for e, v in shown.items())
    return draw(f"runs-{column.title}", title, n, bottom + 24, join(parts), shapes(entries, shown), summary)


def _seeds(entry: Entry, column: Column) -> list[float]:
    return entry.of_runs(column.metric, entry.shift(column.shifted))


def _dot(entries: Entries, entry: Entry, column: Column, scale: Scale, y: float, value: Value) -> Markup:
    metric, values = column.metric, _seeds(entry, column)
    told = show(metric, value.mean)
    tip = f"{entry.method}\n{{{colour(entry.method)}}}{entries.of_group(entry.group)}\t{told}"
    parts = [rect(scale.start, y - ROW / 2, WIDTH - scale.start, ROW, "hit")]
    if ends := value.interval:
        parts.append(line(scale(ends[0]), y, scale(ends[1]), y, "interval"))
        tip += f"\ninterval\t{show(metric, ends[0])} – {show(metric, ends[1])}"
    if len(values) > 1:
        parts += [element("circle", cx=scale(one), cy=y, r=1.8, class_="chosen") for one in values]
        tip += f"\n{count(len(values), 'seed')}\t{', '.join(show(metric, one) for one in values)}"
    parts.append(mark(marker(entry.group), scale(value.mean), y))
    return element("g", *parts, class_=f"{colour(entry.method)} spot", data_method=entry.method, data_tip=tip)
