"""What the search learned, and the architectures that were drawn from it."""

import itertools
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from uraenas.architectures import DISTRIBUTIONS, Searched
from uraenas.base.svg import element, join, line, padded, path, text
from uraenas.ensemble import MemberFacts
from uraenas.learning.loops import LOOPS
from uraenas.report.blocks import Block, Cell, Figure, Grid, Key, Line, Note, Section, Table
from uraenas.report.chart import HEAD, WIDTH, Axis, Frame, draw
from uraenas.report.reading import RunFacts
from uraenas.report.sections import options
from uraenas.report.style import colour, count, listed
from uraenas.spaces import Architecture
from uraenas.spaces.pictures import gallery

MOST_CELLS = 30  # drawn of one method
MOST_CHANGES = 12  # of the expected architecture

Row = Mapping[str, Any]  # of a search's history


def section(facts: RunFacts) -> Section:
    found = Section(
        "architecture",
        "Architectures",
        "The search learns, for every decision, how much to favour each option. In a cell, a decision is an edge and "
        "its options are operations. Lower entropy means the search has made up its mind.",
    )
    if facts.searched is None:
        found.blocks.append(
            Note("No method of this run needed a search, so there is no learned distribution.")
        )
    else:
        name = facts.settings.get("search.distribution", "")
        found.blocks += learned(facts.searched, name, facts.data.example)
    if given := facts.settings.get("train.expected.genotype"):
        found.blocks.append(
            Note(f"Methods of one architecture were given theirs: {given} (train.expected.genotype).")
        )
    if members := [member for of_method in facts.members.values() for member in of_method]:
        found.blocks.append(
            Note(
                "The architectures of all members, cells read from left (input) to right (output). An edge that "
                "reaches nothing is faint. Two that compute the same once such edges are pruned count as one function."
            )
        )
        legend = members[0].space.legend()
        found.blocks += [Key(legend, methods=False), Grid(_galleries(facts)), _diversity(facts)]
    return found


def learned(searched: Searched, name: str, example: str) -> list[Block]:
    """The distribution of this name as it is now, what stands for it, and how it came about."""
    about = f"{name}: {DISTRIBUTIONS[name].about} " if name in DISTRIBUTIONS else ""
    unit = LOOPS[searched.distribution.loop].settings.made.unit
    untouched = Searched.nothing(searched.space, searched.distribution)
    highest = searched.distribution.facts(untouched.state)["entropy"]
    figures = [*options.figures(searched), _expected(searched)]
    blocks: list[Block] = [
        Key(options.legend_of(searched.space), methods=False),
        Note(f"{about}{searched.distribution.bars} Expected architecture: {searched.expected}."),
        Grid(figures + _histories(searched.history, unit, example, highest)),
    ]
    changes = _changes(searched.history, unit)
    return blocks if changes is None else [*blocks, changes]


def _expected(searched: Searched) -> Figure:
    space, architecture = searched.space, searched.expected
    drawn = space.draw(architecture, 24, HEAD + 122, WIDTH - 48, labels=True)
    n = f"stands for the distribution · n = {len(space.decisions)} decisions"
    summary = str(architecture)
    return draw("expected", "Expected architecture", n, HEAD + 226, drawn, space.legend(), summary)


def _histories(rows: Sequence[Row], unit: str, example: str, highest: float) -> list[Figure]:
    """Entropy, losses and accuracies of a search over time; `highest` is the entropy at its beginning."""
    if not rows:
        return []
    entropy = {"entropy": [row["entropy"] for row in rows]}
    losses = {
        words: [row[key] for row in rows]
        for key, words in (("validation_loss", "validation"), ("train_loss", "training"))
        if all(row.get(key) is not None for row in rows)
    }
    when = unit, [_done(row, unit) for row in rows]
    title = "Entropy of the distribution"
    figures = [_history(*when, "entropy", title, "nats, sum over decisions", entropy, highest)]
    if losses:
        figures.append(_history(*when, "search-loss", "Loss of the search", f"nats per {example}", losses))
    accuracies = {
        words: [row[key] for row in rows]
        for key, words in (("best", "best"), ("accuracy", "mean of the round"))
        if all(row.get(key) is not None for row in rows)
    }
    if accuracies:
        title = "Accuracy of the networks asked for"
        figures.append(_history(*when, "search-accuracy", title, "share", accuracies))
    return figures


def _done(row: Row, unit: str) -> int:
    """How many epochs or queries a row of the history comes after; a round of queries has one row."""
    return row.get(unit, row["epoch"] + 1)


def _counted(number: int, unit: str) -> str:
    """`1 epoch`, `20 queries`."""
    return count(number, unit[:-3] + "y" if unit.endswith("ies") else unit[:-1])


