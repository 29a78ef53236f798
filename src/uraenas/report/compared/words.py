"""Words and keys that the sections of a comparison share."""

from uraenas.base.svg import mark
from uraenas.report.blocks import Block, Key
from uraenas.report.chart import Legend, method_legend
from uraenas.report.entries import Entries, Value
from uraenas.report.style import count, marker, show
from uraenas.report.table import Column


def keys(entries: Entries) -> list[Block]:
    """Colour is the method, shape the run."""
    methods = list(dict.fromkeys(entry.method for entry in entries))
    swatches = [(name, class_, mark("square", 0, 0, 5)) for name, class_, _ in method_legend(methods)]
    return [Key(swatches), Key(shapes(entries), methods=False)]


def shapes(entries: Entries) -> Legend:
    return [(entries.of_group(k), "ink", mark(marker(k), 0, 0)) for k in range(len(entries.groups))]


def beneath(column: Column, value: Value) -> str:
    """What is printed small: the deviation over seeds, or the interval."""
    if value.deviation is not None:
        return f"± {column.show(value.deviation)}"
    return " – ".join(column.show(end) for end in value.interval) if value.interval else ""


def said(metric: str, value: Value) -> str:
    if value.deviation is None:
        return show(metric, value.mean)
    spread = f"{100 * value.deviation:.2f}" if metric == "accuracy" else f"{value.deviation:.3f}"
    return f"{show(metric, value.mean)} ± {spread}"


def tested_on(entries: Entries) -> str:
    """How many test images or rows a value rests on."""
    numbers = list(dict.fromkeys(facts.n for facts in entries.runs))
    return f"{' and '.join(numbers)} test {entries.examples}"


def runs_of(entries: Entries) -> str:
    return f"n = {count(len(entries.runs), 'run')}"
