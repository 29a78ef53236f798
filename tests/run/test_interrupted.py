"""Runs that are stopped, killed or run out of disk: the same command ends as if nothing had been."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from short_runs import stopped_in_training

from uraenas.base.errors import UraenasError
from uraenas.run.checkpoints import Checkpoints
from uraenas.run.directory import Run
from uraenas.run.location import PROGRESS
from uraenas.run.places.leases import issue
from uraenas.run.tensorboard import watch_of

# `uraenas` that stays where it is once something of this kind is booked: in the midst of a stage, after an epoch.
WAITING = """
import sys, time
from uraenas.cli import main
from uraenas.run.cost import Costs

add, kind = Costs.add, sys.argv.pop(1)

def add_and_wait(costs, items):
    add(costs, items)
    if any(item.startswith(kind) for item in items):
        print("waiting", flush=True)
        while True:
            time.sleep(0.01)

Costs.add = add_and_wait
main()
"""


# How `short_run` was made.
RUN = ("run", "--preset", "tiny", "--set", "data.limit=100", "--set", "evaluate.suite=none")


def waiting(kind: str, out: Path, *more: str) -> subprocess.Popen:
    """A tiny run by a process that has come to this and goes no further."""
    arguments = [*RUN, "--json", "--out", str(out), *more]
    command = [sys.executable, "-c", WAITING, kind, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waiting\n"
    return process


def stopped_process(uraenas: Callable, out: Path, *more: str) -> tuple[int, str]:
    """By another process, in its search: the exit code, and what was told. Until then nobody else may work there."""
    process = waiting("search", out, *more)
    refused = uraenas("search", out)
    assert refused.returncode == 2
    assert f"is in use by process {process.pid}" in refused.stderr
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate()
    return process.returncode, told


def stopped_here(uraenas: Callable, out: Path, *more: str) -> tuple[int, str]:
    """In this process, which signals to itself after the first epoch of a chain."""
    with stopped_in_training():
        done = uraenas(*RUN, "--json", "--out", out, *more)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("stop", "name", "code", "state"),
    [
        (stopped_process, "SIGTERM", 143, "search/state.safetensors"),
        (stopped_here, "SIGINT", 130, "chains/*/state.safetensors"),
    ],
)
def test_a_signal_leaves_a_checkpoint_and_one_line(uraenas, short_run, tmp_path, stop, name, code, state):
    """No checkpoint is due for an hour, so that the one that is found was written because of the signal."""
    out = tmp_path / "stopped"
    found, told = stop(uraenas, out, "--set", "engine.checkpoint_seconds=3600")
    assert found == code
    line = f"stopped by {name}; {out} holds its state, and the same command goes on from there"
    assert told == f"uraenas: {line}\n"
    assert list(out.glob(state))
    assert not list(out.rglob("*.tmp"))
    done = uraenas("train", out)
    assert done.returncode == 0, done.stderr
    assert Run(out).trained == Run(short_run).trained != []
    for method in Run(short_run).trained:
        assert Run(out).ensemble(method).identity == Run(short_run).ensemble(method).identity


def test_a_search_that_is_cut_off_after_its_last_epoch_goes_on(uraenas, short_run, tmp_path, monkeypatch):
    """When its last checkpoint is written, and what it found is not."""
    out = tmp_path / "run"

    def cut_off(*facts: Any, **more: Any) -> None:
        monkeypatch.undo()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Run, "write_searched", cut_off)
    done = uraenas(*RUN, "--json", "--out", out, "--set", "engine.checkpoint_seconds=0")
    assert done.returncode == 130, done.stderr
    assert (out / "search" / "state.safetensors").exists()
    again = uraenas(*RUN, "--json", "--out", out)
    assert again.returncode == 0, again.stderr
    assert (out / "metrics.json").read_bytes() == (short_run / "metrics.json").read_bytes()


FULL_DISK = """
disk="$1"; start="$2"; shift 2
mount -t tmpfs -o size=200k tmpfs "$disk" || exit 77
cp -r "$start" "$disk/run"
exec "$@"
"""

# The same command twice, on a disk that is made larger between.
TWICE = """
import contextlib, subprocess, sys
from pathlib import Path
from uraenas.cli import main

