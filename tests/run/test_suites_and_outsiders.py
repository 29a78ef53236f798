"""Evaluation on suites from disk and on images of another dataset."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data import LabelledImages, digits, in_units_of
from uraenas.evaluation import EvaluateSettings, cell_count, evaluation_sets, separations
from uraenas.evaluation.metrics import separation
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.evaluation import outside_images
from uraenas.run.pipeline import Pipeline
from uraenas.shifts import SUITES
from uraenas.shifts.suite import write_suite


def test_separation_agrees_with_counting_pairs():
    random = torch.Generator().manual_seed(0)
    inside = torch.rand(40, generator=random, dtype=torch.float64)
    outside = torch.rand(30, generator=random, dtype=torch.float64) + 0.3
    larger = (outside[:, None] > inside[None]).double() + 0.5 * (outside[:, None] == inside[None]).double()
    found = separation(inside, outside)
    assert found["auroc"] == pytest.approx(float(larger.mean()))
    accepted = inside.sort().values[37]  # of 40 the 38th
    assert found["fpr95"] == pytest.approx(float((outside <= accepted).double().mean()))
    assert separation(torch.zeros(9), torch.ones(9)) == {"auroc": 1.0, "aupr": 1.0, "fpr95": 0.0}


def test_a_suite_from_disk_gives_the_images_that_are_made_on_the_fly(tmp_path):
    test = digits().test
    write_suite(test.images, test.labels, tmp_path, only=SUITES["basic"], seed=0, workers=1)
    made = list(evaluation_sets("digits", test, EvaluateSettings(severities=(1, 4))))
    read = list(evaluation_sets("digits", test, EvaluateSettings(suite=str(tmp_path), severities=(1, 4))))
    wanted = {where.name: where.part.images for where in made}
    assert {where.name for where in read} == set(wanted)
    for where in read:
        np.testing.assert_array_equal(where.part.images, wanted[where.name])


def test_a_suite_from_disk_has_the_units_of_the_test_images(tmp_path):
    test = digits().test
    write_suite(test.images, test.labels, tmp_path, only=["contrast"], seed=0, workers=1)
    floats = LabelledImages(test.images.astype(np.float32) / 255, test.labels)
    settings = EvaluateSettings(suite=str(tmp_path), severities=(3,))
    of_bytes, of_floats = (list(evaluation_sets("digits", part, settings))[1] for part in (test, floats))
    assert of_floats.part.images.dtype == np.float32
    np.testing.assert_allclose(of_floats.part.images * 255, of_bytes.part.images, atol=1e-4)


def test_a_suite_of_other_images_is_refused(tmp_path):
    test = digits().test
    write_suite(test.images[::-1], test.labels[::-1], tmp_path, only=["contrast"], workers=1)
    with pytest.raises(UraenasError, match="labels differ"):
        list(evaluation_sets("digits", test, EvaluateSettings(suite=str(tmp_path))))


def test_an_unknown_suite_names_the_nearest_when_it_is_needed():
    """Not before: a run may be looked at where its suite is not."""
    with pytest.raises(UraenasError, match=r"unknown suite or folder 'basics'\. Did you mean 'basic'"):
        list(evaluation_sets("digits", digits().test, EvaluateSettings(suite="basics")))
    with pytest.raises(
        UraenasError, match=r"^\./other does not exist; allowed: a path, or one of none, basic"
    ):
        list(evaluation_sets("digits", digits().test, EvaluateSettings(suite="./other")))


@pytest.fixture
def elsewhere(tmp_path) -> dict[str, Path]:
    """Noise as an .npz file with two parts, as a flat folder of 12 files, and as a folder of one class."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (80, 16, 16, 3), dtype=np.uint8)
    labels = np.arange(80) % 2
    np.savez(tmp_path / "noise.npz", x_train=noise, y_train=labels, x_test=noise[:40], y_test=labels[:40])
    for folder in (tmp_path / "flat", tmp_path / "one" / "class"):
        folder.mkdir(parents=True)
        for number in range(12):
            Image.fromarray(noise[number]).save(folder / f"{number}.png")
    return {"noise": tmp_path / "noise.npz", "flat": tmp_path / "flat", "one": tmp_path / "one"}


