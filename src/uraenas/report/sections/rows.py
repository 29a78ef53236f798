"""Rows of a table: which columns moved between training and test rows, and the rows it is least sure of."""

from collections.abc import Mapping

import torch
from torch import Tensor

from uraenas.base.words import as_precise
from uraenas.data.catalog import EMBEDDED
from uraenas.data.tables.reading import ENDINGS
from uraenas.evaluation import metrics, numbers
from uraenas.evaluation.drift import Moved, moved
from uraenas.report.blocks import Cell, Line, Note, Section, Table
from uraenas.report.reading import RunFacts
from uraenas.report.sections.members import parts_of
from uraenas.report.sections.reliability import missing
from uraenas.report.style import listed

SHOWN = 10
RARE = 0.05  # a p-value below it is called more than chance


def drift(facts: RunFacts) -> Section:
    found = Section(
        "drift",
        "Training and test rows",
        f"Guarantees hold for rows like those it learned from. {_whence(facts)} A number moves by its mean, in "
        "standard deviations of the training rows (sd), and in its spread, which is 1 in training; a category by the "
        "share of rows that would have to change. By chance: how far it moves on average where nothing has changed.",
    )
    if facts.inputs is None or facts.test is None:
        found.blocks.append(Note("The columns or the test rows are not at hand, so drift is left out."))
        return found
    rows = facts.test.images.reshape(len(facts.test), -1)
    columns = moved(facts.inputs, rows, _learned_from(facts))
    if not columns:
        found.blocks.append(
            Note("The run does not say how its categories were spread, so drift is left out.")
        )
        return found
    found.blocks += [Note(_said(columns)), _table(facts, columns)]
    return found


def _whence(facts: RunFacts) -> str:
    """What test rows say of drift: those that are drawn from the one file are no rows of another time or place."""
    name = str(facts.settings["data.name"])
    if facts.part == "test" and not (name in EMBEDDED or name.lower().endswith(ENDINGS)):
        return (
            "Rows drawn at random differ from training rows by chance alone; rows of another time or place may differ "
            "by more."
        )
    return (
        f"These {facts.part} rows were drawn at random from the same rows as the training rows, so this is a check "
        "that should find nothing. Rows of another time or place may differ; it finds that where they are the test "
        "rows (x_test and y_test of an .npz file)."
    )


def _learned_from(facts: RunFacts) -> int:
    """How many rows columns were learned from: all that are not for testing but for the share that is held out."""
    rows = facts.data.training_images + facts.data.held_out_images
    return max(1, round(rows * (1 - float(facts.settings["data.held_out"]))))


def _said(columns: list[Moved]) -> str:
    far = [one.name for one in columns if one.p_value < RARE]
    if not far:
        return f"No column of {len(columns)} moved by more than chance explains."
    return f"Moved by more than chance explains: {listed(far[:SHOWN])}, {len(far)} of {len(columns)}."


def _table(facts: RunFacts, columns: list[Moved]) -> Table:
    lines = [Line(one.name, _cells(one)) for one in columns[:SHOWN]]
    of = f", the {SHOWN} least likely by chance of {len(columns)}" if len(columns) > SHOWN else ""
    caption = (
        f"{facts.part.capitalize()} minus training rows, by column{of}. {facts.n} {facts.part}, "
        f"{_learned_from(facts):,} training rows. p is adjusted for the number of columns (Holm); ▼ below 0.05. "
        "Of a number with rare large values p is too small: its spread varies by more than so few rows show."
    )
    return Table(caption, ["Column", "Moved by", "By chance", "Spread", "p"], lines)


def _cells(one: Moved) -> list[Cell]:
    if one.spread is None:
        sizes = [f"{100 * value:.1f}\u00a0%" for value in (one.shift, one.by_chance)]
    else:
        sizes = [f"{one.shift:+.2f}\u00a0sd".replace("-", "−"), f"{one.by_chance:.2f}\u00a0sd"]
    spread = "–" if one.spread is None else f"{one.spread:.2f}"
    p_value = "< 0.001" if one.p_value < 0.001 else f"{one.p_value:.3f}"
    mark = "worse" if one.p_value < RARE else ""
    return [*map(Cell, (*sizes, spread)), Cell(p_value, mark=mark)]


def unsure(facts: RunFacts) -> Section:
    found = Section(
        "unsure",
        "Rows it is least sure of",
        f"The {facts.part} rows of the largest uncertainty, {facts.primary}, and the shares of its sources.",
    )
    if facts.primary not in facts.predictions or facts.test is None:
        found.blocks.append(missing("rows"))
        return found
    said = _classes if facts.classes else _numbers
    found.blocks += [table for one in facts.by_target for table in said(one)]
    return found


def _numbers(facts: RunFacts) -> list[Table]:
    members, functions = facts.predictions[facts.primary].double(), facts.functions(facts.primary)
    mean, variance = numbers.moments(members)
    split = numbers.variance_by_source(members, functions or range(len(members)))
    parts = parts_of(split, functions)
    lines = []
    for n in torch.argsort(variance, descending=True)[:SHOWN].tolist():
        values, deviation = (float(facts.labels[n]), float(mean[n])), float(variance[n]) ** 0.5
        words = [*(as_precise(value, deviation) for value in values), f"{deviation:.3g}"]
        lines.append(Line(_name(facts, n), [*map(Cell, words), *_shares(split.total, parts, n)]))
    of = f"{facts.target}: " if facts.target else ""
    caption = f"{of}As predicted, {facts.tested}. Deviation: of the prediction, in the unit of the target."
    return [Table(caption, ["Row", "Observed", "Predicted", "Deviation", *map(str.capitalize, parts)], lines)]


def _classes(facts: RunFacts) -> list[Table]:
    confidence, predicted = facts.prediction(facts.primary, "temperature").exp().max(dim=1)
    members, functions = facts.predictions[facts.primary], facts.functions(facts.primary)
    split = metrics.uncertainty_by_source(members, functions or range(len(members)))
    parts = parts_of(split, functions)
    wrong = predicted != facts.labels
    chosen = {
        f"Least sure of: the highest entropy of {facts.tested}, in nats.": split.total,
        f"Most confidently wrong about: of {int(wrong.sum()):,} wrong of {facts.n}.": torch.where(
            wrong, confidence, -1.0
        ),
    }
    tables = []
    for caption, score in chosen.items():
        order = torch.argsort(score, descending=True, stable=True)[:SHOWN].tolist()
        lines = []
        for n in (row for row in order if score[row] >= 0):
            names = [facts.classes[int(one[n])] for one in (facts.labels, predicted)]
            words = [*names, f"{float(confidence[n]):.3f}", f"{float(split.total[n]):.3f}"]
            lines.append(Line(_name(facts, n), [*map(Cell, words), *_shares(split.total, parts, n)]))
        header = ["Row", "Is", "Taken for", "Confidence", "Entropy", *map(str.capitalize, parts)]
        tables += [Table(f"{caption} Confidence is temperature-scaled.", header, lines)] if lines else []
    return tables


def _name(facts: RunFacts, n: int) -> str:
    assert facts.test is not None
    return facts.test.names[n] if facts.test.names else f"row {n + 1}"


def _shares(total_N: Tensor, parts: Mapping[str, Tensor], n: int) -> list[Cell]:
    """Of the total, by source."""
    total = max(float(total_N[n]), 1e-12)
    return [Cell(f"{max(0.0, 100 * float(part[n]) / total):.0f}\u00a0%") for part in parts.values()]
