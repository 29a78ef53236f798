"""What the search learned, and the cells that were drawn from it."""

import math
import textwrap
from collections import Counter

from uraenas.architecture import ArchitectureDistribution
from uraenas.report.blocks import Cell, Figure, Grid, Key, Line, Note, Section, Table
from uraenas.report.chart import HEAD, WIDTH, Axis, Frame, Legend, draw
from uraenas.report.reading import RunFacts
from uraenas.report.style import colour, count, listed
from uraenas.run import MemberFacts
from uraenas.spaces import EDGES, OPERATIONS, Genotype
from uraenas.spaces.drawing import cell_graph, gallery, operation_class, operation_legend, operation_name
from uraenas.svg import element, join, line, padded, path, rect, text

MOST_CELLS = 30  # drawn of one method


def section(facts: RunFacts) -> Section:
    found = Section(
        "architecture",
        "Architectures",
        "The search learns, for every edge of the cell, how much to favour each operation: the larger a bar, the "
        "more often that operation is drawn. Lower entropy means the search has made up its mind.",
    )
    if facts.concentration is None:
        found.blocks.append(
            Note("No method of this run needed a search, so there is no learned distribution.")
        )
    else:
        distribution = ArchitectureDistribution(facts.concentration)
        found.blocks.append(_bar_key())
        figures = [_concentration(distribution), _expected(distribution)]
        found.blocks.append(Grid(figures + _histories(facts)))
    if given := facts.config.get("train.genotype"):
        found.blocks.append(Note(f"Methods of one architecture were given theirs: {given} (train.genotype)."))
    if any(facts.members.values()):
        found.blocks.append(
            Note(
                "The cells of all members, read from left (input) to right (output). An edge that reaches nothing "
                "is faint. Two genotypes that compute the same once such edges are pruned count as one function."
            )
        )
        found.blocks += [Key(operation_legend(), methods=False), Grid(_galleries(facts)), _diversity(facts)]
    return found


def _bar_legend() -> Legend:
    return [(operation_name(o), operation_class(o), rect(-7, -5, 14, 10, "fill")) for o in OPERATIONS]


def _bar_key() -> Key:
    return Key(_bar_legend(), methods=False)


def _concentration(distribution: ArchitectureDistribution) -> Figure:
    values = distribution.concentration.tolist()
    mixing = distribution.expected_mixing.tolist()
    expected = distribution.expected_genotype().indices
    high = max(max(row) for row in values)
    names = {e: f"{s} → {t}" for e, (s, t) in enumerate(EDGES)}
    edges = len(EDGES)
    x = Axis("edge, from node → to node", -0.5, edges - 0.5, lambda v: names[int(v)], range(edges))
    frame = Frame(x, Axis("", 0, high * 1.1))
    width = (frame.right - frame.left) / edges * 0.8 / len(OPERATIONS)
    parts = [frame.axes(), line(frame.left, frame.up(1), frame.right, frame.up(1), "ideal")]
    for e, row in enumerate(values):
        left = frame.across(e) - width * len(OPERATIONS) / 2
        for o, value in enumerate(row):
            chosen = "\nexpected operation of this edge" if o == expected[e] else ""
            name = operation_name(OPERATIONS[o])
            tip = f"{name} on {names[e]}\nconcentration\t{value:.4g}\nexpected share\t{mixing[e][o]:.3f}{chosen}"
            bar = rect(left + width * o, frame.up(value), width - 0.8, frame.bottom - frame.up(value), "fill")
            top = element(
                "circle", cx=left + width * (o + 0.5), cy=frame.up(value) - 5, r=2.2, class_="chosen"
            )
            mark = top if o == expected[e] else ""
            parts.append(
                element("g", bar, mark, class_=f"{operation_class(OPERATIONS[o])} spot", data_tip=tip)
            )
    n = f"n = {edges} edges × {len(OPERATIONS)} operations · dashed: uniform, ● largest"
    summary = "Expected genotype " + str(distribution.expected_genotype())
    return draw(
        "concentration", "Concentration per edge", n, frame.figure_height, join(parts), _bar_legend(), summary
    )


def _expected(distribution: ArchitectureDistribution) -> Figure:
    genotype = distribution.expected_genotype()
    drawn = cell_graph(genotype, 24, HEAD + 122, WIDTH - 48, labels=True)
    named = f"largest concentration per edge · {len(genotype.live_edges)} live of n = {len(EDGES)} edges"
    return draw(
        "expected", "Expected genotype", named, HEAD + 206, drawn, operation_legend(), summary=str(genotype)
    )


