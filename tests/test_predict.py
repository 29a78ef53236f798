"""Predicting image files: what is read, what is reported, when to abstain."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from uraenas.config import override, preset
from uraenas.errors import UraenasError
from uraenas.predict import Prediction, Unreadable, find_files, predict_files, threshold_for
from uraenas.stages import Pipeline


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A trained run on digits."""
    path = tmp_path_factory.mktemp("predict") / "run"
    pipeline = Pipeline.start(path, override(preset("tiny"), {"methods": "uraenas"}))
    pipeline.train(pipeline.search())
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """Images of many kinds, among them a truncated one, a text file and a 16-bit grey one."""
    random = np.random.default_rng(0)
    for number in range(5):
        Image.fromarray(random.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    Image.fromarray(random.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(tmp_path / "large.jpg")
    Image.fromarray(random.integers(0, 65536, (8, 8)).astype(np.uint16)).save(tmp_path / "deep.png")
    whole = (tmp_path / "0.png").read_bytes()
    (tmp_path / "broken.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / ".hidden").write_text("not looked at")
    return tmp_path


def uraenas(*arguments: str | Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "uraenas.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_what_cannot_be_read_is_named_and_the_rest_predicted(run, folder):
    done = uraenas("predict", run, folder, "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert [Path(row["file"]).name for row in result["unreadable"]] == ["broken.png", "deep.png", "notes.txt"]
    names = {Path(row["file"]).name: row for row in result["predictions"]}
    assert set(names) == {"0.png", "1.png", "2.png", "3.png", "4.png", "large.jpg"}
    assert "resized from 30×20" in names["large.jpg"]["note"]
    assert names["0.png"]["note"] == ""
    for name, why in (
        ("broken.png", "truncated"),
        ("deep.png", "16-bit grey"),
        ("notes.txt", "cannot identify"),
    ):
        assert any(name in line and why in line for line in done.stderr.splitlines())
    for row in names.values():
        assert row["total"] == pytest.approx(row["data"] + row["weights"] + row["architecture"], abs=1e-9)


def test_where_nothing_can_be_read_there_is_no_table(run, folder):
    done = uraenas("predict", run, folder / "notes.txt")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.endswith("uraenas: 0 of 1 files predicted, 1 could not be read\n")


def test_a_folder_of_a_thousand_with_three_bad_ones(run, tmp_path):
    """997 digits as PNG files, a truncated one, a text file and a 16-bit grey one."""
    digits = np.uint8(load_digits().images * 255 / 16)[:997]
    for number, image in enumerate(digits):
        Image.fromarray(image).save(tmp_path / f"{number:04d}.png")
    (tmp_path / "0100-truncated.png").write_bytes((tmp_path / "0100.png").read_bytes()[:-60])
    (tmp_path / "notes.txt").write_text("no image")
    Image.fromarray(digits[0].astype(np.uint16) * 257).save(tmp_path / "0900-deep.png")
    done = uraenas("predict", run, tmp_path, "--csv")
    assert done.returncode == 1
    *complaints, count = done.stderr.splitlines()
    named = [Path(line.split(": ")[1]).name for line in complaints]
    assert named == ["0100-truncated.png", "0900-deep.png", "notes.txt"]
    assert count == "uraenas: 997 of 1,000 files predicted, 3 could not be read"
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [Path(row["file"]).name for row in rows] == [f"{number:04d}.png" for number in range(997)]
    ensemble = Pipeline.resume(run).run.ensemble("uraenas")
    expected = ensemble.predict_proba(digits[..., None])
    assert [row["label"] for row in rows] == [ensemble.classes[k] for k in expected.argmax(axis=1)]


def test_csv_and_table_hold_the_same_predictions(run, folder):
    rows = list(csv.DictReader(uraenas("predict", run, folder / "0.png", "--csv").stdout.splitlines()))
    table = uraenas("predict", run, folder / "0.png")
    assert table.returncode == 0
    assert [row["label"] for row in rows] == [rows[0]["label"]]
    assert f"{float(rows[0]['probability']):.3f}" in table.stdout
    assert "resized" not in table.stdout
    assert "1 of 1 images were resized" in uraenas("predict", run, folder / "large.jpg").stdout


def test_predictions_do_not_depend_on_what_else_is_asked(run, folder):
    ensemble = Pipeline.resume(run).run.ensemble("uraenas")
    files = find_files([folder])
    together = [row for row in predict_files(ensemble, files, 0.5) if isinstance(row, Prediction)]
    alone = [
        row for file in files for row in predict_files(ensemble, [file], 0.5) if isinstance(row, Prediction)
    ]
    assert [row.label for row in together] == [row.label for row in alone]
    assert [row.probability for row in together] == pytest.approx(
        [row.probability for row in alone], abs=1e-5
    )
    assert any(isinstance(row, Unreadable) for row in predict_files(ensemble, files, 0.5))


def test_the_threshold_keeps_the_risk_on_held_out_images():
    confidence = torch.tensor([0.99, 0.95, 0.9, 0.8, 0.7, 0.6], dtype=torch.float64)
    right = torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    for risk, expected in ((0.1, 0.9), (0.2, 0.7), (0.34, 0.6)):
        threshold = threshold_for(confidence, right, risk)
        assert threshold == pytest.approx(expected)
        passing = confidence >= threshold
        assert float(1 - right[passing].mean()) <= risk
    tied = torch.tensor([1.0, 1.0, 1.0, 0.9, 0.9], dtype=torch.float64)
    assert threshold_for(tied, torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64), 0.15) == 1.0
    assert threshold_for(confidence, torch.zeros(6, dtype=torch.float64), 0.1) > 1


@pytest.mark.parametrize("arguments", [["nowhere.png"], ["--risk", "2"], ["--method", "drnas"]])
def test_bad_questions_get_one_line(run, folder, arguments):
    images = [] if arguments == ["nowhere.png"] else [folder / "0.png"]
    done = uraenas("predict", run, *images, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(UraenasError, match="holds no files"):
        find_files([tmp_path])