def test_images_from_elsewhere_are_told_apart(own_run, elsewhere):
    """Noise against digits: all its images, of both parts; scores, rows and their names."""
    changes = {"evaluate.suite": "none", "evaluate.outside": ", ".join(map(str, elsewhere.values()))}
    metrics = Pipeline.start(own_run, preset("tiny", {**changes, "methods": "uraenas"})).evaluate()
    distances = [f"distance-{level}" for level in (1, 2, 3)]
    scores = ("confidence", "total_uncertainty", "model_uncertainty", "foreign", "relative", *distances)
    measured = {f"{m}_{s}" for m in ("auroc", "aupr", "fpr95") for s in scores}
    rows = [row for row in metrics.rows if row.shift.startswith("outside-")]
    shares = {"turned_away", "false_alarms"}
    assert {row.metric for row in rows} == measured | shares | {"images"}
    assert all(0 <= row.value <= 1 + 1e-12 for row in rows if row.metric != "images")
    assert all(row.value == 1 for row in rows if row.metric == "turned_away")  # it is noise
    assert all(row.value < 0.1 for row in rows if row.metric == "false_alarms")
    found = {one.other: one for one in separations(metrics.rows)}
    assert {name: one.images for name, one in found.items()} == {"noise": 120, "flat": 12, "one": 12}
    assert found["flat"].auroc == found["one"].auroc  # the same images
    value = next(r.value for r in rows if r.shift == "outside-noise" and r.metric == "fpr95_confidence")
    assert found["noise"].fpr95["confidence"] == value


def test_table_report_and_show_say_how_well_they_are_told_apart(uraenas, own_run, elsewhere):
    changes = ("--set", f"evaluate.outside={elsewhere['flat']}", "--set", "evaluate.suite=none")
    done = uraenas("run", "--preset", "tiny", "--methods", "uraenas", *changes, "--out", own_run)
    assert done.returncode == 0, done.stderr
    (one,) = separations(Run(own_run).metrics().rows)
    auroc = f"{one.auroc['foreign']:.3f}"
    page = (own_run / "report.html").read_text()
    for shown in (done.stdout, uraenas("show", own_run).stdout, page):
        assert "flat" in shown
        assert "AUROC" in shown
        assert auroc in shown
    assert 'id="outside-foreign-flat"' in page, "the scores' histogram"
    assert json.loads(uraenas("show", own_run, "--json").stdout)["outside"] == [asdict(one)]


