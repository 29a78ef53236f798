"""The examples work as they stand, and the first one shows what it says."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from uraenas.estimator import images
from uraenas.run import config

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed_by(example: str, monkeypatch, capsys) -> str:
    monkeypatch.setattr(sys, "argv", [example])
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    return capsys.readouterr().out


@pytest.fixture
def briefly(monkeypatch) -> None:
    """Few epochs, whatever an example asks for."""
    preset = config.preset

    def short(name, changes):
        return preset(name, {**changes, "search.epochs": 2, "train.epochs": 4})

    for module in (config, images):
        monkeypatch.setattr(module, "preset", short)


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize(("example", "lines"), [("quickstart.py", 4), ("own_images.py", 7)])
def test_an_example_runs_and_says_how_well_it_did(example, lines, monkeypatch, capsys):
    printed = printed_by(example, monkeypatch, capsys)
    assert printed.startswith("Ensemble(4 members, 2 distinct architectures, 10 classes")
    assert float(re.search(r"test accuracy:? (\d\.\d+)", printed)[1]) > 0.2  # ten classes
    assert len(printed.splitlines()) == lines


def test_an_example_says_how_it_is_called(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["own_images.py", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(EXAMPLES / "own_images.py"), run_name="__main__")
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "[FOLDER]" in printed
    assert "one sub-folder per class" in printed


@pytest.mark.slow
def test_the_first_example_is_less_sure_of_noise_than_of_digits(monkeypatch, capsys):
    digits, noise = map(
        float, re.findall(r"total (\d\.\d+)", printed_by("quickstart.py", monkeypatch, capsys))
    )
    assert noise > 2 * digits
