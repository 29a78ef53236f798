"""What it cost, against what it brought."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from uraenas.base.svg import element, join, line, mark, padded, path, rect
from uraenas.learning.chains import chain_numbers
from uraenas.report.blocks import Cell, Choice, Figure, Line, Note, Section, Table
from uraenas.report.chart import Axis, Frame, Legend, draw, method_key, method_legend
from uraenas.report.reading import RunFacts
from uraenas.report.style import LARGER_IS_BETTER, METRIC_NAMES, colour, direction, marker, show

BYTES = 4  # of a parameter


@dataclass(frozen=True)
class Cost:
    """What a method would have cost alone; None: the run directory does not say."""

    search: float | None  # seconds
    chains: int
    training: float | None  # seconds, of chains and of the choice of members from them
    images: float | None  # seen in search and training
    parameters: int | None  # that are kept: those of draws of one network once
    operations: int | None  # multiply-adds of one prediction

    @property
    def seconds(self) -> float | None:
        return None if self.search is None or self.training is None else self.search + self.training


UNITS: dict[str, tuple[str, Callable[[Cost], float | None]]] = {
    "seconds": ("seconds of search and training", lambda cost: cost.seconds),
    "training seconds": ("seconds of training", lambda cost: cost.training),
    "examples seen": ("examples seen in search and training", lambda cost: cost.images),
    "multiply-adds": ("multiply-adds of one prediction", lambda cost: cost.operations),
}


@dataclass(frozen=True)
class Point:
    """A method's value and what it cost, to be drawn."""

    name: str
    method: str
    value: float
    ends: tuple[float, float] | None
    amount: float
    members: int
    marker: str


def section(facts: RunFacts) -> Section:
    found = Section(
        "cost",
        "Cost and quality",
        "Cost against quality: the lower left (the upper left for accuracy) is where you want to be; dotted: the "
        "front, which nobody undercuts. Work that methods share is charged in full to each, as if it had been run "
        "alone.",
    )
    spent = {name: cost_of(facts, name) for name in facts.methods}
    units = known_units(list(spent.values()))
    if not units:
        found.blocks.append(Note("The run directory does not say what its training cost (cost.json)."))
    options = {
        unit.capitalize(): [
            scatter(
                unit,
                metric,
                words,
                _points(facts, spent, unit, metric, shift),
                f"{facts.n} {facts.examples}{clocked(unit, facts.summed)}",
            )
            for words, shift in facts.places.items()
            for metric in facts.headline
        ]
        for unit in units
    }
    if missing := without(spent, units):
        found.blocks.append(missing)
    if words := taught(facts):
        found.blocks.append(Note(words))
    if options:
        found.blocks += [method_key(list(spent)), Choice("Cost in", options)]
    if units:
        found.blocks.append(_table(facts, spent))
    return found


def clocked(unit: str, summed: str) -> str:
    """What a figure says of seconds that no clock on the wall has shown."""
    return f" · seconds {summed}" if summed and unit.endswith("seconds") else ""


def known_units(spent: Sequence[Cost]) -> list[str]:
    """Those in which some cost is known, what is known of most first; training alone where that is known of more."""
    known = {unit: sum(amount(cost) is not None for cost in spent) for unit, (_, amount) in UNITS.items()}
    if known["training seconds"] <= known["seconds"]:
        del known["training seconds"]
    return sorted((unit for unit, number in known.items() if number), key=lambda unit: -known[unit])


def without(spent: Mapping[str, Cost], units: Sequence[str]) -> Note | None:
    """Who is not in the figures, and why."""
    missing: dict[tuple[str, ...], list[str]] = {}
    for unit in units:
        words, amount = UNITS[unit]
        names = tuple(name for name, cost in spent.items() if amount(cost) is None)
        missing.setdefault(names, []).append(words)
    parts = [f"{', '.join(names)} ({', '.join(words)})" for names, words in missing.items() if names]
    if not parts:
        return None
    return Note(f"Not in the figures, as the run directory does not say what they cost: {'; '.join(parts)}.")


