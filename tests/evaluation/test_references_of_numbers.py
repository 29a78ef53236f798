"""Plain regressions of a table: ordinary rows, as unsure as they err on rows that they have not seen."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

from uraenas.base.fields import MOST_NUMBER
from uraenas.data import LabelledImages
from uraenas.data.tables import diabetes
from uraenas.data.targets import Numbers, Several
from uraenas.evaluation import (
    REGRESSORS,
    EvaluateSettings,
    EvaluationSet,
    Evaluator,
    References,
    measures_of,
    unbeaten,
)
from uraenas.evaluation import references as module
from uraenas.evaluation.numbers import METRICS
from uraenas.evaluation.regressors import PENALTIES

WHOLE = diabetes()
TRAIN, HELD_OUT, TEST = WHOLE.train, WHOLE.validation, WHOLE.test
TARGET = WHOLE.target.fitted(TRAIN.labels)


def inputs(part: LabelledImages) -> np.ndarray:
    return part.images.reshape(len(part), -1)


def made(target, judged, test=TEST):
    where, settings = EvaluationSet("diabetes", "none", 0, test), EvaluateSettings(bootstrap=20)
    return Evaluator(settings, 0, measures=measures_of(target)).cell(where, judged).rows


@pytest.fixture(scope="module")
def references() -> References:
    return References(TRAIN, HELD_OUT, TARGET, seed=0)


@pytest.fixture(scope="module")
def rows(references):
    return made(TARGET, references.judged(TEST.images))


def value(rows, method, metric, calibration="raw"):
    return next(r.value for r in rows if (r.method, r.metric, r.calibration) == (method, metric, calibration))


def said(references, name, images=TEST.images):
    """Means and deviations."""
    prediction = references.judged(images)[name].log_probabilities_MNK[0].numpy()
    return prediction[:, 0], np.exp(prediction[:, 1] / 2)


def test_they_are_ordinary_rows_with_every_metric(rows):
    assert {row.method for row in rows} == set(REGRESSORS)
    assert all(row.members == 1 and np.isfinite(row.value) for row in rows)
    for name in REGRESSORS:
        for calibration in ("raw", "temperature"):
            assert set(METRICS) <= {
                r.metric for r in rows if (r.method, r.calibration) == (name, calibration)
            }
        assert 45 < value(rows, name, "rmse") < 0.9 * TEST.labels.std()


@pytest.mark.parametrize("name", REGRESSORS)
def test_intervals_hold_about_as_many_new_rows_as_they_say(rows, name):
    """On the rows that a forest learned from its errors are a third as large."""
    assert 0.75 < value(rows, name, "coverage90") < 0.99
    assert 0.3 < value(rows, name, "coverage50") < 0.7


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_as_unsure_as_rows_left_out_one_by_one_say(weighted):
    few = TRAIN.take(np.arange(50))
    weights = np.linspace(0.5, 4, 50) if weighted else np.ones(50)
    part = replace(few, weights=weights.astype(np.float32)) if weighted else few
    found = References(part, HELD_OUT, TARGET, seed=0)
    x, shares = inputs(few).astype(np.float64), weights / weights.mean()

    def variance(penalty):
        errors = []
        for n in range(50):
            rest = np.arange(50) != n
            model = Ridge(penalty).fit(x[rest], few.labels[rest], shares[rest])
            errors.append(few.labels[n] - model.predict(x[n : n + 1])[0])
        return np.average(np.square(errors), weights=weights)

    variances = {penalty: variance(penalty) for penalty in PENALTIES}
    least = min(variances, key=variances.get)
    assert PENALTIES[0] < least < PENALTIES[-1], "the best of these is at no end"
    mean, deviation = said(found, "ridge")
    np.testing.assert_allclose(deviation, math.sqrt(variances[least]), rtol=1e-4)
    plain = Ridge(least).fit(x, few.labels, shares)
    np.testing.assert_allclose(mean, plain.predict(inputs(TEST)), rtol=1e-4)


def test_the_forest_is_as_unsure_as_trees_that_have_not_seen_a_row(references):
    mean, deviation = said(references, "forest")
    key = references.models["forest"].models[0].random_state
    plain = RandomForestRegressor(100, max_features=4, oob_score=True, random_state=key)  # of ten columns
    labels = (TRAIN.labels - TARGET.centre) / TARGET.scale
    plain.fit(inputs(TRAIN), labels)
    np.testing.assert_allclose(mean, TARGET.centre + TARGET.scale * plain.predict(inputs(TEST)), rtol=1e-6)
    unseen = math.sqrt(np.mean((plain.oob_prediction_ - labels) ** 2))
    np.testing.assert_allclose(deviation, TARGET.scale * unseen, rtol=1e-6)
    seen = math.sqrt(np.mean((plain.predict(inputs(TRAIN)) - labels) ** 2))
    assert unseen > 2 * seen


def test_rows_count_as_much_as_they_weigh():
    """Half of the labels are wrong, and hardly weigh anything."""
    wrong = np.arange(len(TRAIN)) % 2 == 1
    labels = np.where(wrong, 1000 - TRAIN.labels, TRAIN.labels)
    weights = np.where(wrong, 1e-6, 1.0).astype(np.float32)
    blind = References(replace(TRAIN, labels=labels), HELD_OUT, TARGET, seed=0)
    told = References(replace(TRAIN, labels=labels, weights=weights), HELD_OUT, TARGET, seed=0)
    for name in REGRESSORS:
        errors = [np.sqrt(np.mean((said(one, name)[0] - TEST.labels) ** 2)) for one in (told, blind)]
        assert errors[0] < 75 < 300 < errors[1]
        assert said(told, name)[1][0] < 75


def test_a_row_that_outweighs_all_others_is_no_trouble():
    weights = np.ones(len(TRAIN), np.float32)
    weights[0] = 1e6
    found = References(replace(TRAIN, weights=weights), HELD_OUT, TARGET, seed=0)
    assert all(np.isfinite(row.value) for row in made(TARGET, found.judged(TEST.images)))


def test_one_wild_value_leaves_numbers_that_can_be_stored(references):
    images = TEST.images.copy()
    images[0, ..., 0] = 1e30
    found = made(TARGET, references.judged(images))
    assert max(abs(row.value) for row in found) < MOST_NUMBER
    np.testing.assert_array_equal(said(references, "ridge", images)[0][1:], said(references, "ridge")[0][1:])


def test_each_of_several_targets_is_predicted_as_if_alone(references, rows):
    def squared(part):
        return replace(part, labels=part.labels**2)

    def joined(part):
        return replace(part, labels=np.stack([part.labels, part.labels**2], axis=1))

    target = Several((Numbers("one"), Numbers("other"))).fitted(joined(TRAIN).labels)
    both = References(joined(TRAIN), joined(HELD_OUT), target, seed=0)
    other = References(squared(TRAIN), squared(HELD_OUT), target.parts[1], seed=0)
    found = made(target, both.judged(TEST.images), joined(TEST))
    of_other = made(target.parts[1], other.judged(TEST.images), squared(TEST))
    for name in REGRESSORS:
        assert both.temperatures[name] == (references.temperatures[name], other.temperatures[name])
        for metric in METRICS:
            alone = [value(own, name, metric, "temperature") for own in (rows, of_other)]
            together = [value(found, name, f"{part.column}.{metric}", "temperature") for part in target.parts]
            assert together == pytest.approx(alone)
        scales = [part.scale for part in target.parts]
        parts = [value(own, name, "rmse") for own in (rows, of_other)]
        mean = np.mean(np.divide(parts, scales))
        assert value(found, name, "rmse") == pytest.approx(mean), "in units of their standard deviations"


def test_the_same_seed_gives_the_same_values(references, rows):
    again = References(TRAIN, HELD_OUT, TARGET, seed=0)
    assert made(TARGET, again.judged(TEST.images)) == rows
    other = References(TRAIN, HELD_OUT, TARGET, seed=1)
    assert (said(other, "forest")[0] != said(references, "forest")[0]).any()
    np.testing.assert_array_equal(said(other, "ridge")[0], said(references, "ridge")[0])


def test_of_many_rows_some_are_drawn(monkeypatch):
    monkeypatch.setattr(module, "MOST_IMAGES", 60)
    found = References(TRAIN, HELD_OUT, TARGET, seed=0)
    (forest,) = found.models["forest"].models
    assert forest.estimators_[0].tree_.n_node_samples[0] < 60  # a bootstrap sample of 60
    assert value(made(TARGET, found.judged(TEST.images)), "ridge", "rmse") < TEST.labels.std()


def test_what_is_predicted_without_an_error_is_not_infinitely_sure():
    x = np.random.default_rng(0).normal(size=(80, 1, 1, 2)).astype(np.float32)
    part = LabelledImages(x, 3 * x[:, 0, 0, 0].astype(np.float64) + 1e6)
    target = Numbers("y").fitted(part.labels)
    found = made(target, References(part, part, target, seed=0).judged(x), part)
    assert value(found, "ridge", "rmse") < 0.002
    assert all(np.isfinite(row.value) for row in found)


def test_who_does_not_beat_them_is_told(rows):
    def ensemble(rmse):
        own = [row for row in rows if row.method == "forest" and row.metric == "rmse"]
        return [row._replace(method="joint-adam", value=rmse, members=4) for row in own]

    assert unbeaten([*rows, *ensemble(40.0)], "joint-adam") == []
    assert unbeaten(ensemble(100.0), "joint-adam") == []  # they were not measured
    weak = unbeaten([*rows, *ensemble(100.0)], "joint-adam")
    assert [line.split(",")[0] for line in weak] == [
        f"joint-adam does not beat {name}" for name in REGRESSORS
    ]
    ridge = value(rows, "ridge", "rmse")
    assert f"a plain regression: test RMSE 100.000, against {ridge:.3f};" in weak[0]
    (same,) = unbeaten([*rows, *ensemble(ridge)], "joint-adam")  # no better
    assert "beat ridge" in same
