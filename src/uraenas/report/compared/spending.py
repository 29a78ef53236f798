"""What the methods of all runs cost, and the front of cost and quality."""

import statistics
from collections.abc import Callable

from uraenas.report.blocks import Cell, Choice, Figure, Line, Note, Section, Table
from uraenas.report.compared.words import keys, legend, n_of, references_aside
from uraenas.report.entries import Entries, Entry
from uraenas.report.sections.cost import (
    HEADER,
    UNITS,
    Cost,
    Point,
    cells_of,
    clocked,
    cost_of,
    known_columns,
    known_units,
    scatter,
    taught,
    without,
)
from uraenas.report.style import colour, marker


def section(entries: Entries) -> Section:
    found = Section(
        "compared-cost",
        "What does it cost?",
        "Cost to the right, quality upwards or downwards; dotted: the front, where no other method is cheaper and "
        "better. Work that methods share is charged in full to each, as if it had been run alone. Seeds: means."
        + references_aside(entries),
    )
    spent = {entry: _mean_cost(entry) for entry in entries if entry.method in entry.runs[0].methods}
    units = known_units(list(spent.values()))
    if not units:
        found.blocks.append(Note("None of the run directories says what its training cost (cost.json)."))
        return found
    names = {entries.names[entry]: cost for entry, cost in spent.items()}
    if missing := without(names, units):
        found.blocks.append(missing)
    of_runs = zip(entries.labels, entries.runs, strict=True)
    found.blocks += [Note(f"{label}: {words}") for label, facts in of_runs if (words := taught(facts))]
    if entries.competing:
        known = {
            unit: [entry for entry, cost in spent.items() if UNITS[unit][1](cost) is not None]
            for unit in units
        }
        drawn = [entry for entry in spent if any(entry in of_unit for of_unit in known.values())]
        options = {
            unit.capitalize(): _figures(entries, {e: spent[e] for e in of_unit}, unit)
            for unit, of_unit in known.items()
        }
        found.blocks += [*keys(entries, drawn), Choice("Cost in", options)]
    found.blocks.append(_table(entries, spent))
    return found


def _figures(entries: Entries, spent: dict[Entry, Cost], unit: str) -> list[Figure]:
    """Of those whose cost is known in this unit."""
    figures = []
    for shifted in (False, True) if entries.shifted and entries.compete(shifted=True) else (False,):
        shown = {entry: cost for entry, cost in spent.items() if entry.shift(shifted)}
        n = n_of(shown) + clocked(unit, "summed over workers" if _summed(entries) else "")
        for metric in entries.runs[0].headline:
            points = _points(entries, shown, unit, metric, shifted)
            words, keys_of = entries.place(shifted), legend(entries, shown)
            figures.append(scatter(unit, metric, words, points, n, "runs-cost", keys_of))
    return figures


def _mean_cost(entry: Entry) -> Cost:
    costs = [cost_of(facts, entry.method) for facts in entry.runs]

    def mean(amount: Callable[[Cost], float | None]) -> float | None:
        known = [one for cost in costs if (one := amount(cost)) is not None]
        return statistics.fmean(known) if known else None

    parameters, operations = mean(lambda c: c.parameters), mean(lambda c: c.operations)
    return Cost(
        mean(lambda c: c.search),
        max(cost.chains for cost in costs),
        mean(lambda c: c.training),
        mean(lambda c: c.images),
        None if parameters is None else round(parameters),
        None if operations is None else round(operations),
    )


def _points(entries: Entries, spent: dict[Entry, Cost], unit: str, metric: str, shifted: bool) -> list[Point]:
    found = []
    for entry, cost in spent.items():
        value, amount = entry.value(metric, entry.shift(shifted)), UNITS[unit][1](cost)
        if value is None or amount is None:
            continue
        name, shape = entries.names[entry], marker(entry.group)
        found.append(Point(name, entry.method, value.mean, value.interval, amount, entry.members, shape))
    return found


def _summed(entries: Entries) -> list[str]:
    """Runs whose seconds are those of several workers, and how many these were."""
    of_runs = zip(entries.labels, entries.runs, strict=True)
    return [f"{label}: {facts.summed}" for label, facts in of_runs if facts.summed]


def _table(entries: Entries, spent: dict[Entry, Cost]) -> Table:
    lines = [
        Line(
            entry.method,
            [Cell(str(entry.members)), *cells_of(cost)],
            colour(entry.method),
            entries.of_group(entry.group),
        )
        for entry, cost in spent.items()
    ]
    devices = ", ".join(
        dict.fromkeys(str(f.environment.get("device", "an unknown device")) for f in entries.runs)
    )
    clocks = "; ".join([f"Seconds on {devices}", *_summed(entries), "means over the seeds"])
    caption = f"{clocks} whose run directory says it. A member is one pass in prediction. –: none says it."
    return known_columns(Table(caption, ["Method", "Members", *HEADER], lines))
