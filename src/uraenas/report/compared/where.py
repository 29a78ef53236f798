"""Under which shifts a method gains or loses, against the baseline."""

from collections.abc import Sequence

from uraenas.base.svg import join, text
from uraenas.report.blocks import Cell, Choice, Figure, Line, Note, Section, Table
from uraenas.report.chart import HEAD, LETTER, WIDTH, draw, signed_cell
from uraenas.report.entries import Entries, Entry
from uraenas.report.sections.methods import shown
from uraenas.report.style import HEADLINE, LARGER_IS_BETTER, METRIC_NAMES, colour, count, shortened

ROW = 20
LETTERS = 17  # of a shift's name
NAMED = 3  # shifts in a sentence
MOST = 16  # lines that get maps


def section(entries: Entries, baseline: Entry | None) -> Section:
    found = Section(
        "compared-shift",
        "Where do the differences come from?",
        "Each kind of shift at each severity: method minus baseline. Blue is better, orange worse, the stronger the "
        "more. Single cells have no intervals: look for rows and columns that hang together.",
    )
    if baseline is None:
        found.blocks.append(Note("There is no baseline among these methods to take differences to."))
        return found
    others = [entry for entry in entries if entry is not baseline and entry.method in entry.runs[0].methods]
    if len(others) > MOST:
        found.blocks.append(
            Note(
                f"Maps are drawn of the first {MOST} of {len(others)} lines; RUN:METHOD picks methods of a run."
            )
        )
    lines = [line for entry in others[:MOST] if (line := _line(entries, entry, baseline))]
    if lines:
        caption = (
            f"NLL minus that of {entries.names[baseline]}, as predicted, means over severities (and seeds): under "
            "how many kinds of shift it is better, that is lower, and the lowest and highest differences."
        )
        found.blocks.append(
            Table(caption, ["Method", "Better under", "Lowest differences", "Highest differences"], lines)
        )
    maps = {
        METRIC_NAMES[m]: _maps(entries, others[:MOST], baseline, m)
        for m in ("nll", *(m for m in HEADLINE if m != "nll"))
    }
    found.blocks.append(Choice("Metric", {name: figures for name, figures in maps.items() if figures}))
    return found


Cells = dict[tuple[str, int], float]


def _cells(entry: Entry, baseline: Entry, metric: str) -> Cells:
    """Differences of the means over runs, by shift and severity."""
    found = {}
    for place in baseline.runs[0].cells:
        own, theirs = (one.of_runs(metric, place[0], severity=place[1]) for one in (entry, baseline))
        if own and theirs:
            found[place] = sum(own) / len(own) - sum(theirs) / len(theirs)
    return found


def _line(entries: Entries, entry: Entry, baseline: Entry) -> Line | None:
    """Which shifts make most of the difference in NLL."""
    by_shift: dict[str, list[float]] = {}
    for (shift, _), value in _cells(entry, baseline, "nll").items():
        by_shift.setdefault(shift, []).append(value)
    means = {shift: sum(values) / len(values) for shift, values in by_shift.items()}
    if len(means) < 2:
        return None
    order = sorted(means, key=means.__getitem__)
    lower = sum(value < 0 for value in means.values())
    cells = [Cell(f"{lower} of {len(means)}")]
    cells += [Cell(_named(means, ends), mark="words") for ends in (order[:NAMED], order[::-1][:NAMED])]
    return Line(entry.method, cells, colour(entry.method), entries.of_group(entry.group))


def _named(means: dict[str, float], shifts: Sequence[str]) -> str:
    # No-break spaces: a line ends between shifts, not within one.
    return ", ".join(
        f"{shift} {shown('nll', means[shift])}".replace("_", " ").replace(" ", "\u00a0") for shift in shifts
    )


def _maps(entries: Entries, others: Sequence[Entry], baseline: Entry, metric: str) -> list[Figure]:
    every = {entry: _cells(entry, baseline, metric) for entry in others}
    most = max((abs(value) for cells in every.values() for value in cells.values()), default=0.0)
    return [_map(entries, entry, baseline, metric, cells, most) for entry, cells in every.items() if cells]


def _map(entries: Entries, entry: Entry, baseline: Entry, metric: str, cells: Cells, most: float) -> Figure:
    facts = baseline.runs[0]
    left, top = 10 + LETTER * LETTERS, HEAD + 18
    width = (WIDTH - left) / len(facts.severities)
    places = enumerate(facts.severities)
    parts = [text(left + width * (k + 0.5), top - 6, f"{s}", "tick", "middle") for k, s in places]
    parts.append(text(left - 8, top - 6, "severity", "tick", "end"))
    for r, shift in enumerate(facts.shifts):
        words, y = shift.replace("_", " "), top + ROW * r
        parts.append(text(left - 8, y + ROW / 2 + 4, shortened(words, LETTERS), "tick", "end"))
        for k, severity in enumerate(facts.severities):
            if (value := cells.get((shift, severity))) is None:
                continue
            gain = value if metric in LARGER_IS_BETTER else -value
            tip = f"{words}, severity {severity}\n{entry.method} − {baseline.method}\t{shown(metric, value)}"
            label = f"{100 * value:+.1f}" if metric == "accuracy" else f"{value:+.2f}"
            share = gain / most if most else 0.0
            parts.append(signed_cell(left + width * k, y, width, ROW, share, label.replace("-", "−"), tip))
    unit = "percentage points" if metric == "accuracy" else METRIC_NAMES[metric]
    seeds = f", {count(len(entry.runs), 'seed')}" if len(entry.runs) > 1 else ""
    n = f"{unit}, minus {entries.names[baseline]} · {facts.n} images per cell{seeds}"
    return draw(
        f"minus-{metric}-{entry.method}-{entry.group + 1}",
        f"{entries.names[entry]}: {METRIC_NAMES[metric]}",
        n,
        top + ROW * len(facts.shifts) + 6,
        join(parts),
        summary=f"Up to {shown(metric, most).lstrip('+')} over all maps.",
    )
