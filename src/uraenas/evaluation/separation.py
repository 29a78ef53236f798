"""How well methods tell images from elsewhere, read from rows: for the command line, the report and `show`."""

from collections.abc import Iterable
from dataclasses import dataclass

from uraenas.evaluation.row import Row, sizes_of

PREFIX = "outside-"  # of the shift that such rows carry
MEASURES = {"auroc": "AUROC", "fpr95": "FPR95"}
SCORES = {  # by which an image may look foreign, and what a table calls them
    "confidence": "1 − Prob",
    "total_uncertainty": "Total",
    "model_uncertainty": "Model",
}
LEGEND = (
    "AUROC: 1 tells all apart, 0.5 none. FPR95: share of foreign images accepted where 95 % of the test images are. "
    "Scores: 1 − probability, total and model uncertainty (weights + architecture)."
)


@dataclass(frozen=True)
class Separated:
    """One method and one set of images from elsewhere: AUROC and FPR at 95 %, by score."""

    other: str
    method: str
    images: int  # from elsewhere
    auroc: dict[str, float]
    fpr95: dict[str, float]


def separations(rows: Iterable[Row]) -> list[Separated]:
    """One for each set and method that the rows know of, in their order."""
    rows = list(rows)
    full = sizes_of(rows)
    found: dict[tuple[str, str], Separated] = {}
    for row in rows:
        if not row.shift.startswith(PREFIX) or row.members != full[row.method]:
            continue
        place = (row.shift.removeprefix(PREFIX), row.method)
        one = found.setdefault(place, Separated(*place, 0, {}, {}))
        measure, _, score = row.metric.partition("_")
        if row.metric == "images":
            found[place] = Separated(*place, int(row.value), one.auroc, one.fpr95)
        elif measure in MEASURES:
            getattr(one, measure)[score] = row.value
    return list(found.values())


def scores_of(found: Iterable[Separated]) -> list[str]:
    """The scores that any of them has, known ones first."""
    present = dict.fromkeys(score for one in found for score in one.auroc)
    return list(dict.fromkeys([*filter(present.__contains__, SCORES), *present]))
