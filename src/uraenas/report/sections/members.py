"""How far the members disagree, and where uncertainty comes from."""

import statistics
from collections.abc import Hashable, Sequence

from torch import Tensor

from uraenas.base.svg import Scale, decimals, element, join, line, mark, rect, round_ticks, text
from uraenas.evaluation import effects_of, metrics
from uraenas.report.blocks import Figure, Grid, Key, Note, Section
from uraenas.report.chart import HEAD, WIDTH, Axis, Frame, Legend, beside, draw, heat_cell, share_of
from uraenas.report.reading import RunFacts
from uraenas.report.sections.reliability import missing
from uraenas.report.sections.shift import at_severity
from uraenas.report.style import colour, count, show

MOST_MEMBERS = 40  # drawn in a matrix
SOURCES = {
    "data_uncertainty": ("data", "source-data"),
    "weight_uncertainty": ("weights", "source-weights"),
    "architecture_uncertainty": ("architecture", "source-architecture"),
}
ROW = 24


def disagreement(facts: RunFacts) -> Section:
    found = Section(
        "disagreement",
        "Disagreement of members",
        f"The share of {facts.part} {facts.examples} on which two members name different classes. An ensemble gains "
        "from members that are each good and err differently; matrices without colour mean that members are copies of "
        "one another.",
    )
    several = [name for name, log_p in facts.predictions.items() if len(log_p) > 1]
    if max(facts.sizes.values()) == 1:
        found.blocks.append(Note("Every method of this run has one member, so none can disagree."))
    elif not several:
        found.blocks.append(missing("disagreement matrices"))
    else:
        matrices = {
            name: metrics.disagreement_matrix(facts.predictions[name][:MOST_MEMBERS]) for name in several
        }
        high = max(float(matrix.max()) for matrix in matrices.values())
        found.blocks.append(Grid([_matrix(facts, name, m.tolist(), high) for name, m in matrices.items()]))
    return found


def _matrix(facts: RunFacts, method: str, matrix: list[list[float]], high: float) -> Figure:
    members, left, top = len(matrix), 26.0, HEAD + 18.0
    size = min(33.0, (WIDTH - left) / members)
    functions = facts.functions(method)
    parts = []
    every = 1 if size >= 18 else 5
    for k in range(members):
        if k % every == 0:
            place = size * (k + 0.5)
            parts.append(text(left + place, top - 6, str(k + 1), "tick", "middle"))
            parts.append(text(left - 6, top + place + 4, str(k + 1), "tick", "end"))
    for r, row in enumerate(matrix):
        for c, value in enumerate(row):
            label = f"{100 * value:.0f}" if size >= 24 and r != c else ""
            tip = f"members {r + 1} and {c + 1}\ndiffer on\t{show('accuracy', value)}"
            if len(functions) >= members and r != c:
                tip += f"\narchitectures\t{'the same' if functions[r] == functions[c] else 'different'}"
            share = share_of(value, 0.0, high)
            parts.append(heat_cell(left + size * c, top + size * r, size, size, share, label, tip))
    mean = facts.value(method, "disagreement")
    whole = facts.sizes[method]
    n = f"in % · mean {show('accuracy', mean)} · " if mean is not None else "in % · "
    n += f"{facts.n} {facts.examples}, {count(whole, 'member')}"
    n += f", the first {members}" if members < whole else ""
    return draw(
        f"disagreement-{method}",
        f"{method}: disagreement of members",
        n,
        top + size * members + 6,
        join(parts),
    )


