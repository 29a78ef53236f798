"""The few numbers at the top of the page."""

from dataclasses import dataclass

from uraenas.report.reading import RunFacts
from uraenas.report.sections.methods import shown, verdict
from uraenas.report.style import METRIC_NAMES, show


@dataclass(frozen=True)
class Tile:
    """One number of the primary method, and how it compares."""

    title: str
    value: str
    beneath: str


def tiles(facts: RunFacts) -> list[Tile]:
    wanted = [(metric, shift, words) for words, shift in facts.places.items() for metric in facts.headline]
    found = []
    for metric, shift, words in wanted:
        value = facts.value(facts.primary, metric, shift or "")
        if value is not None:
            beneath = _beneath(facts, metric, shift or "")
            found.append(Tile(f"{METRIC_NAMES[metric]}, {words}", show(metric, value), beneath))
    return found


def _beneath(facts: RunFacts, metric: str, shift: str) -> str:
    for row in facts.differences:
        key = (row.method, row.baseline, row.metric, row.shift, row.calibration)
        if key == (facts.primary, facts.baseline, metric, shift, "raw"):
            words = {"better": "better than", "worse": "worse than", "": "no clear difference to"}[
                verdict(row)
            ]
            unit = " points" if metric == "accuracy" else ""
            return f"{shown(metric, row.value)}{unit}: {words} {row.baseline}"
    own = facts.row(facts.primary, metric, shift)
    if own is None or own.interval is None:
        return ""
    low, high = (show(metric, end) for end in own.interval)
    return f"95 %: {low} – {high}"
