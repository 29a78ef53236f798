"""How well methods tell images from elsewhere from the test images."""

from uraenas.evaluation import separations
from uraenas.evaluation.separation import LEGEND, SCORES, Separated, scores_of
from uraenas.report.blocks import Cell, Line, Note, Section, Table
from uraenas.report.reading import RunFacts
from uraenas.report.style import colour


def section(facts: RunFacts) -> Section:
    found = Section(
        "outside",
        "Images from elsewhere",
        "Images that show none of the classes should look uncertain: their score should be higher than that of the "
        "test images.",
    )
    apart = separations(facts.rows)
    if not apart:
        found.blocks.append(
            Note("Not measured: name such images with evaluate.outside, a dataset, an .npz file or a folder.")
        )
    for other in dict.fromkeys(one.other for one in apart):
        found.blocks.append(_table(facts, [one for one in apart if one.other == other]))
    return found


def _table(facts: RunFacts, apart: list[Separated]) -> Table:
    scores = scores_of(apart)
    best = {s: max(one.auroc[s] for one in apart if s in one.auroc) for s in scores}
    lines = []
    for one in apart:
        cells = [Cell(words) for words in one.shares()]
        cells += [
            Cell(one.measures(score), mark="best" if one.auroc.get(score) == best[score] else "")
            for score in scores
        ]
        lines.append(Line(one.method, cells, colour(one.method)))
    caption = f"{apart[0].other}, n = {apart[0].images:,}, against {facts.n} test images. {LEGEND}"
    headings = ["Turned away", "False alarms", *(SCORES.get(score, score) for score in scores)]
    return Table(caption, ["Method", *headings], lines)