def uncertainty(facts: RunFacts) -> Section:
    found = Section(
        "uncertainty",
        "Where uncertainty comes from",
        "Data: what every member finds ambiguous. Weights: members of one architecture differ. Architecture: "
        "architectures differ. Far from the training data the last two should grow, for they say that it does not "
        "know.",
    )
    methods = [name for name in facts.methods if facts.value(name, "total_uncertainty") is not None]
    if not methods:
        found.blocks.append(Note("The metrics of this run do not split uncertainty by source."))
        return found
    legend = [(w, c, rect(-7, -5, 14, 10, "fill")) for w, c in SOURCES.values()]
    parts = [(facts, shift, words, methods) for words, shift in facts.places.items()]
    found.blocks += [Key(legend, methods=False), Grid(_by_source(parts, legend))]
    several = [name for name in methods if facts.sizes[name] > 1]
    if facts.cells and several:
        found.blocks.append(
            Note("The same over severity: means over kinds of shift; severity 0 is the clean test set.")
        )
        found.blocks.append(Grid(_over_severity(facts, several, legend)))
    most = max(_model_part(*part) for part in parts)
    if most == 0:
        found.blocks.append(
            Note(
                "No method has members of two weight chains: nothing is due to architecture or initialisation."
            )
        )
        return found
    found.blocks.append(
        Note(
            "Is it the architecture, or only initialisation? Filled: the architecture part. Hollow: the control, "
            "the same split by weight chain, which different initialisations alone bring about. A dashed line is "
            "the control of the deep ensemble, whose members all share one architecture."
        )
    )
    effects = effects_of(facts.main_rows)
    found.blocks += [
        Note(f"{name}: on the {facts.part} {facts.examples} {effect}.") for name, effect in effects.items()
    ]
    if facts.classes and not effects and any(facts.method(name).row.source == "sampled" for name in methods):
        found.blocks.append(
            Note(
                "Too few architectures were trained twice to say what they do apart from another initialisation; "
                "train.sampled.copies=2 trains each twice."
            )
        )
    found.blocks.append(Grid([_control(*part, most) for part in parts]))
    return found


def parts_of(split: metrics.UncertaintyBySource, functions: Sequence[Hashable]) -> dict[str, Tensor]:
    """By source; what members do not agree on is one where it is not known which have one architecture."""
    if not functions:
        return {"data": split.data, "model": split.model}
    return {"data": split.data, "weights": split.weights, "architecture": split.architecture}


Part = tuple[RunFacts, str, str, list[str]]


def _by_source(parts: list[Part], legend: list) -> list[Figure]:
    most = max(f.value(m, "total_uncertainty", s) or 0.0 for f, s, _, methods in parts for m in methods)
    return [_sources(*part, most or 1.0, legend) for part in parts]


def _sources(
    facts: RunFacts, shift: str, words: str, methods: list[str], most: float, legend: list
) -> Figure:
    scale = Scale(0, most * 1.02, beside(methods), WIDTH - 16)
    parts = [_ruler(scale, len(methods), f"{facts.unit}, mean over {facts.examples}")]
    for k, name in enumerate(methods):
        y, start = HEAD + ROW * k + 4, 0.0
        values = {source: facts.value(name, source, shift) or 0.0 for source in SOURCES}
        total = facts.value(name, "total_uncertainty", shift) or 0.0
        tip = name + "".join(f"\n{{{c}}}{w}\t{values[s]:.4f}" for s, (w, c) in SOURCES.items())
        bars = []
        for source, (_, class_) in SOURCES.items():
            width = scale(start + values[source]) - scale(start)
            bars.append(element("g", rect(scale(start), y, width, ROW - 8, "fill"), class_=class_))
            start += values[source]
        label = text(scale.start - 8, y + 12, name, "tick", "end")
        hit = rect(0, y - 4, WIDTH, ROW, "hit")
        parts.append(element("g", hit, label, *bars, class_="spot", data_tip=f"{tip}\ntotal\t{total:.4f}"))
    n = _n(facts, shift)
    height = HEAD + ROW * len(methods) + 44
    return draw(f"sources-{words}", f"Uncertainty by source, {words}", n, height, join(parts), legend)


def _over_severity(facts: RunFacts, methods: list[str], legend: Legend) -> list[Figure]:
    """Columns of the three sources, one for each severity."""
    severities = [0, *facts.severities]
    values = {
        name: [
            {s: statistics.fmean(at_severity(facts, name, s, k) or [0.0]) for s in SOURCES}
            for k in severities
        ]
        for name in methods
    }
    most = max(sum(one.values()) for of_method in values.values() for one in of_method) or 1.0
    return [_columns(facts, name, severities, values[name], most, legend) for name in methods]


