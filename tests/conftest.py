"""What all tests share: one thread, the command line in this process, and runs that are made once."""

import atexit
import contextlib
import fcntl
import gc
import io
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from made_up_tables import make_runs

# The suite runs on two cores with two workers; more threads would only wait for each other. Processes inherit this.
os.environ["OMP_NUM_THREADS"] = "1"

# Beside hypothesis, Triton's bindings end a process with fifty lines on leaks of theirs. Registered first, called last.
atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))


@dataclass(frozen=True)
class Finished:
    """What a command left behind, as `subprocess.CompletedProcess` has it."""

    returncode: int
    stdout: str
    stderr: str


def call_uraenas(*arguments: str | Path) -> Finished:
    """The command line in this process: the same words, exit codes and files, without the seconds of a start."""
    from uraenas.cli import main

    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    sys.argv = ["uraenas", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            main()
            code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        sys.argv = before[0]
        signal.signal(signal.SIGINT, before[1])
        signal.signal(signal.SIGTERM, before[2])
    return Finished(code, out.getvalue(), err.getvalue())


def pytest_collection_finish() -> None:
    """Thousands of tests and the modules they use stay to the end: nobody need look through them for garbage."""
    # Its import looks for what refers to generators, and finds nothing frozen.
    if "hypothesis" in sys.modules:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _disk_is_not_awaited() -> Iterator[None]:
    """Runs flush hundreds of files, and no test cuts the power; tests/base/test_files.py says that they are flushed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which finds a wrong file, too
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`made_once(name, make)` → a folder as `make` fills it: made by the first worker that asks, copied by others."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own  # workers' folders are side by side

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        made, done = shared / f"{name}-made", shared / f"{name}-is-made"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be at it
            if not done.exists():
                shutil.rmtree(made, ignore_errors=True)
                make(made)
                done.touch()
        return Path(shutil.copytree(made, tmp_path_factory.mktemp(name) / "run"))

    return folder


@pytest.fixture(scope="session")
def uraenas() -> Callable[..., Finished]:
    """`uraenas("run", "--preset", "tiny", …)`."""
    return call_uraenas


@pytest.fixture(scope="session")
def finished_run(made_once: Callable[..., Path]) -> Path:
    """A run of the preset `tiny`, all stages done. To be looked at; `own_run` is a copy to be changed."""

    def make(out: Path) -> None:
        done = call_uraenas("run", "--preset", "tiny", "--out", out)
        assert done.returncode == 0, done.stderr

    return made_once("finished", make)


@pytest.fixture(scope="session")
def short_run(made_once: Callable[..., Path]) -> Path:
    """The same with few images and no shifts, for those who make it again."""

    def make(out: Path) -> None:
        few = ("--set", "data.limit=100", "--set", "evaluate.suite=none")
        done = call_uraenas("run", "--preset", "tiny", *few, "--out", out)
        assert done.returncode == 0, done.stderr

    return made_once("short", make)


@pytest.fixture(scope="session")
def table_runs(made_once: Callable[..., Path]) -> dict[str, Path]:
    """A run on a table for each kind of target: `numbers`, `classes` and `several`."""
    made = made_once("tables", lambda out: make_runs(out, call_uraenas))
    return {kind: made / kind for kind in ("numbers", "classes", "several")}


@pytest.fixture
def own_run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished_run, tmp_path / "run"))
