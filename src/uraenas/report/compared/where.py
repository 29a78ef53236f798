"""Under which shifts a method gains or loses, against the baseline."""

from collections.abc import Sequence

from uraenas.base.svg import join, rect, text
from uraenas.report.blocks import Cell, Choice, Figure, Line, Note, Section, Table
from uraenas.report.chart import HEAD, LETTER, WIDTH, draw, signed_cell
from uraenas.report.entries import Entries, Entry
from uraenas.report.sections.methods import shown
from uraenas.report.style import LARGER_IS_BETTER, METRIC_NAMES, colour, count, shortened
from uraenas.run.show import HEADLINE

ROW = 20
LETTERS = 17  # of a shift's name
NAMED = 3  # shifts in a sentence
MOST = 16  # lines that get maps


def section(entries: Entries, baseline: Entry | None) -> Section:
    found = Section(
        "compared-shift",
        "Under which shifts do they differ?",
        "Each kind of shift at each severity: method minus baseline. Blue is better, orange worse, the stronger the "
        "more. Single cells have no intervals: look for rows and columns that hang together.",
    )
    if baseline is None:
        found.blocks.append(Note("There is no baseline among these methods to take differences to."))
        return found
    if not baseline.runs[0].cells:
        found.blocks.append(
            Note(f"{entries.names[baseline]}, the baseline, was not tested on shifted images.")
        )
        return found
    others = [entry for entry in entries if entry is not baseline and entry.runs[0].cells]
    if len(others) > MOST:
        found.blocks.append(
            Note(
                f"Maps are drawn of the first {MOST} of {len(others)} lines; RUN:METHOD picks methods of a run."
            )
        )
    metrics = ("nll", *(metric for metric in HEADLINE if metric != "nll"))
    minus = {metric: _differences(others[:MOST], baseline, metric) for metric in metrics}
    lines = [line for entry, cells in minus["nll"].items() if (line := _line(entries, entry, cells))]
    if lines:
        caption = (
            f"NLL minus that of {entries.names[baseline]}, as predicted, means over severities (and seeds that both "
            "have): under how many kinds of shift it is better, that is lower, and the lowest and highest differences."
        )
        found.blocks.append(
            Table(caption, ["Method", "Better under", "Lowest differences", "Highest differences"], lines)
        )
    maps = {METRIC_NAMES[metric]: _maps(entries, minus[metric], baseline, metric) for metric in metrics}
    found.blocks.append(Choice("Metric", {name: figures for name, figures in maps.items() if figures}))
    return found


LOOKS = [
    ("better", "", rect(-9, -6, 18, 12, "heat better")),
    ("worse", "", rect(-9, -6, 18, 12, "heat worse")),
]
Cells = dict[tuple[str, int], float]


def _differences(entries: Sequence[Entry], baseline: Entry, metric: str) -> dict[Entry, Cells]:
    """What each has more than the baseline, by shift and severity: means over pairs of runs."""
    return {entry: _minus(entry, baseline, metric) for entry in entries}


def _minus(entry: Entry, baseline: Entry, metric: str) -> Cells:
    found: Cells = {}
    pairs = entry.pairs(baseline)
    for shift, severity in baseline.runs[0].cells:
        differences = []
        for ours, theirs in pairs:
            own = ours.value(entry.method, metric, shift, severity)
            other = theirs.value(baseline.method, metric, shift, severity)
            if own is None or other is None:
                break
            differences.append(own - other)
        else:
            found[shift, severity] = sum(differences) / len(differences)
    return found


def _line(entries: Entries, entry: Entry, cells: Cells) -> Line | None:
    """Which shifts make most of these differences."""
    by_shift: dict[str, list[float]] = {}
    for (shift, _), value in cells.items():
        by_shift.setdefault(shift, []).append(value)
    means = {shift: sum(values) / len(values) for shift, values in by_shift.items()}
    if len(means) < 2:
        return None
    order = sorted(means, key=means.__getitem__)
    named = min(NAMED, len(order) // 2)
    lower = sum(value < 0 for value in means.values())
    told = [Cell(f"{lower} of {len(means)}")]
    told += [Cell(_named(means, ends), mark="words") for ends in (order[:named], order[::-1][:named])]
    return Line(entry.method, told, colour(entry.method), entries.of_group(entry.group))


def _named(means: dict[str, float], shifts: Sequence[str]) -> str:
    # No-break spaces: a line ends between shifts, not within one.
    return ", ".join(
        f"{shift} {shown('nll', means[shift])}".replace("_", " ").replace(" ", "\u00a0") for shift in shifts
    )


def _maps(entries: Entries, every: dict[Entry, Cells], baseline: Entry, metric: str) -> list[Figure]:
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
    pairs = len(entry.pairs(baseline))
    seeds = f", {count(pairs, 'pair')} of runs" if pairs > 1 else ", one seed"
    n = f"{unit}, minus {entries.names[baseline]} · {facts.n} images per cell{seeds}"
    return draw(
        f"minus-{metric}-{entry.method}-{entry.group + 1}",
        f"{entries.names[entry]}: {METRIC_NAMES[metric]}",
        n,
        top + ROW * len(facts.shifts) + 6,
        join(parts),
        LOOKS,
        summary=f"Up to {shown(metric, most).lstrip('+')} over all maps.",
    )
