"""What all tests share: one thread, the command line in this process, and runs that are made once."""

import contextlib
import io
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

# The suite runs on two cores with two workers; more threads would only wait for each other. Processes inherit this.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

torch.set_num_threads(1)


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


@pytest.fixture(scope="session")
def uraenas() -> Callable[..., Finished]:
    """`uraenas("run", "--preset", "tiny", …)`."""
    return call_uraenas


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the preset `tiny`, all stages done. To be looked at; `own_run` is a copy to be changed."""
    out = tmp_path_factory.mktemp("finished") / "run"
    done = call_uraenas("run", "--preset", "tiny", "--out", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def own_run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished_run, tmp_path / "run"))
