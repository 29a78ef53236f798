"""Several runs side by side: what readers ask of them, each a section."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uraenas.report.blocks import Cell, Line, Note, Section, Table
from uraenas.report.compared import abstaining, overview, spending, where
from uraenas.report.compared.words import keys, references_aside
from uraenas.report.entries import Entries, Entry
from uraenas.report.picked import differing, only_in_some
from uraenas.report.reading import RunFacts
from uraenas.report.sections.provenance import shown
from uraenas.report.sections.size import Curve, curves


def comparison(runs: Sequence[RunFacts], against: str, paper: bool) -> list[Section]:
    """What the runs have in common and what not; their own sections follow."""
    entries = Entries(runs)
    wanted = against or runs[0].config.evaluate.baseline
    baseline = _baseline(entries, wanted)
    found = [overview.section(entries, baseline, wanted, paper)]
    if entries.shifted and entries.compete(shifted=True):
        found.append(where.section(entries, baseline))
    if entries.competing:
        found.append(_sizes(entries))
    found.append(spending.section(entries))
    if all(facts.classes for facts in runs):
        found.append(abstaining.section(entries))
    return [*found, _settings(entries)]


def _baseline(entries: Entries, wanted: str) -> Entry | None:
    """The line that others are held against, METHOD or RUN:METHOD, if it is there."""
    if not entries.competing:
        return None
    path, _, method = wanted.rpartition(":")
    for entry in entries:
        paths = [facts.run.path.resolve() for facts in entry.runs]
        if entry.method == method and (not path or Path(path).resolve() in paths):
            return entry
    return None


def _sizes(entries: Entries) -> Section:
    found = Section(
        "compared-size",
        "Ensemble size",
        "What another member brings, in every run. Values below the full size are means over random subsets of the "
        "members; bands, where a line is one run and they were kept, are one standard deviation over them: a curve "
        "without one is no surer. Colour is the method, shape the run, or the seeds that a line is the mean of."
        f"{references_aside(entries)}",
    )
    methods = [entry for entry in entries if entry.method in entry.runs[0].methods]
    lines = [Curve(entry.runs, entry.method, entries.names[entry], entry.group) for entry in methods]
    found.blocks += [*keys(entries, methods), *curves(lines, "runs-size", entries.compete(shifted=True))[-1:]]
    return found


def _settings(entries: Entries) -> Section:
    found = Section(
        "compared-settings",
        "What was set differently",
        "Where runs differ in more than one of these, a difference between them may come from any.",
    )
    lines = [
        Line(key, [_setting(value) for value in values]) for key, values in differing(entries.runs).items()
    ]
    learned = [facts.data.training_images for facts in entries.runs]
    if len(set(learned)) > 1:
        lines.append(Line(f"training {entries.examples}", [Cell(f"{number:,}") for number in learned]))
    if lines:
        found.blocks.append(Table("Settings that differ.", ["Setting", *entries.labels], lines))
    else:
        found.blocks.append(Note("What runs have in common is set alike."))
    if some := _only_in_some(entries):
        found.blocks.append(some)
    return found


def _setting(value: Any) -> Cell:
    if value is None:
        return Cell("not used")
    several = isinstance(value, list | tuple)
    return Cell(", ".join(map(shown, value)), mark="words") if several else Cell(shown(value))


def _only_in_some(entries: Entries) -> Table | None:
    """What a run cannot set differently, as none of its methods uses it; by the runs that have it."""
    of_runs: dict[str, list[str]] = {}
    for key, values in only_in_some(entries.runs).items():
        having = [name for name, value in zip(entries.labels, values, strict=True) if value is not None]
        value = next(value for value in values if value is not None)
        of_runs.setdefault(", ".join(having), []).append(f"{key}\u00a0{shown(value)}")
    lines = [Line(runs, [Cell(", ".join(found), mark="words")]) for runs, found in of_runs.items()]
    caption = "Settings of methods that only some runs have: these follow from the choice of methods."
    return Table(caption, ["Runs that use them", "Settings"], lines) if lines else None
