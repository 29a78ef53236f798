"""How a run divides its images: a limit, an own validation part, and what classes weigh."""

from dataclasses import replace

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.data import Dataset, LabelledImages, digits
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline
from uraenas.run.task import Task, prepare


def divided(dataset: Dataset | None = None, **changes: object) -> Task:
    keys = {"limit": "data.limit", "seed": "seed", "weights": "train.class_weights"}
    return prepare(preset("tiny", {keys[name]: value for name, value in changes.items()}), dataset)


def numbers(part: LabelledImages) -> set[bytes]:
    return {image.tobytes() for image in part.images}


def test_a_limit_takes_so_many_training_images_of_all_classes_in_their_shares():
    task = divided(limit=200)
    assert len(task.train) + len(task.held_out) == 200
    both = np.concatenate([task.train.labels, task.held_out.labels])
    shares = np.bincount(digits().train.labels) / len(digits().train)
    assert np.abs(np.bincount(both) - 200 * shares).max() < 2
    assert not numbers(task.train) & numbers(task.held_out)
    assert len(task.dataset.test) == len(digits().test)
    assert "200 of 1,258 training images are used" in " ".join(task.notes)


def test_the_seed_decides_which_images_a_limit_takes_and_the_checksum_stays():
    """Runs of other seeds are tested on the same images, and can be compared."""
    one, again, other = divided(limit=200), divided(limit=200), divided(limit=200, seed=1)
    np.testing.assert_array_equal(one.train.images, again.train.images)
    assert numbers(one.train) != numbers(other.train)
    assert one.facts.blake2b == other.facts.blake2b == divided().facts.blake2b


def test_without_a_limit_or_above_all_images_nothing_changes():
    np.testing.assert_array_equal(divided().train.images, divided(limit=100_000).train.images)
    assert divided().notes == []


@pytest.mark.parametrize(("limit", "words"), [(5, "each at least 10"), (20, "training image"), (-1, "limit")])
def test_a_limit_that_is_too_small_is_refused(limit, words):
    with pytest.raises(UraenasError, match=words):
        divided(limit=limit)


def with_validation() -> Dataset:
    whole = digits()
    return replace(whole, validation=whole.test.take(np.arange(50)))


def test_a_validation_part_is_held_out_instead_of_a_share():
    dataset = with_validation()
    task = divided(dataset)
    assert len(task.train) == len(dataset.train)
    np.testing.assert_array_equal(task.held_out.images, dataset.validation.images)
    assert task.notes == ["50 images of the validation part are held out"]
    assert task.facts.blake2b != divided().facts.blake2b
    assert len(divided(dataset, limit=300).train) == 300


def test_temperature_and_threshold_rest_on_the_validation_part(tmp_path):
    config = preset("tiny", {"methods": "random-ensemble", "evaluate.suite": "none"})
    pipeline = Pipeline.start(tmp_path / "run", config, dataset=with_validation())
    pipeline.train(None)
    held_out = pipeline.run.ensemble().require_known().held_out
    assert (len(held_out), held_out.images_apart) == (50, 25)
    assert pipeline.run.data().held_out_images == 50


def test_balanced_classes_weigh_the_same_in_all():
    whole = digits()
    few = np.flatnonzero((whole.train.labels != 3) | (np.arange(len(whole.train)) % 5 == 0))
    task = divided(replace(whole, train=whole.train.take(few)), weights="balanced")
    for part in (task.train, task.held_out):
        sums = np.bincount(part.labels, weights=part.weights)
        np.testing.assert_allclose(sums, len(part) / 10, rtol=1e-5)
    assert divided().train.weights is None
    with pytest.raises(UraenasError, match="class_weights"):
        divided(weights="even")


def test_balanced_weights_multiply_those_of_images():
    whole = digits()
    own = np.linspace(0.5, 2, len(whole.train), dtype=np.float32)
    given = replace(whole, train=replace(whole.train, weights=own))
    plain, balanced = divided(given), divided(given, weights="balanced")
    ratio = balanced.train.weights / plain.train.weights
    for label in range(10):
        assert np.ptp(ratio[plain.train.labels == label]) < 1e-5
