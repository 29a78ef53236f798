"""Which classes are told apart, and what each is taken for."""

import torch
from torch import Tensor

from uraenas.report.blocks import Cell, Line, Section, Table
from uraenas.report.reading import RunFacts
from uraenas.report.sections.reliability import missing
from uraenas.report.style import show

SHOWN = 20  # classes, those with the most errors first
NAMED = 3  # other classes that one is most often taken for


def section(facts: RunFacts) -> Section:
    found = Section(
        "classes",
        "Classes",
        f"Which classes does {facts.primary} confuse? A class with few test images says little; two classes that are "
        "taken for each other may be one to the eye.",
    )
    if facts.primary not in facts.predictions:
        found.blocks.append(missing("classes"))
        return found
    counts_KK = confusion(facts.mean(facts.primary), facts.labels, len(facts.classes))
    errors_K = counts_KK.sum(dim=1) - counts_KK.diagonal()
    order = torch.argsort(errors_K, descending=True, stable=True)[:SHOWN].tolist()
    lines = [_line(facts.classes, counts_KK, k) for k in order]
    of = f", the {SHOWN} of {len(facts.classes)} with the most errors" if len(facts.classes) > SHOWN else ""
    caption = f"Test images by class, {facts.primary}, clean{of}. {facts.n} test images."
    found.blocks.append(Table(caption, ["Class", "Images", "Accuracy", "Most often taken for"], lines))
    return found


def confusion(log_probabilities_NK: Tensor, labels_N: Tensor, classes: int) -> Tensor:
    """How many images of class k (row) are taken for class j (column) [K, K]."""
    pairs = labels_N * classes + log_probabilities_NK.argmax(dim=1)
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


def _line(classes: tuple[str, ...], counts_KK: Tensor, k: int) -> Line:
    row = counts_KK[k]
    images, right = int(row.sum()), int(row[k])
    others = [(int(row[j]), j) for j in range(len(classes)) if j != k and row[j] > 0]
    named = sorted(others, key=lambda one: (-one[0], one[1]))[:NAMED]
    taken_for = ", ".join(f"{classes[j]} ({count:,})" for count, j in named) or "–"
    accuracy = Cell(show("accuracy", right / images), f"{right:,} right") if images else Cell("–")
    return Line(classes[k], [Cell(f"{images:,}"), accuracy, Cell(taken_for)])
