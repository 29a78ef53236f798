"""Plain classifiers of pixels: ordinary rows, calibrated on held-out images, that an ensemble should beat."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from uraenas.data import LabelledImages, digits
from uraenas.data.targets import CLASSES
from uraenas.evaluation import CLASSIFIERS, EvaluateSettings, EvaluationSet, Evaluator, References, unbeaten
from uraenas.evaluation import references as module

WHOLE = digits()
TRAIN, HELD_OUT = WHOLE.train.take(np.arange(300)), WHOLE.train.take(np.arange(300, 500))


@pytest.fixture(scope="module")
def references() -> References:
    return References(TRAIN, HELD_OUT, CLASSES, seed=0)


@pytest.fixture(scope="module")
def rows(references):
    where = EvaluationSet("digits", "none", 0, WHOLE.test)
    settings = EvaluateSettings(bootstrap=20)
    return Evaluator(settings, 0).cell(where, references.judged(WHOLE.test.images)).rows


def value(rows, method, metric, calibration="raw"):
    return next(r.value for r in rows if (r.method, r.metric, r.calibration) == (method, metric, calibration))


def test_they_are_ordinary_rows_that_know_something(rows):
    assert {row.method for row in rows} == set(CLASSIFIERS)
    assert all(row.members == 1 and np.isfinite(row.value) for row in rows)
    for name in CLASSIFIERS:
        assert value(rows, name, "accuracy") > 0.85
        scaled, raw = (value(rows, name, "nll", kind) for kind in ("temperature", "raw"))
        assert scaled < raw + 0.01


def test_the_logistic_one_is_that_of_scikit_learn(references):
    pixels = WHOLE.test.images.reshape(len(WHOLE.test), -1).astype(np.float32) / 255
    plain = LogisticRegression(C=references.models["logistic"].model.C, max_iter=200)
    plain.fit(TRAIN.images.reshape(300, -1).astype(np.float32) / 255, TRAIN.labels)
    found = references.judged(WHOLE.test.images)["logistic"].log_probabilities_MNK[0].exp()
    np.testing.assert_allclose(found, plain.predict_proba(pixels), atol=1e-6)


def test_probabilities_are_positive_and_add_up(references):
    for judged in references.judged(np.zeros((3, 8, 8, 1), np.uint8)).values():
        p = judged.log_probabilities_MNK.exp()
        assert (p > 0).all()
        np.testing.assert_allclose(p.sum(dim=-1), 1)


def test_the_same_seed_gives_the_same_values(references, rows):
    where = EvaluationSet("digits", "none", 0, WHOLE.test)
    again = References(TRAIN, HELD_OUT, CLASSES, seed=0).judged(WHOLE.test.images)
    assert Evaluator(EvaluateSettings(bootstrap=20), 0).cell(where, again).rows == rows
    other = References(TRAIN, HELD_OUT, CLASSES, seed=1).judged(WHOLE.test.images)
    assert (other["forest"].log_probabilities_MNK != again["forest"].log_probabilities_MNK).any()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_two_classes_large_images_and_many_of_them(monkeypatch, kind):
    monkeypatch.setattr(module, "MOST_IMAGES", 60)
    draw = np.random.default_rng(0)
    labels = np.arange(200) % 2
    images = draw.integers(0, 100, (200, 70, 40, 3)) + 100 * labels[:, None, None, None]
    images = images.astype(np.uint8) if kind is np.uint8 else (images / 255).astype(np.float32)
    weights = np.ones(200, np.float32)
    part = LabelledImages(images, labels.astype(np.int64), weights)
    found = References(part, part, CLASSES, seed=0)
    assert found.models["logistic"].model.n_features_in_ == 32 * 32 * 3
    assert (
        found.models["forest"].model.estimators_[0].tree_.n_node_samples[0] < 60
    )  # a bootstrap sample of 60
    for judged in found.judged(images).values():
        assert (judged.log_probabilities_MNK[0].argmax(dim=1).numpy() == labels).mean() > 0.95


def test_who_does_not_beat_them_is_told(rows):
    def ensemble(accuracy, nll):
        known = {"accuracy": accuracy, "nll": nll}
        own = [row for row in rows if row.method == "forest" and row.metric in known]
        return [row._replace(method="uraenas", value=known[row.metric], members=4) for row in own]

    assert unbeaten([*rows, *ensemble(1.0, 0.01)], "uraenas") == []
    weak = unbeaten([*rows, *ensemble(0.5, 2.0)], "uraenas")
    assert [line.split(",")[0] for line in weak] == [f"uraenas does not beat {name}" for name in CLASSIFIERS]
    assert "accuracy 50.00 % and NLL 2.000, against" in weak[0]
    assert len(unbeaten([*rows, *ensemble(1.0, 2.0)], "uraenas")) == 2  # right, but not sure of it
    assert unbeaten(ensemble(0.5, 2.0), "uraenas") == []  # not measured
    least = {name: value(rows, name, "nll", "temperature") for name in CLASSIFIERS}
    accuracy = max(value(rows, name, "accuracy", "temperature") for name in CLASSIFIERS)
    assert unbeaten([*rows, *ensemble(accuracy, 0.01)], "uraenas") == []  # as often right, and surer of it
    same = value(rows, "forest", "accuracy", "temperature"), least["forest"]
    assert any("beat forest" in line for line in unbeaten([*rows, *ensemble(*same)], "uraenas"))  # no better


def test_no_library_has_more_than_one_thread_for_references() -> None:
    """What is loaded after the limit is set has none."""
    told = """
from uraenas.evaluation.references import _one_thread
with _one_thread():
    import sklearn.linear_model, sklearn.ensemble, threadpoolctl
    print({own["num_threads"] for own in threadpoolctl.threadpool_info() if own["user_api"] == "blas"})
"""
    free = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", told], env=free, capture_output=True, text=True, check=True)
    assert done.stdout == "{1}\n"