def test_so_few_held_out_images_turn_none_away_and_the_tables_say_so(uraenas, tmp_path, elsewhere):
    """With 15 the smallest p is 1/16: shares of 0 would look like noise that is taken for digits."""
    few = ("--set", "data.limit=100", "--set", "evaluate.suite=none", "--methods", "uraenas")
    changes = (*few, "--set", f"evaluate.outside={elsewhere['flat']}")
    done = uraenas("run", "--preset", "tiny", *changes, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    (one,) = separations(Run(tmp_path / "run").metrics().rows)
    assert (one.turned_away, one.false_alarms) == (None, None)
    assert one.least_p is not None
    assert one.least_p > 0.05
    page = (tmp_path / "run" / "report.html").read_text()
    for shown in (done.stdout, uraenas("show", tmp_path / "run").stdout, page):
        assert shown.count(f"p ≥ {one.least_p:.2g}") == 2
        assert "none can be turned away" in " ".join(shown.split())


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_images_from_elsewhere_get_the_units_of_the_test_images(elsewhere, kind):
    test = digits().test
    part = LabelledImages(in_units_of(test.images, np.dtype(kind)), test.labels)
    dataset = replace(digits(), train=part, test=part)
    names = f"{elsewhere['flat']},digits"
    found = outside_images(preset("tiny", {"evaluate.outside": names}), dataset)
    assert {name: len(one) for name, one in found.items()} == {"flat": 12, "digits": 1797}
    for one in found.values():
        assert one.images.dtype == kind
        assert one.images.max() > (100 if kind is np.uint8 else 0.4)
        assert one.images.max() <= (255 if kind is np.uint8 else 1)


def test_sets_from_elsewhere_that_cannot_be_told_by_name_or_are_empty_are_refused(elsewhere, tmp_path):
    twice = preset("tiny", {"evaluate.outside": f"{elsewhere['flat']},{elsewhere['flat']}"})
    with pytest.raises(UraenasError, match="two sets called flat"):
        outside_images(twice, digits())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UraenasError, match="holds no files"):
        outside_images(preset("tiny", {"evaluate.outside": str(tmp_path / "empty")}), digits())
    np.savez(tmp_path / "other.npz", pixels=np.zeros((4, 8, 8), np.uint8))
    with pytest.raises(UraenasError, match="holds pixels; needed: images"):
        outside_images(preset("tiny", {"evaluate.outside": str(tmp_path / "other.npz")}), digits())
    np.savez(tmp_path / "unnamed.npz", np.zeros((4, 8, 8), np.uint8))
    found = outside_images(preset("tiny", {"evaluate.outside": str(tmp_path / "unnamed.npz")}), digits())
    assert found["unnamed"].images.shape == (4, 8, 8, 1)


def test_grey_images_get_the_suite_without_what_needs_colour(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 1), dtype=np.uint8)
    test = LabelledImages(images, np.arange(4) % 2)
    settings = EvaluateSettings(suite="cifar10-c", severities=(3,))
    found = [where.shift for where in evaluation_sets("grey", test, settings)]
    assert found == ["none", *(name for name in SUITES["cifar10-c"] if name != "saturate")]
    assert len(found) == cell_count(test, settings)
    write_suite(images, test.labels, tmp_path, severities=(3,), workers=1)
    written = {path.stem for path in tmp_path.rglob("*.npy")}
    assert any("frost" in name for name in written)
    assert not any("saturate" in name for name in written)
    with pytest.raises(UraenasError, match="saturate needs colour"):
        write_suite(images, test.labels, tmp_path / "asked", only=["saturate"], workers=1)


def test_choices_are_made_on_held_out_images_under_distortions_of_no_benchmark(own_run: Path) -> None:
    chosen = {"evaluate.part": "held_out", "evaluate.suite": "other", "evaluate.references": False}
    pipeline = Pipeline.start(own_run, preset("tiny", chosen))
    rows = pipeline.evaluate().rows
    assert {row.dataset for row in rows} == {"digits-held-out"}
    assert {row.shift for row in rows if row.severity} == set(SUITES["other"]) - {"hue"}  # digits are grey
    assert not set(SUITES["other"]) & set(SUITES["cifar10-c"])
    assert pipeline.run.has(pipeline.run.predictions_file("uraenas", "digits-held-out"))
    again = Pipeline.start(own_run, preset("tiny", {"evaluate.references": False})).evaluate()
    assert {row.dataset for row in again.rows} == {"digits"}


@pytest.mark.parametrize("place", ["diabetes", "rows.csv"])
def test_tables_are_no_images_from_elsewhere(place):
    config = preset("tiny", {"evaluate.outside": place})
    with pytest.raises(UraenasError, match=f"{place} is a table; allowed: images"):
        outside_images(config, digits())


def test_tables_are_not_offered_as_images_from_elsewhere():
    with pytest.raises(UraenasError, match="unknown dataset or folder 'nowhere'") as told:
        outside_images(preset("tiny", {"evaluate.outside": "nowhere"}), digits())
    assert "fashion-mnist" in str(told.value)
    assert "diabetes" not in str(told.value)
