"""What a user should know before anything is trained: left-out files, hopeless settings, too few images."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from test_runs import uraenas
from uraenas import UraeNAS, UraenasError
from uraenas.architecture import ArchitectureDistribution
from uraenas.cli.runs import _on_the_search
from uraenas.config import override, preset
from uraenas.data import Dataset, LabelledImages, load_dataset
from uraenas.predict import Threshold
from uraenas.spaces import Genotype
from uraenas.stages import Pipeline
from uraenas.task import prepare


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of ten small pictures, one of them not square, and a file that is no image."""
    root, draw = tmp_path_factory.mktemp("data") / "photos", np.random.default_rng(0)
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for number in range(10):
            pixels = draw.integers(0, 256, (8, 9 if number == 0 else 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    (root / "cat/notes.heic").write_bytes(b"from a telephone")
    return root


def test_a_run_says_what_it_left_out_and_that_it_is_too_short(photos, tmp_path):
    out = tmp_path / "run"
    settings = (f"data.name={photos}", "data.image_size=8", "evaluate.suite=none", "train.batch=16")
    sets = [word for setting in settings for word in ("--set", setting)]
    done = uraenas("run", "--preset", "tiny", "--methods", "drnas", *sets, "--out", out)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert "note: 1 file without the ending of an image left out" in notes
    assert "note: 2 of 20 images are not square and were stretched to be so" in notes
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
    config = override(preset("digits"), {"train.epochs": 4, "methods": "drnas", "evaluate.suite": "none"})
    (note,) = Pipeline.start(tmp_path / "run", config).notes()
    advised = int(note.partition("train.epochs=")[2].split()[0])
    assert advised % config.train.cycles == 0
    longer = override(config, {"train.epochs": advised})
    assert Pipeline.start(tmp_path / "longer", longer).notes() == []


def test_an_expected_architecture_that_is_hardly_one_is_named():
    def learned(indices: tuple[int, ...]) -> ArchitectureDistribution:
        concentration = np.full((6, 5), 0.1)
        concentration[np.arange(6), indices] = 5
        return ArchitectureDistribution(torch.from_numpy(concentration))

    assert _on_the_search(learned((3, 3, 3, 1, 3, 3))) == []
    assert _on_the_search(None) == []
    (note,) = _on_the_search(learned((0, 0, 3, 2, 0, 0)))
    assert "has 1 of 6 edges alive" in note
    assert str(Genotype.from_indices((0, 0, 3, 2, 0, 0))) in note


def test_too_few_images_of_a_class_are_counted_as_the_user_counts():
    part = LabelledImages(np.zeros((7, 8, 8, 1), np.uint8), np.array([0, 0, 0, 0, 0, 1, 1]))
    dataset = Dataset("few", part, part, ("many", "few"), flip=False, padding=1)
    with pytest.raises(UraenasError, match=r"class 'few' has 2 training image\(s\); needed: 3"):
        prepare(preset("tiny"), dataset)


def test_few_passing_images_are_too_few_to_tell():
    assert str(Threshold(0.868, 0.02, images=51, passing=7, wrong=0)).endswith("too few images to tell")
    assert not str(Threshold(0.868, 0.02, images=510, passing=70, wrong=0)).endswith("to tell")


def test_the_list_has_the_values_of_a_preset():
    for name in ("digits", "cifar10"):
        done = uraenas("list", "--preset", name, "--json")
        assert json.loads(done.stdout)["settings"]["train.epochs"] == preset(name).train.epochs
    assert "values of the preset digits" in uraenas("list").stdout


def test_a_run_and_a_saved_estimator_are_told_apart(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.json").write_text("{}")
    with pytest.raises(UraenasError, match=r"is a run directory; open it with uraenas\.Run"):
        UraeNAS.load(tmp_path / "run")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/estimator.json").write_text("{}")
    done = uraenas("show", tmp_path / "model")
    assert "is a saved UraeNAS" in done.stderr


@pytest.mark.parametrize("labels", [[0, 1, None, 1], [0.0, 1.0, float("nan"), 1.0]])
def test_missing_labels_are_named(labels):
    with pytest.raises(UraenasError, match="missing values"):
        UraeNAS().fit(np.zeros((4, 8, 8), np.uint8), labels)


def test_a_fit_says_how_far_it_has_come(capfd):
    images, labels = load_dataset("digits").train.images, load_dataset("digits").train.labels
    UraeNAS("drnas", preset="tiny", verbose=True).fit(images[:200], labels[:200])
    told = capfd.readouterr().err
    assert "search 2 of 2" in told
    assert "train 2 of 2" in told
