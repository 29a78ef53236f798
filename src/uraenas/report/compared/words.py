"""Words and keys that the sections of a comparison share."""

from collections.abc import Iterable

from uraenas.base.svg import mark
from uraenas.base.words import three_decimals
from uraenas.report.blocks import Block, Key
from uraenas.report.chart import Legend, method_legend
from uraenas.report.entries import Entries, Entry, Value
from uraenas.report.style import count, listed, marker, show
from uraenas.report.table import Column


def keys(entries: Entries, shown: Iterable[Entry] | None = None) -> list[Block]:
    """Colour is the method, shape the run or its seeds; of all lines, or of those that are shown."""
    drawn = list(entries if shown is None else shown)
    return [Key(_swatches(drawn)), Key(shapes(entries, drawn), methods=False)]


def legend(entries: Entries, shown: Iterable[Entry]) -> Legend:
    """The same within a figure that names neither."""
    drawn = list(shown)
    return [*_swatches(drawn), *shapes(entries, drawn)]


def _swatches(drawn: Iterable[Entry]) -> Legend:
    methods = list(dict.fromkeys(entry.method for entry in drawn))
    return [(name, class_, mark("square", 0, 0, 5)) for name, class_, _ in method_legend(methods)]


def shapes(entries: Entries, drawn: Iterable[Entry]) -> Legend:
    groups = sorted({entry.group for entry in drawn})
    return [(_meaning(entries, k), "ink", mark(marker(k), 0, 0)) for k in groups]


def _meaning(entries: Entries, group: int) -> str:
    """Of a shape: a run, or the runs that its lines are means of."""
    seeds = len(entries.groups[group])
    return ("" if seeds == 1 else f"mean of {count(seeds, 'seed')}: ") + entries.of_group(group)


def beneath(column: Column, value: Value) -> str:
    """What is printed small: the deviation over seeds, or the interval."""
    if value.deviation is not None:
        return f"± {column.show(value.deviation)}"
    return " – ".join(column.show(end) for end in value.interval) if value.interval else ""


def said(metric: str, value: Value) -> str:
    if value.deviation is None:
        return show(metric, value.mean)
    spread = (
        f"{100 * value.deviation:.2f}" if metric == "accuracy" else three_decimals(metric, value.deviation)
    )
    return f"{show(metric, value.mean)} ±\u00a0{spread}"


def tested_on(entries: Entries) -> str:
    """How many images or rows a value rests on, and which they are."""
    return " and ".join(dict.fromkeys(facts.tested for facts in entries.runs))


def references_aside(entries: Entries) -> str:
    """Who is in the tables above and not here."""
    return f" Without {listed(entries.references)}, which are no networks." if entries.references else ""


def n_of(shown: Iterable[Entry]) -> str:
    """How many runs a figure of these lines rests on, and how many images or rows."""
    runs = list(dict.fromkeys(facts for entry in shown for facts in entry.runs))
    return f"n = {count(len(runs), 'run')}, {' and '.join(dict.fromkeys(one.tested for one in runs))}"
