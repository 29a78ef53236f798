"""Real processes that are stopped, killed or run out of disk: the same command ends as if nothing had been."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from uraenas.run.directory import Run

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


def waiting(kind: str, out: Path, *more: str) -> subprocess.Popen:
    """A tiny run by a process that has come to this and goes no further."""
    arguments = ["run", "--preset", "tiny", "--json", "--out", str(out), *more]
    command = [sys.executable, "-c", WAITING, kind, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waiting\n"
    return process


@pytest.mark.parametrize(
    ("stage", "number", "code"), [("search", signal.SIGTERM, 143), ("chains/", signal.SIGINT, 130)]
)
def test_a_signal_leaves_a_checkpoint_and_one_line(uraenas, finished_run, tmp_path, stage, number, code):
    """No checkpoint is due for an hour, so that the one that is found was written because of the signal."""
    out = tmp_path / "stopped"
    process = waiting(stage, out, "--set", "engine.checkpoint_seconds=3600")
    process.send_signal(number)
    _, told = process.communicate()
    assert process.returncode == code
    line = f"stopped by {number.name}; {out} holds its state, and the same command goes on from there"
    assert told == f"uraenas: {line}\n"
    assert list(out.glob("search/state.safetensors" if stage == "search" else "chains/*/state.safetensors"))
    assert not list(out.rglob("*.tmp"))
    done = uraenas("train", out)
    assert done.returncode == 0, done.stderr
    for method in Run(finished_run).trained:
        assert Run(out).ensemble(method).identity == Run(finished_run).ensemble(method).identity


def test_the_directory_of_a_killed_process_can_be_taken_over(uraenas, finished_run, tmp_path):
    """Two processes on one run: the second is told who works there, and goes on with the work when that is dead."""
    out = tmp_path / "run"
    first = waiting("search", out)
    refused = uraenas("search", out)
    first.kill()
    first.communicate()
    assert refused.returncode == 2
    assert f"is in use by process {first.pid}" in refused.stderr
    done = uraenas("run", "--preset", "tiny", "--out", out)
    assert done.returncode == 0, done.stderr
    assert (out / "metrics.json").read_bytes() == (finished_run / "metrics.json").read_bytes()


FULL_DISK = """
mount -t tmpfs -o size=200k tmpfs "$1" || exit 77
cp -r "$2" "$1/run"
"$3" -m uraenas.cli run --preset tiny --json --out "$1/run" > "$2/first.out" 2> "$2/first.err"
echo $? > "$2/first.code"
mount -o remount,size=50m "$1"
"$3" -m uraenas.cli run --preset tiny --json --out "$1/run" > "$2/second.out" && cp "$1/run/metrics.json" "$2"
"""


def test_a_disk_that_fills_up_in_training_costs_nothing_but_time(finished_run, tmp_path):
    """On a file system of 200 kB, with the search done; then it is made larger."""
    disk, start = tmp_path / "disk", tmp_path / "start"
    disk.mkdir()
    shutil.copytree(finished_run / "search", start / "search")
    for name in ("config.json", "data.json"):
        shutil.copy(finished_run / name, start)
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh"]
    done = subprocess.run([*inside, disk, start, sys.executable], capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine does not allow a file system to be mounted")
    assert (start / "first.code").read_text() == "2\n"
    line = (start / "first.err").read_text()
    assert line.startswith(f"uraenas: cannot write {disk}/run/chains/")
    assert line.endswith(": No space left on device\n")
    assert line.count("\n") == 1
    assert done.returncode == 0, done.stderr
    assert (start / "metrics.json").read_bytes() == (finished_run / "metrics.json").read_bytes()


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
