"""When a method should abstain: how much it answers at a risk, and how well confidence ranks its errors."""

import statistics

from uraenas.report.blocks import Cell, Line, Note, Section, Table
from uraenas.report.compared.words import tested_on
from uraenas.report.entries import Entries, Entry
from uraenas.report.sections.reliability import RISKS, coverage_at
from uraenas.report.style import colour


def section(entries: Entries) -> Section:
    answered = {entry: _coverages(entry) for entry in entries}
    with_coverage = any(answered.values())
    lead = (
        f"A method that answers only its most confident {entries.examples} errs less. AURC is its mean error over "
        "all such shares, lower is better: it says how well confidence tells right from wrong."
    )
    if with_coverage:
        lead += (
            f" Beneath a risk stands the share of the {entries.place(False)} {entries.examples} that can be answered "
            "with at most that share of errors."
        )
    found = Section("compared-abstaining", "When should it abstain?", lead)
    lines = []
    for entry in entries:
        cells = []
        for shifted in (False, True) if entries.shifted else (False,):
            values = entry.of_runs("aurc", entry.shift(shifted))
            cells.append(_cell(values, ".4f", 1))
        if with_coverage:
            columns = zip(*answered[entry], strict=True) if answered[entry] else [[] for _ in RISKS]
            cells += [_cell(list(values), ".1f", 100, " %") for values in columns]
        lines.append(Line(entry.method, cells, colour(entry.method), entries.of_group(entry.group)))
    header = ["Method", "AURC", *(["cAURC"] if entries.shifted else [])]
    header += [f"Answered at {100 * risk:g} % risk" for risk in RISKS] if with_coverage else []
    caption = f"As predicted, {tested_on(entries)}; beneath, ± standard deviation over seeds."
    found.blocks.append(Table(caption, header, lines))
    found.blocks.append(
        Note(
            (
                f"The shares are read off the test {entries.examples}, so they are no promise."
                if with_coverage
                else "How much can be answered at a risk is left out: predictions are not in these run directories."
            )
            + f" uraenas predict RUN --risk 0.02 abstains so that at most 2\u00a0% of its answers are wrong, by a "
            f"threshold from held-out {entries.examples}, with a certainty of 95\u00a0%; a run's own section "
            "“Promises” shows how that falls out. No such promise holds under shift."
        )
    )
    return found


def _coverages(entry: Entry) -> list[list[float]]:
    """For each run, the coverage at each risk; none where predictions are missing."""
    if not all(entry.method in facts.predictions for facts in entry.runs):
        return []
    return [coverage_at(facts.mean(entry.method), facts.labels) for facts in entry.runs]


def _cell(values: list[float], form: str, factor: float, unit: str = "") -> Cell:
    if not values:
        return Cell("–")
    spread = f"± {factor * statistics.stdev(values):{form}}" if len(values) > 1 else ""
    return Cell(f"{factor * statistics.fmean(values):{form}}{unit}", spread)
