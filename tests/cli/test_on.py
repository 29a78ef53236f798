"""`--on`: which commands have work for workers, and what the others say."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

ON = ("--on", "processes:2")
QUERIES = {
    "data.limit": 100,
    "methods": "uraenas",
    "search.distribution": "random",
    "search.weights": "adam",
    "search.queries": 4,
    "search.query_epochs": 1,
    "engine.stack": 2,
}


def asked(out: Path, **changes: object) -> Path:
    """A run that has not begun to search."""
    Pipeline.start(out, preset("tiny", {"data.limit": 100, **changes}))
    return out


def workers(out: Path) -> set[str]:
    """Those that have done something."""
    return {item for item in Run(out).costs.read() if item.startswith("workers/")}


def test_workers_train_what_a_search_asks_for(uraenas: Callable, tmp_path: Path) -> None:
    here, there = (asked(tmp_path / name, **QUERIES) for name in ("here", "there"))
    assert uraenas("search", here).returncode == 0
    done = uraenas("search", there, *ON)
    assert done.returncode == 0, done.stderr
    assert workers(there)
    found, expected = (Run(out).searched() for out in (there, here))
    assert (found.history, found.expected) == (expected.history, expected.expected)


def test_a_search_in_a_supernet_has_nothing_for_workers(uraenas: Callable, tmp_path: Path) -> None:
    done = uraenas("search", asked(tmp_path / "run"), *ON)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "uraenas: --on processes:2: a search in a supernet is the work of one process"
    )
    assert not workers(tmp_path / "run")


@pytest.mark.parametrize("command", ["members", "distil"])
def test_workers_judge_what_a_command_makes(
    uraenas: Callable, finished_run: Path, tmp_path: Path, command: str
) -> None:
    done = uraenas(command, finished_run, "--out", tmp_path / "new", *ON)
    assert done.returncode == 0, done.stderr
    assert workers(tmp_path / "new")
    if command == "members":
        assert (tmp_path / "new/metrics.json").read_bytes() == (finished_run / "metrics.json").read_bytes()


def test_a_forecast_is_for_one_process_and_says_so(uraenas: Callable, tmp_path: Path) -> None:
    words = ("run", "--preset", "tiny", "--dry-run", "--json", "--out", tmp_path / "run")
    for more, said in (
        ((), []),
        (
            ON,
            ["times are estimated for this process alone; with --on processes:2 the run may be over sooner"],
        ),
    ):
        notes = json.loads(uraenas(*words, *more).stdout)["notes"]
        assert [note for note in notes if note.startswith("times ")] == said
