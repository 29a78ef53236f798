"""When a method should abstain: how much it answers at a risk, and how well confidence ranks its errors."""

import math
import statistics
from collections.abc import Sequence

from uraenas.ensemble.threshold import Threshold
from uraenas.report.blocks import Cell, Line, Note, Section, Table
from uraenas.report.compared.words import tested_on
from uraenas.report.entries import Entries, Entry
from uraenas.report.reading import RunFacts
from uraenas.report.sections.guarantees import answers, threshold_of
from uraenas.report.sections.reliability import RISKS, coverage_at
from uraenas.report.style import colour, listed

Range = tuple[float, float]


def section(entries: Entries) -> Section:
    found = Section(
        "compared-abstaining",
        "When should it abstain?",
        f"A method that answers only its most confident {entries.examples} errs less. Beneath a risk stands the share "
        f"of the {entries.place(False)} {entries.examples} that can be answered with at most that share of errors; the "
        "larger the better. AURC is the mean error over all shares, lower is better: it says how well confidence tells "
        "right from wrong.",
    )
    lines = []
    for entry in entries:
        cells = list(
            map(_answered, zip(*(_coverages(facts, entry.method) for facts in entry.runs), strict=True))
        )
        for shifted in (False, True) if entries.shifted else (False,):
            cells.append(_area(entry.of_runs("aurc", entry.shift(shifted))))
        lines.append(Line(entry.method, cells, colour(entry.method), entries.of_group(entry.group)))
    header = ["Method", *(f"Answered at {100 * risk:g} % risk" for risk in RISKS)]
    header += ["AURC", *(["cAURC"] if entries.shifted else [])]
    caption = f"As predicted, {tested_on(entries)}"
    caption += "; beneath, ± standard deviation over seeds." if entries.folded else "."
    notes = [_no_guarantee(entries)]
    if any(" – " in cell.text for line in lines for cell in line.cells):
        caption += " A range is all that accuracy and AURC leave open where predictions are not at hand."
    if lacking := _lacking(entries):
        what_to_do = (
            "uraenas evaluate RUN, where the run's members are, keeps predictions; made again, this page then has "
            "shares in place of ranges."
        )
        notes.insert(0, Note(f"Without predictions or their test set: {listed(lacking)}. {what_to_do}"))
    found.blocks += [Table(caption, header, lines), *_thresholds(entries), *notes]
    return found


def _thresholds(entries: Entries) -> list[Table]:
    """From which confidence to answer, where held-out images say so, and what comes of it."""
    lines = []
    for entry in entries:
        if all(facts.part == "test" and entry.method in facts.held_out for facts in entry.runs):
            cells = [_threshold(entry, risk) for risk in RISKS]
            lines.append(Line(entry.method, cells, colour(entry.method), entries.of_group(entry.group)))
    if not lines:
        return []
    seeds = ", of several seeds from the lowest to the highest: each run has its own, under “Guarantees”"
    caption = (
        "From which confidence to answer: temperature-scaled, as uraenas predict tells it, chosen on held-out "
        f"{entries.examples}{seeds if entries.folded else ''}; beneath, the share of "
        f"{tested_on(entries)} that is answered then, and of these wrong."
    )
    if any("≈" in cell.text for line in lines for cell in line.cells):
        caption += " ≈: an estimate, as too few are held out to guarantee so small a risk."
    return [Table(caption, ["Method", *(f"For {100 * risk:g} % risk" for risk in RISKS)], lines)]


def _threshold(entry: Entry, risk: float) -> Cell:
    found = [threshold_of(facts, entry.method, risk) for facts in entry.runs]
    ends = [_confidence(one) for one in sorted(found, key=lambda one: one.confidence)]
    words = ends[0] if ends[0] == ends[-1] else f"{ends[0]} – {ends[-1]}"
    words = words if all(one.certainty for one in found) else f"≈ {words}"
    if not all(entry.method in facts.predictions for facts in entry.runs):
        return Cell(words)
    of_runs = zip(entry.runs, found, strict=True)
    counts = [(facts.measured, *answers(facts, entry.method, one)) for facts, one in of_runs]
    tested, answered, wrong = map(sum, zip(*counts, strict=True))
    share = f", {100 * wrong / answered:.1f} % wrong" if answered else ""
    return Cell(words, f"{100 * answered / tested:.1f} %{share}")


def _confidence(threshold: Threshold) -> str:
    if not threshold.passing:
        return "never"
    return f"{threshold.confidence:.3f}" if threshold.confidence else "always"


def _no_guarantee(entries: Entries) -> Note:
    return Note(
        f"The shares at a risk are read off the {entries.runs[0].part} {entries.examples}, so they are no guarantee. "
        "uraenas predict RUN --risk 0.02 abstains so that at most 2\u00a0% of its answers are wrong, by a threshold "
        f"from held-out {entries.examples}, with a certainty of 95\u00a0% where there are enough of them (for 2\u00a0% "
        "at least 149 apart); a run's own section “Guarantees” shows how that falls out. "
        "No such guarantee holds under shift."
    )


def _lacking(entries: Entries) -> list[str]:
    """Runs of which shares are not known."""
    return [
        label
        for label, facts in zip(entries.labels, entries.runs, strict=True)
        if any(method not in facts.predictions for method in facts.methods)
    ]


def _coverages(facts: RunFacts, method: str) -> Sequence[Range | None]:
    """At each of RISKS, between which shares the coverage lies: one and the same where predictions are at hand."""
    if method in facts.predictions:
        return [(share, share) for share in coverage_at(facts.risks[method])]
    accuracy, area = facts.value(method, "accuracy"), facts.value(method, "aurc")
    if accuracy is None or area is None:
        return [None for _ in RISKS]
    return [coverage_between(accuracy, area, risk) for risk in RISKS]


def coverage_between(accuracy: float, area: float, risk: float) -> Range:
    """Which coverages c at a risk r an accuracy a and an AURC leave open.

    No more than a share a is right, so the error at c is at least 1 − a / c, and at most r only where
    c ≤ a / (1 − r) = u. Above the largest c it is more than r, so
    AURC ≥ (u − c) r + ∫ᵤ¹ (1 − a / x) dx = (u − c) r + 1 − u + a ln u.
    """
    if 1 - accuracy <= risk:
        return 1.0, 1.0
    most = accuracy / (1 - risk)
    beyond = 1 - most + accuracy * math.log(most) if most > 0 else 0.0
    return min(most, max(0.0, most - (area - beyond) / risk)), most


def _answered(ranges: Sequence[Range | None]) -> Cell:
    """The mean over seeds."""
    known = [one for one in ranges if one is not None]
    if not known or len(known) < len(ranges):
        return Cell("–")
    lows, highs = zip(*known, strict=True)
    low, high = (f"{100 * statistics.fmean(ends):.1f}" for ends in (lows, highs))
    if low != high:
        return Cell(f"{low} – {high} %")
    return Cell(f"{low} %", f"± {100 * statistics.stdev(lows):.1f}" if len(lows) > 1 else "")


def _area(values: list[float]) -> Cell:
    if not values:
        return Cell("–")
    spread = f"± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return Cell(f"{statistics.fmean(values):.4f}", spread)