def taught(facts: RunFacts) -> str:
    """Who else had to be trained, where networks learned from an ensemble."""
    train = facts.config.train
    if not train.teacher:
        return ""
    whose = f"{train.teacher_method or 'the ensemble'} of {train.teacher}"
    return f"Networks learned what {whose} says in place of labels; what that cost is not in these figures."


def cost_of(facts: RunFacts, method: str) -> Cost:
    """The search, where the method needs one, and all chains that were run for it."""
    assembled = facts.method(method)
    members = facts.members.get(method, [])
    used = {f"chains/{member.origin.chain}" for member in members}
    if not assembled.row.single or not members:  # chains of which no member was chosen cost as much
        numbers = chain_numbers(assembled, facts.own_config(method).ensemble)
        used |= {f"chains/{assembled.chains}{number:02d}" for number in numbers}
    chains = [facts.costs[name] for name in sorted(used) if name in facts.costs]
    searched = facts.costs.get("search") if assembled.source.needs_search else {}
    choice = facts.costs.get(f"members/{method}", {})
    kept = {member.place: member.parameters for member in members}
    known = bool(chains) and searched is not None
    return Cost(
        None if searched is None else searched.get("seconds", 0.0),
        len(chains),
        sum(_with_shared(amounts, "seconds") for amounts in (*chains, choice)) if chains else None,
        sum(_with_shared(part, "images") for part in (*chains, searched or {})) if known else None,
        sum(kept.values()) if kept else None,
        sum(member.multiply_adds for member in members) if members else None,
    )


def _with_shared(amounts: Mapping[str, float], unit: str) -> float:
    """What a chain cost, with the exploration that another of its root had been through for it."""
    return amounts.get(unit, 0.0) + amounts.get(f"shared_{unit}", 0.0)


def _points(facts: RunFacts, spent: Mapping[str, Cost], unit: str, metric: str, shift: str) -> list[Point]:
    found = []
    for name, cost in spent.items():
        row, amount = facts.row(name, metric, shift), UNITS[unit][1](cost)
        if row is not None and amount is not None:
            sizes = facts.sizes[name]
            found.append(Point(name, name, row.value, row.interval, amount, sizes, marker(name)))
    return found


def scatter(
    unit: str, metric: str, words: str, points: Sequence[Point], n: str, id: str = "cost", legend: Legend = ()
) -> Figure:
    """Cost to the right, quality upwards, and the front of those that none undercuts."""
    values = [end for one in points for end in (one.value, *(one.ends or ()))]
    low, high = padded(values or [0.0, 1.0], metric == "accuracy")
    costs = [max(one.amount, 1e-3) for one in points] or [1.0]
    wide = max(costs) > 8 * min(costs)
    left, right = (min(costs) / 1.5, max(costs) * 1.5) if wide else (0.0, max(costs) * 1.1)
    percent = metric == "accuracy"
    frame = Frame(
        Axis(UNITS[unit][0], left, right, _amount, log=wide),
        Axis("", low, high, (lambda v: f"{100 * v:.4g}") if percent else None),
    )
    parts = [frame.axes(), _front(frame, points, metric in LARGER_IS_BETTER)]
    parts += [_point(frame, one, unit, metric) for one in points]
    title = f"{METRIC_NAMES[metric]}{' in %' if percent else ''}, {words}, against {unit}"
    intervals = "95 % intervals · " if any(one.ends for one in points) else ""
    legend = [*(legend or method_legend([one.name for one in points])), FRONT]
    named = f"{id}-{unit.split()[0]}-{metric}-{words}"
    return draw(
        named, title, f"{direction(metric)} · {intervals}{n}", frame.figure_height, join(parts), legend
    )