def _histories(facts: RunFacts) -> list[Figure]:
    rows = facts.history
    if not rows:
        return []
    highest = len(EDGES) * -math.lgamma(len(OPERATIONS))
    entropy = {"entropy": [row["entropy"] for row in rows]}
    losses = {
        words: [row[key] for row in rows]
        for key, words in (("validation_loss", "validation"), ("train_loss", "training"))
        if all(row.get(key) is not None for row in rows)
    }
    figures = [
        _history(
            facts,
            "entropy",
            "Differential entropy of the distribution",
            "nats, sum over edges",
            entropy,
            highest,
        )
    ]
    if losses:
        figures.append(_history(facts, "search-loss", "Loss of the search", "nats per image", losses))
    return figures


def _history(
    facts: RunFacts,
    id: str,
    title: str,
    unit: str,
    curves: dict[str, list[float]],
    limit: float | None = None,
) -> Figure:
    epochs = [row["epoch"] + 1 for row in facts.history]
    values = [v for curve in curves.values() for v in curve if math.isfinite(v)]
    low, high = padded(values if limit is None else [*values, limit])
    x = Axis("search epoch", epochs[0] - 0.3, epochs[-1] + 0.3, lambda v: f"{v:.0f}")
    x = Axis(x.title, x.low, x.high, x.show, _whole(epochs))
    frame = Frame(x, Axis("", low, high))
    parts = [frame.axes()]
    if limit is not None:
        parts.append(line(frame.left, frame.up(limit), frame.right, frame.up(limit), "ideal"))
    tips = [
        f"epoch {epoch}" + "".join(f"\n{name}\t{curve[k]:.4f}" for name, curve in curves.items())
        for k, epoch in enumerate(epochs)
    ]
    parts.append(frame.bands(epochs, tips))
    legend: list = []
    for k, (name, curve) in enumerate(curves.items()):
        places = [(frame.across(e), frame.up(v)) for e, v in zip(epochs, curve, strict=True)]
        class_ = "ink" if k == 0 else "ink second"
        parts.append(element("g", path(places, "line"), class_=class_))
        legend.append((name, class_, line(-9, 0, 9, 0, "line")))
    n = f"{unit} · n = {count(len(epochs), 'epoch')}"
    dashed = "uniform" if limit is not None else list(curves)[-1] if len(curves) > 1 else ""
    n += f" · dashed: {dashed}" if dashed else ""
    return draw(id, title, n, frame.figure_height, join(parts), legend if len(curves) > 1 else ())


def _whole(epochs: list[int]) -> list[int]:
    step = max(1, -(-(epochs[-1] - epochs[0]) // 6))
    return list(range(epochs[0], epochs[-1] + 1, step))


def _galleries(facts: RunFacts) -> list[Figure]:
    """One figure for each set of genotypes; methods that share theirs share the figure."""
    shared: dict[tuple[Genotype, ...], list[str]] = {}
    for name, members in facts.members.items():
        if members:
            shared.setdefault(tuple(dict.fromkeys(m.genotype for m in members)), []).append(name)
    return [_gallery(facts, genotypes, methods) for genotypes, methods in shared.items()]


def _gallery(facts: RunFacts, genotypes: tuple[Genotype, ...], methods: list[str]) -> Figure:
    members = [m for name in methods for m in facts.members[name]]
    numbers = Counter(member.genotype for member in members)
    groups = [(g, count(numbers[g], "member"), count(numbers[g], "member")) for g in genotypes[:MOST_CELLS]]
    names = textwrap.wrap(", ".join(methods), 58) if len(listed(methods)) > 42 else []
    top = HEAD + 16 * len(names)
    drawn, height = gallery(groups, top, WIDTH)
    drawn = join([text(0, HEAD + 4 + 16 * k, words, "tick") for k, words in enumerate(names)]) + drawn
    n = f"n = {count(len(members), 'member')}, {count(len(genotypes), 'distinct genotype')}"
    n += f", {count(_functions(genotypes), 'function')}"
    if len(genotypes) > MOST_CELLS:
        n += f"; the first {MOST_CELLS}"
    title = f"{len(methods)} methods with the same cells" if names else listed(methods)
    return draw(f"cells-{methods[0]}", title, n, top + height, drawn, operation_legend())


def _functions(genotypes: tuple[Genotype, ...]) -> int:
    return len({genotype.canonical.text for genotype in genotypes})


def _diversity(facts: RunFacts) -> Table:
    lines = []
    for name, members in facts.members.items():
        genotypes = tuple(dict.fromkeys(member.genotype for member in members))
        numbers = (len(members), len(_chains(members)), len(genotypes), _functions(genotypes))
        lines.append(Line(name, [Cell(str(number)) for number in numbers], colour(name)))
    header = ["Method", "Members", "Weight chains", "Distinct genotypes", "Distinct functions"]
    return Table("How different the members are.", header, lines)


def _chains(members: list[MemberFacts]) -> set[str]:
    return {member.chain for member in members}
