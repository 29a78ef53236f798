"""How well methods tell images from elsewhere from the test images."""

from uraenas.evaluation import separations
from uraenas.evaluation.separation import LEGEND, MEASURES, SCORES, Separated, scores_of
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
    bests = {
        (measure, score): choose(values)
        for measure, choose in (("auroc", max), ("fpr95", min))
        for score in scores
        if (values := [v for one in apart if (v := getattr(one, measure).get(score)) is not None])
    }
    lines = []
    for one in apart:
        cells = []
        for score in scores:
            for measure in MEASURES:
                value = getattr(one, measure).get(score)
                best = value is not None and value == bests[measure, score]
                cells.append(Cell("–" if value is None else f"{value:.3f}", mark="best" if best else ""))
        lines.append(Line(one.method, cells, colour(one.method)))
    caption = f"{apart[0].other}, n = {apart[0].images:,}, against {facts.n} test images. {LEGEND}"
    headings = [f"{name} {SCORES.get(score, score)}" for score in scores for name in MEASURES.values()]
    return Table(caption, ["Method", *headings], lines)