def _columns(
    facts: RunFacts,
    method: str,
    severities: list[int],
    values: list[dict[str, float]],
    most: float,
    legend: Legend,
) -> Figure:
    x = Axis(
        "severity", -0.5, len(severities) - 0.5, lambda k: str(severities[int(k)]), range(len(severities))
    )
    frame = Frame(x, Axis("", 0.0, 1.04 * most), height=120)
    parts = [frame.axes()]
    width = 0.62 * (frame.right - frame.left) / len(severities)
    for k, (severity, own) in enumerate(zip(severities, values, strict=True)):
        start, bars = 0.0, []
        for source, (_, class_) in SOURCES.items():
            top, bottom = frame.up(start + own[source]), frame.up(start)
            bar = rect(frame.across(k) - width / 2, top, width, bottom - top, "fill")
            bars.append(element("g", bar, class_=class_))
            start += own[source]
        tip = f"severity {severity}" + "".join(f"\n{{{c}}}{w}\t{own[s]:.4f}" for s, (w, c) in SOURCES.items())
        hit = rect(frame.across(k) - width / 2, frame.top, width, frame.height, "hit")
        parts.append(element("g", hit, *bars, class_="spot", data_tip=f"{tip}\ntotal\t{start:.4f}"))
    n = f"nats, mean of {count(len(facts.shifts), 'shift')} · {facts.n} {facts.examples} each"
    title = f"{method}: uncertainty by source"
    return draw(f"severity-sources-{method}", title, n, frame.figure_height, join(parts), legend)


def _n(facts: RunFacts, shift: str) -> str:
    cells = "" if shift == "none" else f" × {count(len(facts.cells), 'shift')}"
    return f"{facts.total} · {facts.n} {facts.examples}{cells}"


def _ruler(scale: Scale, rows: int, title: str) -> str:
    bottom = HEAD + ROW * rows + 4
    parts = []
    ticks = round_ticks(scale.low, scale.high, 4)
    for tick in ticks:
        parts.append(line(scale(tick), HEAD, scale(tick), bottom, "rule"))
        parts.append(text(scale(tick), bottom + 16, f"{tick:.{decimals(ticks)}f}", "tick", "middle"))
    return join([*parts, text(WIDTH - 4, bottom + 33, title, "label", "end")])


def _model_part(facts: RunFacts, shift: str, words: str, methods: list[str]) -> float:
    keys = ("architecture_uncertainty", "chain_uncertainty")
    return max(facts.value(name, key, shift) or 0.0 for name in methods for key in keys)


def _control(facts: RunFacts, shift: str, words: str, methods: list[str], most: float) -> Figure:
    scale = Scale(0, most * 1.05 or 1.0, beside(methods), WIDTH - 16)
    parts = [_ruler(scale, len(methods), f"{facts.unit}, mean over {facts.examples}")]
    deep = next((name for name in methods if name.startswith("deep-ensemble")), None)
    floor = None if deep is None else facts.value(deep, "chain_uncertainty", shift)
    if floor is not None:
        parts.append(line(scale(floor), HEAD, scale(floor), HEAD + ROW * len(methods) + 4, "ideal"))
    for k, name in enumerate(methods):
        y = HEAD + ROW * k + ROW / 2
        value = facts.value(name, "architecture_uncertainty", shift) or 0.0
        control = facts.value(name, "chain_uncertainty", shift) or 0.0
        tip = f"{name}\narchitecture\t{value:.4f}\nby chain (control)\t{control:.4f}"
        drawn = [
            rect(0, y - ROW / 2, WIDTH, ROW, "hit"),
            text(scale.start - 8, y + 4, name, "tick", "end"),
            line(scale(value), y, scale(control), y, "link"),
            element("circle", cx=scale(control), cy=y, r=5.5, class_="ring"),
            mark("circle", scale(value), y, 3),
        ]
        parts.append(element("g", *drawn, class_=f"{colour(name)} spot", data_tip=tip))
    height = HEAD + ROW * len(methods) + 44
    n = f"filled: architecture, hollow: chains · {facts.n}"
    n += "" if shift == "none" else f" × {count(len(facts.cells), 'shift')}"
    return draw(f"control-{words}", f"Architecture part and its control, {words}", n, height, join(parts))
