"""What it cost, against what it brought."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from uraenas.base.svg import element, join, line, mark, padded, rect
from uraenas.evaluation import Row
from uraenas.learning.chains import chains_for
from uraenas.report.blocks import Cell, Choice, Figure, Line, Note, Section, Table
from uraenas.report.chart import Axis, Frame, draw, method_key, method_legend
from uraenas.report.reading import RunFacts
from uraenas.report.style import METRIC_NAMES, colour, direction, marker, show

BYTES = 4  # of a parameter


@dataclass(frozen=True)
class Cost:
    """What a method would have cost alone."""

    search: float  # seconds
    chains: int
    training: float  # seconds, of chains and of the choice of members from them
    images: float  # seen in search and training
    parameters: int  # that are kept: those of draws of one network once

    @property
    def seconds(self) -> float:
        return self.search + self.training


UNITS: dict[str, Callable[[Cost], float]] = {
    "seconds": lambda cost: cost.seconds,
    "images seen": lambda cost: cost.images,
}


def section(facts: RunFacts) -> Section:
    found = Section(
        "cost",
        "Cost and quality",
        "Search and training against quality: the lower left (the upper left for accuracy) is where you "
        "want to be. Work that methods share is charged in full to each, as if it had been run alone.",
    )
    spent = {name: one for name in facts.methods if (one := cost_of(facts, name)) is not None}
    if not spent:
        found.blocks.append(Note("The run directory does not say what its training cost (cost.json)."))
        return found
    options = {
        unit.capitalize(): [
            _scatter(facts, spent, unit, metric, shift, words)
            for words, shift in facts.places.items()
            if shift
            for metric in facts.headline
        ]
        for unit in UNITS
    }
    found.blocks += [method_key(list(spent)), Choice("Cost in", options), _table(facts, spent)]
    return found


def cost_of(facts: RunFacts, method: str) -> Cost | None:
    """The search, where the method needs one, and all chains that were run for it."""
    assembled = facts.method(method)
    used = {f"chains/{member.origin.chain}" for member in facts.members.get(method, [])}
    if not assembled.row.single:  # chains of which no member was chosen cost as much
        planned = chains_for(assembled, facts.config.only(method).ensemble)
        used |= {f"chains/{assembled.chains}{number:02d}" for number in range(planned)}
    chains = [facts.costs[name] for name in sorted(used) if name in facts.costs]
    if not chains:
        return None
    searched = facts.costs.get("search", {}) if assembled.source.needs_search else {}
    images = sum(_with_shared(chain, "images") for chain in (*chains, searched))
    choice = facts.costs.get(f"members/{method}", {})
    training = sum(_with_shared(amounts, "seconds") for amounts in (*chains, choice))
    kept = {member.place: member.parameters for member in facts.members.get(method, [])}
    return Cost(searched.get("seconds", 0.0), len(chains), training, images, sum(kept.values()))


def _with_shared(amounts: Mapping[str, float], unit: str) -> float:
    """What a chain cost, with the exploration that another of its root had been through for it."""
    return amounts.get(unit, 0.0) + amounts.get(f"shared_{unit}", 0.0)


def _scatter(
    facts: RunFacts, spent: dict[str, Cost], unit: str, metric: str, shift: str, words: str
) -> Figure:
    rows: dict[str, Row] = {
        name: row for name in spent if (row := facts.row(name, metric, shift)) is not None
    }
    ends = [end for row in rows.values() for end in (row.value, *(row.interval or ()))]
    low, high = padded(ends)
    costs = [max(UNITS[unit](spent[name]), 1e-3) for name in rows]
    wide = max(costs) > 8 * min(costs)
    left, right = (min(costs) / 1.5, max(costs) * 1.5) if wide else (0.0, max(costs) * 1.1)
    percent = metric == "accuracy"
    frame = Frame(
        Axis(f"{unit} in search and training", left, right, _amount, log=wide),
        Axis("", low, high, (lambda v: f"{100 * v:.4g}") if percent else None),
    )
    parts = [frame.axes()]
    for (name, row), amount in zip(rows.items(), costs, strict=True):
        tip = f"{{{colour(name)}}}{name}\n{METRIC_NAMES[metric]}\t{show(metric, row.value)}"
        tip += f"\n{unit}\t{amount:,.0f}\nmembers\t{facts.sizes[name]}"
        parts.append(_point(frame, row, amount, tip))
    title = f"{METRIC_NAMES[metric]}{' in %' if percent else ''}, {words}, against cost"
    intervals = "95 % intervals · " if any(row.interval for row in rows.values()) else ""
    n = f"{direction(metric)} · {intervals}{facts.n} images"
    legend = method_legend(list(rows))
    return draw(
        f"cost-{unit.split()[0]}-{metric}-{words}", title, n, frame.figure_height, join(parts), legend
    )


def _point(frame: Frame, row: Row, amount: float, tip: str) -> Markup:
    name, x, y = row.method, frame.across(amount), frame.up(row.value)
    ends = [frame.up(end) for end in row.interval or ()]
    interval = line(x, ends[0], x, ends[1], "interval") if ends else ""
    drawn = [interval, mark(marker(name), x, y, 4.6), rect(x - 9, y - 9, 18, 18, "hit")]
    return element("g", *drawn, class_=f"{colour(name)} spot", data_method=name, data_tip=tip)


def _table(facts: RunFacts, spent: dict[str, Cost]) -> Table:
    lines = []
    for name, cost in spent.items():
        cells = [
            str(facts.sizes[name]),
            str(cost.chains),
            f"{cost.search:,.1f}",
            f"{cost.training:,.1f}",
            f"{cost.images:,.0f}",
            f"{cost.parameters:,}",
            f"{BYTES * cost.parameters / 1e6:,.1f}",
        ]
        lines.append(Line(name, [Cell(cell) for cell in cells], colour(name)))
    device = facts.environment.get("device", "an unknown device")
    header = ["Method", "Members", "Weight chains", "Search, s", "Training, s", "Images seen"]
    header += ["Parameters", "Memory, MB"]
    total = sum(amounts.get("seconds", 0.0) for amounts in facts.costs.values())
    caption = (
        f"Seconds on {device}; n = 1 run. The whole run, shared work counted once, took {total:,.0f} s. "
    )
    caption += (
        "A member is one pass in prediction. Parameters of members that are draws of one network count once."
    )
    return Table(caption, header, lines)


def _amount(value: float) -> str:
    """1,200,000 as 1.2 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            return f"{value / (1e3 if letter == ' k' else size):g}{letter}"
    return f"{value:g}"
