"""The page of a run that has not been measured yet: how far it has come, its search and its chains so far."""

import time
from typing import Any

from uraenas.base.progress import in_words
from uraenas.report.blocks import Cell, Facts, Grid, Line, Note, Section, Table, Tile
from uraenas.report.page import KINDS, RunPart, finished
from uraenas.report.sections import training
from uraenas.report.sections.architecture import learned
from uraenas.report.sections.provenance import shown
from uraenas.run.directory import Run
from uraenas.run.show import summary
from uraenas.run.watching import chains_through, searched_so_far

REFRESH = 10  # seconds until a page that is made again and again is read again

ONCE = "The run goes on, and this page stays as it is. One that follows the run until it is over:"


def build_partial(run: Run, command: str = "", again: bool = False) -> str:
    """What can be told of a run without its metrics; a page that is made `again` and again is read so, too."""
    facts = summary(run.path)
    progress = facts["progress"]
    data = run.data()
    example = "image" if data is None else data.example
    sections = [_stages(run, facts, again), _search(run, example), _training(run, example), _settings(run)]
    said = f"{KINDS[example]}: {facts['dataset']} · seed {facts['seed']} · not measured yet"
    tiles = [*_tiles(progress), _members(run, facts["members"])]
    part = RunPart(run.path.resolve().name, "", said, "The run", "", tiles, sections)
    return finished(
        refresh=REFRESH if again else 0,
        title=f"uraenas · {part.name}",
        heading=part.name,
        parts=[part],
        compared=None,
        runs=part.name,
        command=command,
    )


def _tiles(progress: dict[str, Any] | None) -> list[Tile]:
    if progress is None:
        return [Tile("State", "at rest", "nobody works on it; the same command goes on from here")]
    share = 100 * progress["done"] / progress["total"] if progress["total"] else 100.0
    state = "running" if progress["working"] else "stopped"
    form = "told at %H:%M:%S" if progress["working"] else "on %Y-%m-%d at %H:%M"
    told = time.strftime(form, time.localtime(progress["time"]))
    tiles = [Tile(f"{progress['stage']}, {state}", f"{share:.0f} %", progress["found"], told)]
    if progress.get("speed") and progress["working"]:
        tiles.append(Tile("Speed", f"{progress['speed']:.3g} / s", "steps, rounds or sets of this stage"))
    if "left" in progress and progress["working"]:
        tiles.append(Tile("Time left", in_words(progress["left"]), "of the whole run, where it was forecast"))
    return tiles


def _members(run: Run, members: dict[str, list[Any]]) -> Tile:
    """How many there are, and how many chains are on the way to more."""
    through, begun = chains_through(run)
    each = ", ".join(f"{method} {len(own)}" for method, own in members.items())
    number = sum(map(len, members.values()))
    return Tile("Members", str(number), each or "none yet", f"{through} of {begun} chains are trained")


def _stages(run: Run, facts: dict[str, Any], again: bool) -> Section:
    found = Section(
        "stages", "Stages", "How far each stage is. Metrics and their figures come with the evaluation."
    )
    if facts["progress"] and facts["progress"]["working"] and not again:
        found.blocks.append(Note(f"{ONCE} uraenas report {run.quoted} --follow"))
    lines = [Line(stage, [Cell(state, mark="words")]) for stage, state in facts["stages"].items()]
    found.blocks.append(Table("Stages of the run.", ["Stage", "State"], lines))
    if facts["cost"]:
        spent = [Line(stage, [Cell(f"{seconds:,.1f}")]) for stage, seconds in facts["cost"].items()]
        summed = f", summed over {facts['workers']} workers" if facts["workers"] > 1 else ""
        found.blocks.append(Table(f"Seconds so far{summed}; n = 1 run.", ["Stage", "Seconds"], spent))
    return found


def _search(run: Run, example: str) -> Section:
    found = Section("architecture", "Search", "What the search has learned so far.")
    if (searched := searched_so_far(run)) is not None:
        found.blocks += learned(searched, run.config().values["search.distribution"], example)
    elif run.config().search is None:
        found.blocks.append(Note("No method of this run needs a search."))
    else:
        found.blocks.append(Note("Nothing is known of the search yet; it is written down from time to time."))
    return found


def _training(run: Run, example: str) -> Section:
    found = Section(
        "training", "Training", "The mean loss of every chain in every epoch so far, a line for each chain."
    )
    losses, epochs = run.losses(), run.config().train.epochs
    if figures := training.curves(losses, example):
        found.blocks.append(Grid(figures))
        lines = [
            Line(name, [Cell(f"{len(own)} of {epochs}"), Cell(f"{own[-1]:.4f}")])
            for name, own in losses.items()
            if own
        ]
        found.blocks.append(Table("Chains so far.", ["Chain", "Epochs", "Last loss"], lines))
    else:
        found.blocks.append(Note("No chain has come to its first checkpoint yet."))
    return found


def _settings(run: Run) -> Section:
    found = Section("settings", "Settings", "All that is needed to make this run again.")
    config = run.config()
    found.blocks.append(Facts("Of this run", {key: shown(value) for key, value in config.values.items()}))
    return found