def _front(frame: Frame, points: Sequence[Point], larger: bool) -> Markup:
    """A stair through the points that are better than all that cost less."""
    places: list[tuple[float, float]] = []
    best: float | None = None
    for one in sorted(points, key=lambda p: (p.amount, -p.value if larger else p.value)):
        if best is None or (one.value > best if larger else one.value < best):
            x, y = frame.across(max(one.amount, 1e-3)), frame.up(one.value)
            places += [(x, places[-1][1]), (x, y)] if places else [(x, y)]
            best = one.value
    return path([*places, (frame.right, places[-1][1])], "front") if places else Markup("")


def _point(frame: Frame, one: Point, unit: str, metric: str) -> Markup:
    x, y = frame.across(max(one.amount, 1e-3)), frame.up(one.value)
    tip = f"{{{colour(one.method)}}}{one.name}\n{METRIC_NAMES[metric]}\t{show(metric, one.value)}"
    if one.ends:
        tip += f"\ninterval\t{show(metric, one.ends[0])} – {show(metric, one.ends[1])}"
    amount = f"{one.amount:,.1f}" if unit.endswith("seconds") else f"{one.amount:,.0f}"
    tip += f"\n{unit}\t{amount}\nmembers\t{one.members}"
    ends = [frame.up(end) for end in one.ends or ()]
    interval = line(x, ends[0], x, ends[1], "interval") if ends else ""
    drawn = [interval, mark(one.marker, x, y, 4.6), rect(x - 9, y - 9, 18, 18, "hit")]
    return element("g", *drawn, class_=f"{colour(one.method)} spot", data_method=one.method, data_tip=tip)


FRONT = ("the front", "", line(-9, 0, 9, 0, "front"))
HEADER: tuple[str, ...] = ("Weight chains", "Search, s", "Training, s", "Examples seen")
HEADER += ("Parameters", "Memory, MB", "Multiply-adds of a prediction")


def cells_of(cost: Cost) -> list[Cell]:
    """Under HEADER; what is not known is a dash."""
    size = None if cost.parameters is None else BYTES * cost.parameters / 1e6
    seconds = [_known(one, ",.1f") for one in (cost.search, cost.training)]
    numbers = [_known(cost.images, ",.0f"), _known(cost.parameters, ","), _known(size, ",.1f")]
    operations = "–" if cost.operations is None else _amount(float(f"{cost.operations:.3g}"))
    return [Cell(words) for words in (str(cost.chains or "–"), *seconds, *numbers, operations)]


def _known(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def _table(facts: RunFacts, spent: Mapping[str, Cost]) -> Table:
    lines = [
        Line(name, [Cell(str(facts.sizes[name])), *cells_of(cost)], colour(name))
        for name, cost in spent.items()
    ]
    device = facts.environment.get("device", "an unknown device")
    own = [amounts for item, amounts in facts.costs.items() if not item.startswith("workers/")]
    total = sum(amounts.get("seconds", 0.0) for amounts in own)  # what workers did is booked as chains', too
    took = "computed for" if facts.summed else "took"
    caption = (
        f"Seconds on {device}{facts.summed and f', {facts.summed}'}; n = 1 run. The whole run, shared work counted "
        f"once, {took} {total:,.1f} s. "
        "A member is one pass in prediction. Parameters of members that are draws of one network count once. "
        "–: the run directory does not say."
    )
    return known_columns(Table(caption, ["Method", "Members", *HEADER], lines))


def known_columns(table: Table) -> Table:
    """Without columns that hold nothing but dashes."""
    kept = [k for k in range(len(table.header) - 1) if any(line.cells[k].text != "–" for line in table.lines)]
    header = [table.header[0], *(table.header[k + 1] for k in kept)]
    lines = [replace(line, cells=[line.cells[k] for k in kept]) for line in table.lines]
    return Table(table.caption, header, lines)


def _amount(value: float) -> str:
    """1,200,000 as 1.2 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            return f"{value / (1e3 if letter == ' k' else size):g}{letter}"
    return f"{value:,g}"
