"""What a user should know before anything is trained: left-out files, hopeless settings, what is a run and what not."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from uraenas import Searched, UraeNAS, UraenasError
from uraenas.architectures import Dirichlet
from uraenas.cli.runs import _on_the_search
from uraenas.data import load_dataset
from uraenas.run.config import override, preset
from uraenas.run.pipeline import Pipeline
from uraenas.spaces import CellSpace, Shape


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of ten small pictures, one of them not square, and a file that is no image."""
    root, draw = tmp_path_factory.mktemp("data") / "photos", np.random.default_rng(0)
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for number in range(10):
            pixels = draw.integers(0, 256, (8, 9 if number == 0 else 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    (root / "cat/notes.mov").write_bytes(b"from a telephone")
    return root


def test_a_run_says_what_it_left_out_and_that_it_is_too_short(uraenas, photos, tmp_path):
    out = tmp_path / "run"
    settings = (f"data.name={photos}", "data.image_size=8", "evaluate.suite=none", "train.batch=16")
    sets = [word for setting in settings for word in ("--set", setting)]
    done = uraenas("run", "--preset", "tiny", "--methods", "drnas", *sets, "--out", out)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert "note: 1 file without the ending of an image left out" in notes
    assert "note: 2 of 20 images are not square and were stretched to be so, such as cat/0.png" in notes
    few = next(line for line in notes if "too few to learn well" in line)
    images = json.loads((out / "data.json").read_text())["training_images"]
    assert few.startswith(f"note: 2 epochs of {images} images are 2 steps")
    logged = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [f"note: {one['text']}" for one in logged if one["event"] == "note"] == notes
    page = (out / "report.html").read_text()
    test = load_dataset(str(photos), image_size=8).test
    assert test.names is not None
    assert any(name in page for name in test.names)  # pictures worth a look can be found again
    assert all((photos / name).exists() for name in test.names)


def test_the_epochs_that_are_advised_are_enough_and_whole_cycles(tmp_path):
    changes = {"train.epochs": 6, "train.sampling.cycles": 3, "train.sampling.samples": 1}
    config = preset("digits", {**changes, "methods": "uraenas", "evaluate.suite": "none"})
    (note,) = Pipeline.start(tmp_path / "run", config).notes()
    advised = int(note.partition("train.epochs=")[2].split()[0])
    assert advised % 3 == 0
    longer = override(config, {"train.epochs": advised})
    assert Pipeline.start(tmp_path / "longer", longer).notes() == []


def test_numbers_of_images_that_a_distribution_is_told_are_held_against_those_there_are(tmp_path):
    changes = {"methods": "uraenas", "search.distribution": "bayesnas", "train.epochs": 300}
    (note,) = Pipeline.start(tmp_path / "run", preset("digits", changes)).notes()
    advised = dict(part.split("=") for part in note.split() if part.startswith("search.") and "=" in part)
    there = {"search.bayesnas.images"}  # batches of 32 are not far from 64
    assert advised.keys() == there
    told = Pipeline.start(tmp_path / "told", preset("digits", {**changes, **advised}))
    assert told.notes() == []
    validation = told.task.search_halves(told.config.search.settings.validation)[1]
    assert advised == {"search.bayesnas.images": str(len(validation))}
    without = {key: value for key, value in changes.items() if key != "search.distribution"}
    assert Pipeline.start(tmp_path / "dirichlet", preset("digits", without)).notes() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"search.distribution": "evolution", "search.queries": 8}, ["architectures of its first 10"]),
        ({"search.distribution": "evolution", "search.queries": 11}, []),
        (
            {"search.distribution": "evolution", "search.evolution.together": 8, "search.queries": 16},
            ["first 16"],
        ),
        (
            {"search.distribution": "bayesian", "search.queries": 10},
            [r"first 10 .*\(search.bayesian.first\)"],
        ),
        ({"search.distribution": "local", "search.queries": 3}, [r"\(search.local.together\)"]),
        (
            {"search.distribution": "agebo", "search.agebo.first": 50, "search.queries": 30},
            ["recipes of its first 50"],
        ),
        ({"search.distribution": "random", "search.queries": 8}, []),
        ({}, []),
    ],
)
def test_so_few_queries_that_all_are_drawn_at_random_are_told_before_the_search(
    changes: dict[str, object], told: list[str], tmp_path: Path
) -> None:
    config = preset("digits", {"methods": "uraenas", "train.epochs": 300, **changes})
    notes = Pipeline.start(tmp_path / "run", config).notes()
    assert len(notes) == len(told)
    assert all(re.search(words, note) for words, note in zip(told, notes, strict=True))


