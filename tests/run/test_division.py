"""How a run divides its images: a limit, an own validation part, and what classes weigh."""

from dataclasses import replace

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.data import Dataset, LabelledImages, digits
from uraenas.data.tables import TableSettings, table_dataset
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


@pytest.mark.parametrize(
    ("limit", "words"), [(5, "limit = 5 .* 30 and"), (29, "limit = 29 .* 30 and"), (-1, "limit")]
)
def test_a_limit_that_is_too_small_is_refused(limit, words):
    with pytest.raises(UraenasError, match=words):
        divided(limit=limit)


def test_crops_without_anything_of_the_image_are_refused():
    assert prepare(preset("tiny", {"data.padding": 7})).dataset.padding == 7
    with pytest.raises(UraenasError, match=r"padding = 8 would move images of 8×8 out of sight"):
        prepare(preset("tiny", {"data.padding": 8}))


def test_the_search_judges_on_the_share_that_is_for_validation_and_trains_on_the_rest():
    task = divided(limit=200)
    train, validation = task.search_halves(0.25)
    assert (len(train), len(validation)) == (round(0.75 * len(task.train)), round(0.25 * len(task.train)))
    assert numbers(train) | numbers(validation) == numbers(task.train)
    assert not numbers(train) & numbers(validation)


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


def table(rows: int = 120) -> Dataset:
    x = np.random.default_rng(0).random(rows)
    return table_dataset("rows", {"x": x, "y": 3 * x}, TableSettings("y", kind="numbers"))


def test_with_folds_a_limit_is_of_all_rows_that_chains_learn_from() -> None:
    task = prepare(preset("table", {"data.limit": 50}), table())
    assert len(task.train) == 50
    assert "50 of 96 training rows are used (data.limit)" in task.notes
    assert len(prepare(preset("table"), table()).train) == 96


def test_steps_are_counted_without_the_rows_that_a_chain_leaves_out(tmp_path) -> None:
    pipeline = Pipeline.checked(tmp_path, preset("table", {"train.epochs": 2}), dataset=table())
    task, batch = pipeline.task, pipeline.config.train.batch
    loader = task.loader(task.train, batch, pipeline.engine)
    assert (task.learned_from, task.steps(batch)) == (76, loader.steps)
    assert pipeline.forecast().plan["steps"] == 2 * loader.steps
    assert any(f"2 epochs of 76 rows are {2 * loader.steps} steps" in note for note in pipeline.notes())


@pytest.mark.parametrize(
    ("kind", "words"), [("numbers", "ridge and forest"), ("classes", "logistic and forest")]
)
def test_it_is_said_how_many_rows_references_learn_from(tmp_path, kind: str, words: str) -> None:
    random = np.random.default_rng(0).random(7000)
    frame = {"x": random, "y": (random > 0.5).astype(float)}
    dataset = table_dataset("rows", frame, TableSettings("y", kind=kind))
    notes = [
        note
        for note in Pipeline.checked(tmp_path, preset("table"), dataset=dataset).notes()
        if "forest" in note
    ]
    assert notes == [f"the references {words} learn from 4,000 of 4,480 training rows (evaluate.references)"]


def test_numbers_have_no_classes_to_balance() -> None:
    with pytest.raises(UraenasError, match="rows has numbers to predict, no classes"):
        prepare(preset("table", {"train.class_weights": "balanced"}), table())