disk, start = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
for number in ("first", "second"):
    with (start / f"{number}.err").open("w") as errors, contextlib.redirect_stderr(errors):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
    (start / f"{number}.code").write_text(str(code))
    subprocess.run(["mount", "-o", "remount,size=50m", "tmpfs", disk], check=True)
(start / "metrics.json").write_bytes((disk / "run" / "metrics.json").read_bytes())
"""


def test_a_disk_that_fills_up_in_training_costs_nothing_but_time(short_run, tmp_path):
    """On a file system of 200 kB, with the search done; then it is made larger."""
    disk, start = tmp_path / "disk", tmp_path / "start"
    disk.mkdir()
    shutil.copytree(short_run / "search", start / "search")
    for name in ("config.json", "data.json"):
        shutil.copy(short_run / name, start)
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh"]
    command = [sys.executable, "-c", TWICE, disk, start, *RUN, "--json", "--out", disk / "run"]
    done = subprocess.run([*inside, disk, start, *command], capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine does not allow a file system to be mounted")
    assert done.returncode == 0, done.stderr
    assert [(start / f"{number}.code").read_text() for number in ("first", "second")] == ["2", "0"]
    line = (start / "first.err").read_text()
    assert line.startswith(f"uraenas: cannot write {disk}/run/chains/")
    assert line.endswith(": No space left on device\n")
    assert line.count("\n") == 1
    assert (start / "metrics.json").read_bytes() == (short_run / "metrics.json").read_bytes()


@pytest.mark.parametrize("anew", [False, True])
def test_a_run_that_is_moved_while_it_is_worked_in_ends_at_once_and_goes_on_where_it_is(
    short_run, tmp_path, monkeypatch, uraenas, anew
):
    """Nothing is written where it was, not even where another run has begun there."""
    out, moved, save = tmp_path / "run", tmp_path / "moved", Checkpoints.store_chain

    def moved_after_a_checkpoint(*facts: Any, **more: Any) -> None:
        save(*facts, **more)
        monkeypatch.undo()
        out.rename(moved)
        if anew:
            out.mkdir()
            (out / "lock").touch()

    monkeypatch.setattr(Checkpoints, "store_chain", moved_after_a_checkpoint)
    done = uraenas(*RUN, "--json", "--out", out)
    assert done.returncode == 2
    assert done.stderr.startswith(f"uraenas: {out} was moved or removed while it was worked in")
    assert sorted(tmp_path.rglob("run/*")) == ([out / "lock"] if anew else [])
    again = uraenas(*RUN, "--json", "--out", moved)
    assert again.returncode == 0, again.stderr
    assert (moved / "metrics.json").read_bytes() == (short_run / "metrics.json").read_bytes()


def test_who_holds_a_run_that_is_moved_leaves_another_in_its_place_alone(own_run, tmp_path):
    """Neither members nor files are taken away there, event files and leases are not begun, and its progress stays."""
    run = Run(own_run)
    method = run.config().methods[0]
    ensemble, watch = run.ensemble(method), watch_of(run, (), wanted=True)
    with run.held():
        shutil.copytree(own_run, tmp_path / "another")
        own_run.rename(tmp_path / "moved")
        (tmp_path / "another").rename(own_run)
        (own_run / PROGRESS).write_text("another's")
        before = {file: file.stat().st_mtime_ns for file in own_run.rglob("*")}
        for attempt in (
            lambda: run.adopt(method, ensemble),
            lambda: run.remove("config.json"),
            lambda: watch("search", [{"epoch": 0}]),
            lambda: issue(run, ["chains/0"], "worker-1"),
        ):
            with pytest.raises(UraenasError, match="was moved or removed while it was worked in"):
                attempt()
    assert {file: file.stat().st_mtime_ns for file in own_run.rglob("*")} == before


def test_a_run_in_use_is_left_alone(uraenas, own_run):
    """Not even its settings are written."""
    before = (own_run / "config.json").read_bytes()
    with Run(own_run).held():
        refused = [
            uraenas("search", own_run),
            uraenas("run", "--preset", "tiny", "--methods", "drnas", "--out", own_run),
        ]
    for done in refused:
        assert done.returncode == 2
        assert f"process {os.getpid()}" in done.stderr
    assert (own_run / "config.json").read_bytes() == before
