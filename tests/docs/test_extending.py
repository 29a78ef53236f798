"""The files of docs/extending.md, run as they stand: a space, a distribution, a kind of weights and a method."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
FILE = re.compile(r"^## [^\n]*`(\w+\.py)`\n.*?```python\n(.*?)```", flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files, and a run made with them through the command line. Rows are added in a process of its own."""
    folder = tmp_path_factory.mktemp("extending")
    files = dict(FILE.findall(PAGE.read_text()))
    assert set(files) == {"ladder.py", "concrete.py", "noisy_adam.py", "mine.py"}
    for name, code in files.items():
        (folder / name).write_text(code)
    (command,) = re.findall(r"^python (mine\.py run .*)$", PAGE.read_text(), flags=re.MULTILINE)
    call(folder, *command.split())
    return folder


def call(folder: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_run_from_search_to_report(folder):
    run = folder / "runs" / "mine"
    rows = json.loads((run / "metrics.json").read_text())["rows"]
    assert {row["method"] for row in rows} == {"noisy-ensemble", "drnas"}
    settings = json.loads((run / "config.json").read_text())
    assert settings["network.space"] == "ladder"
    assert {"search.concrete.first", "train.noisy_adam.smoothing"} <= settings.keys()
    page = (run / "report.html").read_text()
    assert "Probability per decision" in page
    assert "pooling" in page


def test_their_members_predict_the_same_twice(folder):
    noise = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "noise.png")
    command = ("mine.py", "predict", "runs/mine", "noise.png", "--method", "noisy-ensemble", "--json")
    first, second = (json.loads(call(folder, *command))["predictions"] for _ in range(2))
    assert first == second  # the noise on the weights is keyed, too
    assert sum(first[0]["probabilities"].values()) == pytest.approx(1)


def test_a_row_of_a_cell_with_other_nodes_is_enough(folder):
    """The page's five-node cell, trained by the same command line."""
    (row,) = re.findall(
        r"^(SPACES\[\"five-nodes\"\] = Part\(\n.*?^\))", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    imports = "from uraenas.base.parts import Part\nfrom uraenas.spaces import SPACES, CellSpace\n"
    (folder / "five.py").write_text(f"{imports}{row}\nfrom uraenas.cli import main\nmain()\n")
    arguments = ["run", "--preset", "tiny", "--set", "network.space=five-nodes", "--methods", "uraenas"]
    few = ("--set", "evaluate.suite=none", "--set", "data.limit=100")
    call(folder, "five.py", *arguments, *few, "--out", "runs/five")
    assert "+|" in call(folder, "five.py", "show", "runs/five", "--members")
