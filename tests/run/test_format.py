"""What another version has written is refused in one line, and left as it is."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from uraenas import Ensemble, Run, UraeNAS, UraenasError, load_dataset
from uraenas.base.files import FORMAT, read_json, write_json

COMMANDS = {
    "show": ("show", "{old}"),
    "report": ("report", "{old}"),
    "table": ("report", "{old}", "--format", "md"),
    "comparison": ("report", "{old}", "{new}", "--out", "{out}"),
    "predict": ("predict", "{old}", "{image}"),
    "run": ("run", "--preset", "tiny", "--out", "{old}"),
    "search": ("search", "{old}"),
    "train": ("train", "{old}"),
    "evaluate": ("evaluate", "{old}"),
    "members": ("members", "{old}", "--out", "{out}"),
    "export": ("export", "{old}", "--out", "{out}"),
    "search-of": ("run", "--preset", "tiny", "--search-of", "{old}", "--out", "{out}"),
}


def of_format(path: Path, number: int | None) -> None:
    """Make the file say that it was written in this format, or nothing of it."""
    facts = {key: value for key, value in read_json(path).items() if key != "format"}
    write_json(path, facts if number is None else {**facts, "format": number})


def states(folder: Path) -> dict[Path, tuple[int, bytes]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture(scope="module", params=[None, 1, FORMAT + 1], ids=str)
def old(request: pytest.FixtureRequest, finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was written in another format."""
    path = Path(shutil.copytree(finished_run, tmp_path_factory.mktemp("old") / "run"))
    of_format(path / "config.json", request.param)
    return path


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_run_of_another_format_is_refused(
    old: Path, finished_run: Path, tmp_path: Path, uraenas: Callable, words: tuple[str, ...]
) -> None:
    before, out = states(old), tmp_path / "out"
    image = tmp_path / "nothing.png"  # that it is not there comes second
    places = {"old": old, "new": finished_run, "out": out, "image": image}
    done = uraenas(*(word.format(**places) for word in words))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"uraenas: {old} was written by another version of uraenas (format ")
    assert f"this one has {FORMAT}" in line
    assert states(old) == before
    assert not out.exists()


def test_a_run_of_another_format_cannot_be_opened_in_python(old: Path) -> None:
    run = Run(old)
    for ask in (run.config, run.metrics, run.ensemble, lambda: run.primary):
        with pytest.raises(UraenasError, match="was written by another version"):
            ask()


def test_a_saved_estimator_and_its_ensemble_likewise(finished_run: Path, tmp_path: Path) -> None:
    estimator = UraeNAS()
    estimator.classes_, estimator.ensemble_ = np.arange(10), Run(finished_run).ensemble()
    tmp_path = tmp_path / "saved"
    estimator.save(tmp_path)
    images = load_dataset("digits").test.images[:5]
    expected = estimator.predict_proba(images)
    np.testing.assert_array_equal(UraeNAS.load(tmp_path).predict_proba(images), expected)
    (ensemble,) = tmp_path.glob("ensemble-*")
    for file, load in (
        (ensemble / "ensemble.json", Ensemble.load),
        (tmp_path / "estimator.json", UraeNAS.load),
    ):
        for number in (None, FORMAT + 1):
            of_format(file, number)
            before = states(tmp_path)
            with pytest.raises(
                UraenasError, match=r"^\S+ was written by another version of uraenas \(format"
            ):
                load(file.parent)
            assert states(tmp_path) == before
