"""A run is looked at while it works, from elsewhere: by `show`, by `show --follow` and by a partial page."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from short_runs import FEW, stopped_in_training

from uraenas.cli.following import watched
from uraenas.report import build_partial
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.progress import Telling, progress_of
from uraenas.run.show import runs_in, summary


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was seen of a run at work: at the end of its training, when its losses were last written."""
    out = tmp_path_factory.mktemp("live") / "run"
    seen: dict[str, Any] = {"out": out}

    def look(stage: str, done: float, total: float, left: float | None = None, found: str = "") -> None:
        seen.setdefault("stages", []).append((stage, progress_of(out)))
        if stage == "search" and done == total:
            seen["searching"] = watched(Run(out))
        if stage == "train" and done == total and "summary" not in seen:
            seen.update(summary=summary(out), page=build_partial(Run(out)), found=found)
            seen["followed"] = build_partial(Run(out), again=True)

    changes = {**FEW, "methods": "uraenas", "train.epochs": 4, "engine.checkpoint_seconds": 0}
    pipeline = Pipeline.start(out, preset("tiny", changes), look)
    with pipeline.run.held():
        pipeline.train(pipeline.search())
        seen.update(during=progress_of(out), training=watched(Run(out)))
    return seen


def test_a_run_at_work_tells_stage_loss_and_speed(looks: dict[str, Any]) -> None:
    told = [facts for stage, facts in looks["stages"] if facts is not None and facts["stage"] == stage]
    assert {facts["stage"] for facts in told} >= {"search", "train"}
    assert all(facts["working"] for facts in told)
    assert looks["summary"]["progress"]["stage"] == "train"
    assert re.match(r"4 of 4 epochs, mean loss \d\.\d+ of 2 chains", looks["found"])
    assert looks["during"]["stage"] == "members"
    assert progress_of(looks["out"]) is None, "nobody works there any more"


def test_a_terminal_shows_its_losses_and_what_the_search_has_learned(looks: dict[str, Any]) -> None:
    loss, entropy, *decisions = looks["searching"]
    assert (loss.split()[-1], entropy.split()[-1], len(decisions)) == ("search", "entropy", 6)
    assert re.fullmatch(r"  █+ +\d\d% \w+ at 0 → 1", decisions[0])
    (chains,) = looks["training"]
    assert re.fullmatch(r"  █[▁-█]{2}▁ +\d\.\d+ → \d\.\d+  sampled-sghmc, 2 of 2 trained", chains)
    assert all(len(line) <= 80 for line in (*looks["searching"], chains))


def test_its_page_can_be_made_and_looks_again_where_it_is_made_again(looks: dict[str, Any]) -> None:
    assert 'data-refresh="' not in looks["page"]
    assert f"uraenas report {looks['out']} --follow" in looks["page"]
    assert 'data-refresh="10"' in looks["followed"]
    assert "--follow" not in looks["followed"]
    assert 'data-name="loss-sampled-sghmc"' in looks["page"]
    losses = Run(looks["out"]).losses()
    assert {len(own) for own in losses.values()} == {4}
    over = build_partial(Run(looks["out"]))
    assert 'data-refresh="' not in over
    assert "--follow" not in over


def test_speed_and_time_left_of_a_stage_are_counted(tmp_path: Path) -> None:
    class Directory:
        exists = True

        def __init__(self) -> None:
            self.told: list[dict[str, Any]] = []

        def tell_progress(self, facts: dict[str, Any]) -> None:
            self.told.append(facts)

    now = [0.0]
    run = Directory()
    telling = Telling(run, lambda *_: None, lambda: now[0])  # type: ignore[arg-type]
    for second, done in ((0, 10), (1, 20), (4, 50), (5, 60)):
        now[0] = second
        telling("train", done, 110)
    assert [facts["done"] for facts in run.told] == [10, 50], "not more often than every two seconds"
    assert (run.told[1]["speed"], run.told[1]["left"]) == (10, 6)


def test_one_that_was_killed_says_where_it_stopped(
    looks: dict[str, Any], uraenas: Callable, own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"stage": "train", "done": 30, "total": 40, "seconds": 3.0, "left": 12.0, "found": ""}
    Run(own_run).tell_progress(facts)
    assert "running: train 75 %, 12 s left" in uraenas("show", own_run).stdout
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    monkeypatch.setattr("os.getpid", lambda: gone.pid)
    Run(own_run).tell_progress(facts)
    shown = uraenas("show", own_run).stdout
    assert "at train 75 %; the same command goes on from there" in shown
    assert uraenas("show", own_run, "--follow").stdout.splitlines()[0] == shown.splitlines()[0]


def test_one_that_was_interrupted_says_where_and_when_and_not_that_it_is_over(
    uraenas: Callable, tmp_path: Path
) -> None:
    """Also while the process that worked there lives on, as in a notebook."""
    out = tmp_path / "runs" / "run"
    few = [word for key, value in FEW.items() for word in ("--set", f"{key}={value}")]
    command = ("run", "--preset", "tiny", *few, "--out", out)
    with stopped_in_training():
        assert uraenas(*command).returncode == 130
    facts = summary(out)
    assert facts["progress"]["working"] is False
    assert facts["dates"]["last"] == facts["progress"]["time"] > facts["dates"]["begun"]
    said = " ".join(uraenas("show", out).stdout.split())  # the path above may take a line more
    last = f"{datetime.fromtimestamp(facts['progress']['time']):%Y-%m-%d %H:%M}"
    assert f"last worked on {last}" in said
    assert f"stopped {last}, at train" in said
    assert " so far: " in said
    assert "searched, stopped at train" in " ".join(uraenas("show", out.parent).stdout.split())
    assert "train, stopped" in build_partial(Run(out))
    assert uraenas(*command).returncode == 0
    shown = uraenas("show", out).stdout
    assert "stopped" not in shown
    assert "so far" not in shown


def test_show_needs_no_torch_and_eighty_columns(finished_run: Path) -> None:
    program = """
import os, sys
os.environ["COLUMNS"] = "80"
from uraenas.cli import main
sys.argv = ["uraenas", "show", sys.argv[1]]
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program, finished_run], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 24
    for words in ("begun 20", "took ", "training", "evaluate  done", "cNLL", "2 members of 2 chains"):
        assert words in done.stdout
    row = next(
        row for row in Run(finished_run).metrics().rows if (row.method, row.metric) == ("uraenas", "nll")
    )
    (line,) = [line for line in lines if line.split()[:2] == ["uraenas", "2"] and "chains" not in line]
    assert f"{row.value:.3f}" in line or row.members < 2


def test_a_directory_of_runs_is_listed(finished_run: Path, uraenas: Callable) -> None:
    assert list(runs_in(finished_run.parent)) == [finished_run]
    shown = uraenas("show", finished_run.parent).stdout
    assert shown.splitlines()[0].split()[:2] == ["Run", "Data"]
    assert shown.splitlines()[1].split()[:3] == [finished_run.name, "digits", "0"]
    assert "reported" in shown
    told = json.loads(uraenas("show", finished_run.parent, "--json").stdout)
    assert told[finished_run.name]["stages"]["evaluate"] == "done"


def test_a_stored_run_is_not_said_to_lack_training(own_run: Path, uraenas: Callable) -> None:
    import shutil

    for folder in ("methods", "chains", "search"):
        shutil.rmtree(own_run / folder)
    stages = json.loads(uraenas("show", own_run, "--json").stdout)["stages"]
    assert stages["search"] == "done; not kept here"
    assert stages["train"] == "3 of 3 methods; members are not kept here"
