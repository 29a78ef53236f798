"""The few numbers at the top of the page."""

from uraenas.report.blocks import Tile
from uraenas.report.reading import RunFacts
from uraenas.report.sections.methods import shown, verdict
from uraenas.report.style import LARGER_IS_BETTER, METRIC_NAMES, show


def tiles(facts: RunFacts) -> list[Tile]:
    """The primary method's numbers, how they compare to the baseline, and who is best."""
    wanted = [(metric, shift, words) for words, shift in facts.places.items() for metric in facts.headline]
    found = []
    for metric, shift, words in wanted:
        value = facts.value(facts.primary, metric, shift)
        if value is not None:
            beneath, rank = _beneath(facts, metric, shift), _rank(facts, metric, shift)
            found.append(Tile(f"{METRIC_NAMES[metric]}, {words}", show(metric, value), beneath, rank))
    return found


def _rank(facts: RunFacts, metric: str, shift: str) -> str:
    """Who has the best value, and which place the primary method has among all."""
    values = {name: v for name in facts.methods if (v := facts.value(name, metric, shift)) is not None}
    if len(values) < 2:
        return ""
    order = sorted(values, key=values.__getitem__, reverse=metric in LARGER_IS_BETTER)
    place = 1 + sum(
        values[name] > values[facts.primary]
        if metric in LARGER_IS_BETTER
        else values[name] < values[facts.primary]
        for name in values
    )
    tied = sum(value == values[facts.primary] for value in values.values()) > 1
    best = f"best: {order[0]}, {show(metric, values[order[0]])}"
    if place == 1:
        best = "tied" if tied else "the best"
    return f"rank {place} of {len(values)} networks and ensembles; {best}"


def _beneath(facts: RunFacts, metric: str, shift: str) -> str:
    row = facts.difference(facts.primary, metric, shift)
    if row is not None:
        words = {"better": "better than", "worse": "worse than", "": "no clear difference to"}[verdict(row)]
        unit = " points" if metric == "accuracy" else ""
        return f"{shown(metric, row.value)}{unit}: {words} {row.baseline}"
    own = facts.row(facts.primary, metric, shift)
    if own is None or own.interval is None:
        return ""
    low, high = (show(metric, end) for end in own.interval)
    return f"95 %: {low} – {high}"