def _changes(history: Sequence[Row], unit: str) -> Table | None:
    """The expected architecture over time."""
    rows = [row for row in history if isinstance(row.get("genotype"), str)]
    new = [row for k, row in enumerate(rows) if k == 0 or row["genotype"] != rows[k - 1]["genotype"]]
    if not new:
        return None
    lines = []
    for row in new[-MOST_CHANGES:]:
        entropy = f"{row['entropy']:.3f}".replace("-", "−")
        lines.append(Line(f"{_done(row, unit):,}", [Cell(row["genotype"]), Cell(entropy)]))
    older = f"; the last {MOST_CHANGES} are shown" if len(new) > MOST_CHANGES else ""
    often = f"{count(len(new) - 1, 'change')} in {_counted(_done(rows[-1], unit), unit)}"
    words = f"The expected architecture over time: {often}{older}."
    return Table(words, [f"{unit.capitalize()} done", "Expected architecture", "Entropy"], lines)


def _history(
    unit: str,
    done: list[int],
    id: str,
    title: str,
    measured_in: str,
    curves: dict[str, list[float]],
    limit: float | None = None,
) -> Figure:
    values = [v for curve in curves.values() for v in curve if math.isfinite(v)]
    low, high = padded(values if limit is None else [*values, limit])
    apart = 0.3 * min((after - before for before, after in itertools.pairwise(done)), default=1)
    x = Axis(f"{unit} of the search", done[0] - apart, done[-1] + apart, lambda v: f"{v:.0f}", _whole(done))
    frame = Frame(x, Axis("", low, high))
    parts = [frame.axes()]
    if limit is not None:
        parts.append(line(frame.left, frame.up(limit), frame.right, frame.up(limit), "ideal"))
    tips = [
        f"after {_counted(number, unit)}"
        + "".join(f"\n{name}\t{curve[k]:.4f}" for name, curve in curves.items())
        for k, number in enumerate(done)
    ]
    parts.append(frame.bands(done, tips))
    legend: list = []
    for k, (name, curve) in enumerate(curves.items()):
        places = [(frame.across(x), frame.up(y)) for x, y in zip(done, curve, strict=True)]
        class_ = "ink" if k == 0 else "ink second"
        parts.append(element("g", path(places, "line"), class_=class_))
        legend.append((name, class_, line(-9, 0, 9, 0, "line")))
    n = f"{measured_in} · n = {_counted(done[-1], unit)}"
    dashed = "uniform" if limit is not None else list(curves)[-1] if len(curves) > 1 else ""
    n += f" · dashed: {dashed}" if dashed else ""
    return draw(id, title, n, frame.figure_height, join(parts), legend if len(curves) > 1 else ())


def _whole(done: list[int]) -> list[int]:
    step = max(1, -(-(done[-1] - done[0]) // 6))
    return list(range(done[0], done[-1] + 1, step))


def _galleries(facts: RunFacts) -> list[Figure]:
    """One figure for each set of architectures; methods that share theirs share the figure."""
    shared: dict[tuple[Architecture, ...], list[str]] = {}
    for name, members in facts.members.items():
        if members:
            shared.setdefault(tuple(dict.fromkeys(m.architecture for m in members)), []).append(name)
    return [_gallery(facts, distinct, methods) for distinct, methods in shared.items()]


def _gallery(facts: RunFacts, distinct: tuple[Architecture, ...], methods: list[str]) -> Figure:
    members = [m for name in methods for m in facts.members[name]]
    numbers = Counter(member.architecture for member in members)
    groups = [(a, count(numbers[a], "member"), count(numbers[a], "member")) for a in distinct[:MOST_CELLS]]
    names = textwrap.wrap(", ".join(methods), 50) if len(listed(methods)) > 38 else []
    top = HEAD + 16 * len(names)
    space = members[0].space
    drawn, height = gallery(space, groups, top, WIDTH)
    drawn = join([text(0, HEAD + 4 + 16 * k, words, "tick") for k, words in enumerate(names)]) + drawn
    n = f"n = {count(len(members), 'member')}, {count(len(distinct), 'distinct architecture')}"
    n += f", {count(_functions(members), 'function')}"
    if len(distinct) > MOST_CELLS:
        n += f"; the first {MOST_CELLS}"
    title = f"{len(methods)} methods with the same cells" if names else f"{listed(methods)}: architectures"
    return draw(f"cells-{methods[0]}", title, n, top + height, drawn, space.legend())


def _functions(members: list[MemberFacts]) -> int:
    return len({member.function for member in members})


def _diversity(facts: RunFacts) -> Table:
    lines = []
    for name, members in facts.members.items():
        chains = {member.origin.chain for member in members}
        distinct = {member.architecture for member in members}
        numbers = (len(members), len(chains), len(distinct), _functions(members))
        lines.append(Line(name, [Cell(str(number)) for number in numbers], colour(name)))
    header = ["Method", "Members", "Weight chains", "Distinct architectures", "Distinct functions"]
    return Table("How different the members are.", header, lines)
