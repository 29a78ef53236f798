"""Whoever follows the advice of a message ends with a sound run."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from uraenas import Run, UraenasError
from uraenas.run.show import summary

BEGUN_WITH = ("run", "--preset", "tiny")
CHAIN = "chains/sampled-sghmc-00"
FILES = {  # and what looks at it
    "config.json": ("show",),
    "data.json": ("report",),
    "environment.json": ("report",),
    "cost.json": ("report",),
    "metrics.json": ("show",),
    "bootstrap.safetensors": ("report", "{run}:drnas", "--format", "md", "--against", "{run}:uraenas"),
    "search/architecture.safetensors": ("report",),
    f"{CHAIN}/state.safetensors": ("show",),
    "methods/uraenas/members/ensemble.json": ("predict", "{run}", "{run}/image.png"),
    "methods/uraenas/members/001.safetensors": ("predict", "{run}", "{run}/image.png"),
    "methods/uraenas/members/known.safetensors": ("predict", "{run}", "{run}/image.png"),
    "methods/uraenas/predictions/digits.safetensors": ("report",),
}


def require_sound(uraenas: Callable, run: Path, finished: Path) -> None:
    """All that looks at a run does, and it says what it said before."""
    opened = Run(run)
    summary(opened.path)
    assert [(row.method, row.value) for row in opened.metrics().rows] == [
        (row.method, row.value) for row in Run(finished).metrics().rows
    ]
    for method in opened.trained:
        assert opened.ensemble(method).identity == Run(finished).ensemble(method).identity
        opened.threshold(0.05, method)
    assert opened.trained == Run(finished).trained
    assert all(opened.has(opened.predictions_file(method, "digits")) for method in opened.trained)
    assert uraenas("report", run).returncode == 0


def told_of(uraenas: Callable, run: Path, name: str, content: bytes) -> str:
    """The line that whoever looks at this file of a run is told."""
    (run / name).unlink()  # a member may be the other end of a hard link
    (run / name).write_bytes(content)
    words = FILES[name]
    told = uraenas(*([words[0], run] if len(words) == 1 else [one.format(run=run) for one in words]))
    assert told.returncode == 2, told.stdout
    line = told.stderr.splitlines()[-1]
    assert str(run / name) in line or "/members/" in name
    return line


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_mended_as_told(
    uraenas: Callable, finished_run: Path, tmp_path: Path, name: str
) -> None:
    """It is cut off, or of another run; the advice is the same."""
    run = Path(shutil.copytree(finished_run, tmp_path / "my run"))  # whose path is two words
    whole = (run / name).read_bytes()
    own = Run(run).identity.encode() if name != "config.json" else b'"format": 2'
    foreign = whole.replace(own, b"0" * 32)
    if foreign == whole:  # it is known by the checksum alone that its ensemble.json has
        foreign = whole[:-8] + bytes(255 - byte for byte in whole[-8:])
    line, other = (told_of(uraenas, run, name, content) for content in (whole[:-40], foreign))
    if name == "config.json":
        for one in (line, other):
            assert "put back a copy, or begin anew in another directory (--out)" in one
        (run / name).write_bytes((finished_run / name).read_bytes())
        require_sound(uraenas, run, finished_run)
        return  # `finished_run` was begun anew in another directory
    advice = "; delete it and "
    assert line.partition(advice)[1:] == other.partition(advice)[1:]
    assert advice in line
    damaged = re.search(rf"{re.escape(str(run))}/\S+?\.(json|safetensors)", line)
    assert damaged is not None
    Path(damaged.group()).unlink()
    if command := re.search(r"run: uraenas (.*)$", line):
        followed = shlex.split(command.group(1))
    else:
        assert "repeat the `uraenas run` command that the run began with" in line
        followed = [*BEGUN_WITH, "--out", str(run)]
    done = uraenas(*followed)
    assert done.returncode == 0, done.stderr
    require_sound(uraenas, run, finished_run)


def test_what_is_missing_is_made_as_told(uraenas: Callable, finished_run: Path, tmp_path: Path) -> None:
    for missing, asked in (
        ("metrics.json", ("report", "{run}")),
        ("methods/uraenas", ("predict", "{run}", "{run}", "--method", "uraenas")),
        ("bootstrap.safetensors", ("report", "{run}", "--format", "md", "--against", "{run}:uraenas")),
    ):
        run = Path(shutil.copytree(finished_run, tmp_path / missing.replace("/", "-")))
        shutil.rmtree(run / missing) if (run / missing).is_dir() else (run / missing).unlink()
        told = uraenas(*(word.format(run=run) for word in asked))
        # A page tells how far a run has come.
        assert told.returncode == (0 if missing == "metrics.json" else 2)
        command = re.search(r"run: uraenas (.*)$", told.stderr.strip())
        assert command is not None, told.stderr
        assert uraenas(*shlex.split(command.group(1))).returncode == 0
        if missing != "metrics.json":
            assert uraenas("evaluate", run).returncode == 0
        require_sound(uraenas, run, finished_run)


def test_a_run_begins_where_it_is_told_to(uraenas: Callable, tmp_path: Path) -> None:
    told = uraenas("show", tmp_path / "nowhere at all").stderr
    command = re.search(r"start one with: uraenas (run --out .*) \(pretrained", told)
    assert command is not None
    quick = ("--methods", "random-ensemble", "--set", "data.limit=60", "--set", "evaluate.suite=none")
    done = uraenas(*shlex.split(command.group(1)), "--preset", "tiny", *quick)
    assert done.returncode == 0, done.stderr
    require_sound(uraenas, tmp_path / "nowhere at all", tmp_path / "nowhere at all")


def test_a_damaged_model_is_saved_again(finished_run: Path, tmp_path: Path) -> None:
    import numpy as np

    from uraenas import UraeNAS

    estimator = UraeNAS(device="cpu")
    estimator.classes_, estimator.ensemble_ = np.arange(10), Run(finished_run).ensemble()
    estimator.save(tmp_path / "model")
    member = next((tmp_path / "model").rglob("000.safetensors"))
    member.write_bytes(member.read_bytes()[:-40])
    with pytest.raises(UraenasError, match="save the model again"):
        UraeNAS.load(tmp_path / "model")
    estimator.save(tmp_path / "model")
    assert UraeNAS.load(tmp_path / "model").ensemble_.identity == estimator.ensemble_.identity
