"""Evaluation on suites from disk and on images of another dataset."""

import numpy as np
import pytest
import torch

from uraenas.base.errors import UraenasError
from uraenas.data import LabelledImages, digits
from uraenas.evaluation import EvaluateSettings, cell_count, evaluation_sets
from uraenas.evaluation.metrics import separation
from uraenas.run.config import preset
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
    accepted = torch.quantile(inside, 0.95)
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


def test_images_from_elsewhere_are_told_apart(own_run, tmp_path):
    """Pure noise against digits: scores, rows and their names."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (80, 16, 16, 3), dtype=np.uint8)
    labels = np.arange(80) % 2
    np.savez(tmp_path / "noise.npz", x_train=noise, y_train=labels, x_test=noise[:40], y_test=labels[:40])
    changes = {"evaluate.suite": "none", "evaluate.outside": str(tmp_path / "noise.npz")}
    metrics = Pipeline.start(own_run, preset("tiny", {**changes, "methods": "uraenas"})).evaluate()
    rows = [row for row in metrics.rows if row.shift.startswith("outside-")]
    scores = ("confidence", "total_uncertainty", "model_uncertainty")
    assert {row.metric for row in rows} == {f"{m}_{s}" for m in ("auroc", "aupr", "fpr95") for s in scores}
    assert all(0 <= row.value <= 1 for row in rows)


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
