"""The files of docs/extending.md, run as they stand: a space, two distributions, a kind of weights and a method."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
FILE = re.compile(r"^## [^\n]*`(\w+\.py)`\n.*?```python\n(.*?)```", flags=re.DOTALL | re.MULTILINE)


# The page's command, its members asked twice, and the five-node cell, one after another in one process: a start takes
# seconds, and rows are added there rather than here.
EACH = """
import contextlib, io, json, runpy, sys

sys.path.insert(0, "")
printed = []
for command in json.loads(sys.argv[1]):
    sys.argv, out, code = command, io.StringIO(), 0
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
    printed.append(out.getvalue())
    if code:
        sys.exit(code)
print(json.dumps(printed))
"""
PLAIN = ("--set", "evaluate.suite=none", "--set", "data.limit=100")
TORCH = (
    "mine.py",
    "export",
    "runs/mine",
    "--methods",
    "noisy-ensemble",
    "--format",
    "torch",
    "--out",
    "noisy.pt2",
)
NOISE = ("mine.py", "predict", "runs/mine", "noise.png", "--method", "noisy-ensemble", "--json")
FEW = ("--methods", "uraenas", *PLAIN)
FIVE = ("five.py", "run", "--preset", "tiny", "--set", "network.space=five-nodes", *FEW, "--out", "runs/five")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files."""
    folder = tmp_path_factory.mktemp("extending")
    files = dict(FILE.findall(PAGE.read_text()))
    assert set(files) == {"ladder.py", "concrete.py", "climb.py", "noisy_adam.py", "mine.py"}
    (row,) = re.findall(
        r"^(SPACES\[\"five-nodes\"\] = Part\(\n.*?^\))", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    imports = "from uraenas.base.parts import Part\nfrom uraenas.spaces import SPACES, CellSpace\n"
    files["five.py"] = f"{imports}{row}\nfrom uraenas.cli import main\nmain()\n"
    for name, code in files.items():
        (folder / name).write_text(code)
    noise = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "noise.png")
    return folder


@pytest.fixture(scope="module")
def printed(folder: Path) -> list[str]:
    """What each command printed: the page's runs, two predictions, the run of five nodes, its members, a file."""
    run, climbed = re.findall(r"^python (mine\.py run .*)$", PAGE.read_text(), flags=re.MULTILINE)
    shown = ("five.py", "show", "runs/five", "--members")
    commands = [run.split(), NOISE, NOISE, FIVE, shown, [*climbed.split(), *PLAIN], TORCH]
    call = [sys.executable, "-c", EACH, json.dumps(commands)]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("printed")
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


def test_their_members_predict_the_same_twice(printed):
    first, second = (json.loads(one)["predictions"] for one in printed[1:3])
    assert first == second  # the noise on the weights is keyed, too
    assert sum(first[0]["probabilities"].values()) == pytest.approx(1)


def test_a_row_of_a_cell_with_other_nodes_is_enough(printed):
    """The page's five-node cell, trained by the same command line."""
    assert "+|" in printed[4]


@pytest.mark.usefixtures("printed")
def test_the_climbers_queries_are_the_best_so_far_with_one_option_changed(folder):
    """Or drawn anew: as its restart says, one in ten."""
    tensors = load_file(folder / "runs" / "climbed" / "search" / "architecture.safetensors")
    queried, values = tensors["queried"].long(), tensors["values"]
    assert len(values) == 20
    near = [int((queried[place] != queried[:10][values[:10].argmax()]).sum()) == 1 for place in range(10, 20)]
    assert sum(near) > 5


@pytest.mark.usefixtures("printed")
def test_draws_that_are_plain_networks_are_exported(folder):
    assert (folder / "noisy.pt2").stat().st_size > 0
