"""The page of a run that has not been measured yet: how far it has come, its search and its chains so far."""

import json
import time
from typing import Any

from uraenas.base.progress import in_words
from uraenas.report.blocks import Cell, Facts, Grid, Line, Note, Section, Table, Tile
from uraenas.report.page import KINDS, RunPart, finished
from uraenas.report.sections import training
from uraenas.report.sections.architecture import histories
from uraenas.report.sections.provenance import shown
from uraenas.run.directory import Run
from uraenas.run.show import summary

REFRESH = 10  # seconds until a browser looks again, while somebody works on the run


def build_partial(run: Run, command: str = "") -> str:
    """What can be told of a run without its metrics."""
    facts = summary(run.path)
    progress = facts["progress"]
    working = bool(progress and progress["working"])
    data = run.data()
    example = "image" if data is None else data.example
    sections = [_stages(facts), _search(run, example), _training(run, example), _settings(run)]
    said = f"{KINDS[example]}: {facts['dataset']} · seed {facts['seed']} · not measured yet"
    part = RunPart(run.path.resolve().name, "", said, "The run", "", _tiles(progress), sections)
    return finished(
        refresh=REFRESH if working else 0,
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
    told = time.strftime("%H:%M:%S", time.localtime(progress["time"]))
    tiles = [Tile(f"{progress['stage']}, {state}", f"{share:.0f} %", progress["found"], f"told at {told}")]
    if progress.get("speed"):
        tiles.append(Tile("Speed", f"{progress['speed']:.3g} / s", "steps, rounds or sets of this stage"))
    if "left" in progress and progress["working"]:
        tiles.append(Tile("Time left", in_words(progress["left"]), "of the whole run, where it was forecast"))
    return tiles


def _stages(facts: dict[str, Any]) -> Section:
    found = Section(
        "stages", "Stages", "How far each stage is. Metrics and their figures come with the evaluation."
    )
    lines = [Line(stage, [Cell(state, mark="words")]) for stage, state in facts["stages"].items()]
    found.blocks.append(Table("Stages of the run.", ["Stage", "State"], lines))
    if facts["cost"]:
        spent = [Line(stage, [Cell(f"{seconds:,.1f}")]) for stage, seconds in facts["cost"].items()]
        found.blocks.append(Table("Seconds so far; n = 1 run.", ["Stage", "Seconds"], spent))
    return found


def _search(run: Run, example: str) -> Section:
    found = Section("architecture", "Search", "What the search has learned so far.")
    rows = _history(run)
    if figures := histories(rows, example):
        found.blocks.append(Grid(figures))
        found.blocks.append(Note(f"Expected architecture now: {rows[-1].get('genotype', 'not known')}."))
    else:
        found.blocks.append(Note("Nothing is known of a search yet; it is written down from time to time."))
    return found


def _history(run: Run) -> list[dict[str, Any]]:
    """What the search has written to read along, as far as it can be read."""
    file = run.path / "search/history.jsonl"
    if not file.exists():
        return []
    try:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except ValueError:
        return []  # it was just being written
    return [
        row for row in rows if isinstance(row.get("entropy"), float) and isinstance(row.get("epoch"), int)
    ]


def _training(run: Run, example: str) -> Section:
    found = Section(
        "training", "Training", "The mean loss of every chain in every epoch so far, a line for each chain."
    )
    losses = run.losses()
    if figures := training.curves(losses, example):
        found.blocks.append(Grid(figures))
        lines = [
            Line(name, [Cell(str(len(own))), Cell(f"{own[-1]:.4f}")]) for name, own in losses.items() if own
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