def test_an_expected_architecture_that_is_hardly_one_is_named():
    space = CellSpace(8, 1, shape=Shape(8, 8, 1, 10))

    def learned(indices: tuple[int, ...]) -> Searched:
        raw = torch.full((6, 5), -2.0)
        raw[torch.arange(6), torch.tensor(indices)] = 4.0
        return Searched(space, Dirichlet(), {"raw": raw})

    assert _on_the_search(learned((3, 3, 3, 1, 3, 3))) == []
    assert _on_the_search(None) == []
    for alone in (1, 2):  # a skip or a small convolution from the input to the output; the other edge is dead
        indices = (0, 0, 3, alone, 0, 0)
        (note,) = _on_the_search(learned(indices))
        assert f"the expected architecture {space.architecture(indices)} hardly has weights" in note


def test_the_list_has_the_values_of_a_preset(uraenas):
    for name in ("digits", "cifar10"):
        listed = json.loads(uraenas("list", "--preset", name, "--json").stdout)
        assert listed["settings"]["drnas"]["train.epochs"] == preset(name).train.epochs
        assert "train.sampling.cycles" not in listed["settings"]["drnas"]
    printed = uraenas("list").stdout
    assert "with the values of preset digits" in printed
    assert f"train.epochs                         {preset('digits').train.epochs}" in printed


def test_a_run_and_a_saved_estimator_are_told_apart(uraenas, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.json").write_text("{}")
    with pytest.raises(UraenasError, match=r"is a run directory; open it with uraenas\.Run"):
        UraeNAS.load(tmp_path / "run")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/estimator.json").write_text("{}")
    done = uraenas("show", tmp_path / "model")
    assert "is a saved estimator, not a run" in done.stderr


def test_a_run_leaves_out_unreadable_images_where_told_to(uraenas, photos, tmp_path):
    images = Path(shutil.copytree(photos, tmp_path / "photos"))
    (images / "dog" / "broken.png").write_text("not an image")
    settings = (f"data.name={images}", "data.image_size=8", "evaluate.suite=none", "train.batch=16")
    sets = [word for setting in settings for word in ("--set", setting)]
    command = ("run", "--preset", "tiny", "--methods", "random-ensemble", *sets, "--out", tmp_path / "run")
    refused = uraenas(*command)
    assert refused.returncode == 2
    assert "--skip-unreadable" in refused.stderr
    done = uraenas(*command, "--skip-unreadable")
    assert done.returncode == 0, done.stderr
    assert "note: 1 of 21 images cannot be read and were left out" in done.stderr
    assert "broken.png" in done.stderr
    assert uraenas("evaluate", tmp_path / "run").returncode == 0  # it is kept among the settings


def test_a_page_has_its_test_images_as_long_as_these_are_the_same(uraenas, tmp_path):
    """Training images may have come since; where the test images are others, the note gives no advice on --out."""
    images = np.random.default_rng(0).integers(0, 256, (120, 8, 8, 1), dtype=np.uint8)
    labels, out, file = np.arange(120) % 2, tmp_path / "run", tmp_path / "data.npz"

    def store(learned: int, tested: int) -> None:
        arrays = {"x_train": images[:learned], "y_train": labels[:learned]}
        np.savez(file, **arrays, x_test=images[tested:], y_test=labels[tested:])

    store(60, 90)
    ways = (
        "--preset",
        "tiny",
        "--methods",
        "drnas",
        "--set",
        "evaluate.suite=none",
        "--search-of",
        "cifar10",
    )
    done = uraenas("run", file, *ways, "--out", out)
    assert done.returncode == 0, done.stderr
    store(80, 90)
    done = uraenas("report", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the test set is not at hand" not in (out / "report.html").read_text()
    store(80, 80)
    done = uraenas("report", out)
    assert done.stderr.endswith("holds now (training images: 51, now 68)\n"), done.stderr
    assert "the test set is not at hand" in (out / "report.html").read_text()
