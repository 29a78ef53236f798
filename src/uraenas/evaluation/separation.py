"""How well methods tell images from elsewhere, read from rows: for the command line, the report and `show`."""

from collections.abc import Iterable
from dataclasses import dataclass

from uraenas.evaluation.row import Row, sizes_of

PREFIX = "outside-"  # of the shift that such rows carry
SCORES = {  # by which an image may look foreign, and what a table calls them
    "foreign": "Joined",
    "confidence": "1 − Prob",
    "total_uncertainty": "Total",
    "model_uncertainty": "Model",
    "distance-1": "First",
    "distance-2": "Last",
    "relative": "Relative",
    "distance-3": "Pixels",
}
SHARES = "Turned away: share of these images with p ≤ 0.05; False alarms: of the test images."
TOO_FEW = "p ≥ …: so few images were held out that no p is smaller, and none can be turned away."
LEGEND = (
    f"{SHARES} By score, AUROC / FPR95: how often a foreign image has the higher one (1 tells all apart, 0.5 none) / "
    "the share of foreign images accepted where 95 % of the test images are. Scores: 1 − probability, total and "
    "model uncertainty (weights + architecture), distance to the training images at the first and at the last level of "
    "the networks and in pixels; relative: the last one's less the distance to all training images at once; joined: "
    "total uncertainty and distances, as p is made of."
)


@dataclass(frozen=True)
class Separated:
    """One method and one set of images from elsewhere: AUROC and FPR at 95 %, by score; shares at p ≤ 0.05."""

    other: str
    method: str
    images: int  # from elsewhere
    turned_away: float | None
    false_alarms: float | None
    least_p: float | None  # where so few images were held out that none has p ≤ 0.05
    auroc: dict[str, float]
    fpr95: dict[str, float]

    def shares(self) -> list[str]:
        """In words: turned away, false alarms."""
        if self.least_p is not None:
            return [f"p ≥ {self.least_p:.2g}"] * 2
        return ["–" if one is None else f"{100 * one:.1f} %" for one in (self.turned_away, self.false_alarms)]

    def measures(self, score: str) -> str:
        """In words: AUROC / FPR95."""
        return f"{self.auroc[score]:.3f} / {self.fpr95[score]:.3f}" if score in self.auroc else "–"


def separations(rows: Iterable[Row]) -> list[Separated]:
    """One for each set and method that the rows know of, in their order."""
    rows = list(rows)
    full = sizes_of(rows)
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row.shift.startswith(PREFIX) and row.members == full[row.method]:
            found.setdefault((row.shift.removeprefix(PREFIX), row.method), {})[row.metric] = row.value
    return [
        Separated(
            *place,
            int(values.get("images", 0)),
            values.get("turned_away"),
            values.get("false_alarms"),
            values.get("least_p"),
            *({k[len(m) :]: v for k, v in values.items() if k.startswith(m)} for m in ("auroc_", "fpr95_")),
        )
        for place, values in found.items()
    ]


def legend(found: Iterable[Separated], words: str) -> str:
    """These words, and what shares that are none mean."""
    return f"{words} {TOO_FEW}" if any(one.least_p is not None for one in found) else words


def scores_of(found: Iterable[Separated]) -> list[str]:
    """The scores that any of them has, known ones first."""
    present = dict.fromkeys(score for one in found for score in one.auroc)
    return list(dict.fromkeys([*filter(present.__contains__, SCORES), *present]))
