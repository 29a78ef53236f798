"""Parts from outside the package: where they are known, and what is said where they are not."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from uraenas import Run, UraenasError
from uraenas.base.errors import UnknownName
from uraenas.base.parts import Part, given
from uraenas.learning.methods import METHODS, Method, method
from uraenas.run.places.own_parts import import_own_parts, modules_of_own_parts
from uraenas.weights import WEIGHTS, Point

PARTS = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uraenas.base.parts import Part
from uraenas.data import EMBEDDED, Dataset, LabelledImages
from uraenas.learning.methods import METHODS, Method
from uraenas.weights import WEIGHTS, Point


def stripes(table):
    numbers = np.random.default_rng(0)

    def part(count):
        labels = np.arange(count) % 2
        images = numbers.integers(0, 100, (count, 8, 8, 1))
        images[labels == 0, ::2] += 100
        return LabelledImages(images.astype(np.uint8), labels)

    return Dataset("stripes", part(60), part(20), ("rows", "noise"), flip=False, padding=0)


@dataclass(frozen=True)
class Slow(Point):
    """Small steps."""

    step_size: float = 0.01
    section: ClassVar[str] = "slow"

    @property
    def trajectory(self):
        return "slow"


EMBEDDED["stripes"] = stripes
WEIGHTS["slow"] = Part(Slow)
METHODS["slow-ensemble"] = Method("uniform", "slow")
'''
CALL = "from uraenas.cli import main\n\nif __name__ == '__main__':\n    main()\n"
RUN = (
    "run",
    "--preset",
    "tiny",
    "--set",
    "data.name=stripes",
    "--set",
    "evaluate.suite=none",
    "--methods",
    "slow-ensemble",
    "--out",
    "runs/own",
)


def called(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
    call = [sys.executable, "-m", *words]
    return subprocess.run(call, cwd=folder, env=everything, capture_output=True, text=True)


def test_a_package_of_own_parts_is_known_to_workers_and_missed_elsewhere(tmp_path):
    package = tmp_path / "own"
    package.mkdir()
    (package / "__init__.py").write_text(PARTS)
    (package / "__main__.py").write_text(CALL)
    run = called(tmp_path, "own", *RUN, "--on", "processes:2")
    assert run.returncode == 0, run.stderr
    again = called(tmp_path, "own", "train", "runs/own")  # a run on own data goes on, too
    assert again.returncode == 0, again.stderr
    with pytest.raises(UraenasError, match=r"own/config\.json: unknown .* import their files first\.$"):
        Run(tmp_path / "runs" / "own").config()


def test_modules_of_own_parts_are_named_and_one_that_is_not_there_is_one_line(monkeypatch):
    assert not [name for name in modules_of_own_parts() if name.startswith("uraenas")]
    monkeypatch.setitem(WEIGHTS, "mine", Part(type("Mine", (Point,), {"__module__": "mine.weights"})))
    assert "mine.weights" in modules_of_own_parts()
    with pytest.raises(UraenasError, match="which has parts of your own, cannot be imported"):
        import_own_parts(["mine.weights"])


def test_a_method_of_parts_that_are_not_there_is_one_line(monkeypatch):
    for row in (
        Method("sampld", "point"),
        Method("sampled", "pint"),
        Method("sampled", "point", recipes="x"),
    ):
        monkeypatch.setitem(METHODS, "mine", row)
        with pytest.raises(UnknownName, match=r"^method mine: unknown (source|kind of weights|recipes)"):
            method("mine")


@dataclass(frozen=True)
class Optional:
    """What JSON gives back differently could not be read after training."""

    clip: float | None = None


@dataclass(frozen=True)
class Made:
    """A default that is made anew."""

    clips: tuple[float, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class Flags:
    """Several flags."""

    flags: tuple[bool, ...] = (True,)


@dataclass(frozen=True)
class Mixed:
    """Several types."""

    pair: tuple[int, str] = (1, "a")


@dataclass(frozen=True)
class Empty:
    """Always empty."""

    nothing: tuple[()] = ()


@pytest.mark.parametrize("kind", [Optional, Made, Flags, Mixed, Empty])
def test_a_field_that_can_be_no_setting_is_refused_before_anything_is_trained(kind):
    with pytest.raises(UraenasError, match="can be no setting"):
        _ = Part(kind).settings


def test_a_field_that_the_program_fills_in_may_be_anything():
    @dataclass(frozen=True)
    class Given:
        clip: float | None = given(default=None)
        several: tuple[int, ...] = (1, 2)

    assert Part(Given).settings == {"several": tuple[int, ...]}


def test_a_field_that_the_row_fixes_may_be_anything_and_a_default_may_be_the_rows() -> None:
    @dataclass(frozen=True)
    class Bare:
        clip: float | None
        rate: float

    row = Part(Bare, {"rate": 0.5}, clip=None)
    assert row.settings == {"rate": float}
    assert row.make() == Bare(None, 0.5)
    with pytest.raises(UraenasError, match=r"Bare\.rate can be no setting"):
        _ = Part(Bare, clip=None).settings
