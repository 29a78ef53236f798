"""Which classes are told apart, and what each is taken for."""

import torch
from torch import Tensor

from uraenas.base.svg import join, text
from uraenas.report.blocks import Cell, Figure, Grid, Line, Section, Table
from uraenas.report.chart import HEAD, LETTER, WIDTH, draw, heat_cell
from uraenas.report.reading import RunFacts
from uraenas.report.sections.reliability import missing
from uraenas.report.style import shortened, show

SHOWN = 20  # classes, those with the most errors first
NAMED = 3  # other classes that one is most often taken for


def section(facts: RunFacts) -> Section:
    found = Section(
        "classes",
        "Classes",
        f"Which classes does {facts.primary} confuse? A class with few {facts.part} {facts.examples} says little; two "
        "classes that are taken for each other may be one to the eye.",
    )
    if facts.primary not in facts.predictions:
        found.blocks.append(missing("classes"))
        return found
    counts_KK = confusion(facts.prediction(facts.primary), facts.labels, len(facts.classes))
    errors_K = counts_KK.sum(dim=1) - counts_KK.diagonal()
    order = torch.argsort(errors_K, descending=True, stable=True)[:SHOWN].tolist()
    confidence_N, named_N = facts.prediction(facts.primary).max(dim=1)
    confidence_K = torch.zeros(len(facts.classes), dtype=torch.float64)
    confidence_K.index_add_(0, named_N, confidence_N.exp().double())
    lines = [_line(facts.classes, counts_KK, confidence_K, k) for k in order]
    if len(facts.classes) <= SHOWN:
        found.blocks.append(Grid([_matrix(facts, counts_KK)]))
    of = f", the {SHOWN} of {len(facts.classes)} with the most errors" if len(facts.classes) > SHOWN else ""
    caption = (
        f"{facts.part.capitalize()} {facts.examples} by class, {facts.primary}{of}. {facts.tested}. The last three "
        f"columns are of the {facts.examples} that are named so: how many, how often that is right, and the mean "
        "confidence, as predicted, minus that: above zero it is overconfident in this class."
    )
    header = [
        "Class",
        facts.examples.capitalize(),
        "Accuracy",
        "Most often taken for",
        "Named",
        "Right when named",
        "Confidence − right",
    ]
    found.blocks.append(Table(caption, header, lines))
    return found


def confusion(log_probabilities_NK: Tensor, labels_N: Tensor, classes: int) -> Tensor:
    """How many images of class k (row) are taken for class j (column) [K, K]."""
    pairs = labels_N * classes + log_probabilities_NK.argmax(dim=1)
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


def _line(classes: tuple[str, ...], counts_KK: Tensor, confidence_K: Tensor, k: int) -> Line:
    row = counts_KK[k]
    images, right = int(row.sum()), int(row[k])
    others = [(int(row[j]), j) for j in range(len(classes)) if j != k and row[j] > 0]
    most = sorted(others, key=lambda one: (-one[0], one[1]))[:NAMED]
    taken_for = ", ".join(f"{classes[j]} ({count:,})" for count, j in most) or "–"
    accuracy = Cell(show("accuracy", right / images), f"{right:,} right") if images else Cell("–")
    cells = [Cell(f"{images:,}"), accuracy, Cell(taken_for)]
    named = int(counts_KK[:, k].sum())
    if not named:
        return Line(classes[k], [*cells, Cell("0"), Cell("–"), Cell("–")])
    gap = float(confidence_K[k]) / named - right / named
    shown = f"{gap:+.3f}".replace("-", "−")
    return Line(classes[k], [*cells, Cell(f"{named:,}"), Cell(show("accuracy", right / named)), Cell(shown)])


def _matrix(facts: RunFacts, counts_KK: Tensor) -> Figure:
    """Each row's images by the class they are taken for, in percent of the row."""
    heads, names = list(facts.classes), list(facts.classes)
    if LETTER * max(map(len, heads)) * len(heads) > WIDTH - 60:  # columns are too narrow for names
        heads = [str(k + 1) for k in range(len(names))]
        names = [f"{head} {shortened(name, 12)}" for head, name in zip(heads, names, strict=True)]
    left, top = 12 + LETTER * max(map(len, names)), HEAD + 18.0
    size = (WIDTH - left) / len(names)
    height = min(size, 26.0)
    parts = []
    for k, (head, name) in enumerate(zip(heads, names, strict=True)):
        parts.append(text(left + size * (k + 0.5), top - 6, head, "tick", "middle"))
        parts.append(text(left - 6, top + height * (k + 0.5) + 4, name, "tick", "end"))
    for r, row in enumerate(counts_KK.tolist()):
        images = max(1, sum(row))
        for c, number in enumerate(row):
            share = number / images
            tip = f"{facts.classes[r]}\ntaken for {facts.classes[c]}\t{number:,}"
            tip += f"\nof its {facts.examples}\t{100 * share:.1f} %"
            label = f"{100 * share:.0f}" if size >= 20 and number else ""
            parts.append(heat_cell(left + size * c, top + height * r, size, height, share**0.5, label, tip))
    n = f"in % of the true class, at the left · above: taken for · {facts.n} {facts.examples}"
    return draw(
        "confusion", f"Confusion matrix, {facts.primary}", n, top + height * len(names) + 6, join(parts)
    )
