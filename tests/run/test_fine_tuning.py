"""What a budget does with few images: networks start from those of the package where these fit."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_budget import given

from uraenas.architectures import Searched
from uraenas.base.errors import UraenasError
from uraenas.data import Dataset, LabelledImages, load_dataset
from uraenas.engine import Engine
from uraenas.run import budget
from uraenas.run.advice import advice, on_search
from uraenas.run.budget import plan
from uraenas.run.config import Config, override, preset
from uraenas.run.directory import Run
from uraenas.run.export import usual_search
from uraenas.run.facts import DataFacts, marks_of
from uraenas.run.fine_tuning import ENOUGH_STEPS_ON, FEW_STEPS_ON, fine_tuning
from uraenas.run.pipeline import Pipeline
from uraenas.run.task import Task, prepare


def images(side: int = 28, channels: int = 1) -> Dataset:
    """Three classes of noise."""
    random = np.random.default_rng(0)
    parts = [
        LabelledImages(
            random.integers(0, 256, (n, side, side, channels), dtype=np.uint8),
            np.arange(n, dtype=np.int64) % 3,
        )
        for n in (90, 30)
    ]
    return Dataset("others", *parts, classes=("a", "b", "c"), padding=0, flip=False)


def task(dataset: Dataset) -> Task:
    return prepare(preset("digits"), dataset)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that take as long as they are said to."""
    monkeypatch.setattr(budget, "Rates", lambda config, task, engine, searched, _: given(config, searched))


@pytest.mark.usefixtures("measured")
def test_a_budget_lets_few_images_start_from_shipped_networks_says_so_and_goes_on_with_it(
    tmp_path: Path,
) -> None:
    config = preset("digits", {"evaluate.references": False})
    known = {"dataset": images(), "search_of": "usual", "fixed": {"evaluate.references"}}
    planned = plan(tmp_path / "run", config, budget=600, **known)
    chosen = planned.pipeline.config
    assert chosen.values["train.sampled.start"] == "cifar10-small"
    assert (chosen.network.channels, chosen.network.cells, chosen.methods) == (16, 1, ("uraenas",))
    assert chosen.method("uraenas").weights.step_size == 0.01
    assert planned.expected.plan["steps"] >= ENOUGH_STEPS_ON
    assert planned.expected.plan["chains"] == chosen.ensemble.members == 6  # each member has its own
    assert len({start.architecture for start in planned.pipeline.task.starts}) > 1
    (told,) = [line for line in planned.notes if "start from" in line]
    assert told.startswith("networks start from those of cifar10-small, trained on CIFAR-10;")
    planned.pipeline.begin()
    again = plan(tmp_path / "run", config, budget=600, **known)
    assert again.pipeline.config == chosen


def test_where_there_is_no_time_for_them_networks_are_narrower_and_start_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them take 4,160 s at least, of eight channels 4,000, of four 2,000."""

    def slow(
        config: Config, task: Task, engine: Engine, searched: Searched, patience: float
    ) -> SimpleNamespace:
        rates = given(config, searched)
        epoch = 1000 * rates.chain_epoch("", 1)
        return SimpleNamespace(**{**vars(rates), "chain_epoch": lambda spec, count: epoch})

    monkeypatch.setattr(budget, "Rates", slow)
    config = preset("digits", {"methods": "uraenas", "evaluate.references": False})
    planned = plan(tmp_path / "run", config, dataset=images(), search_of="usual", budget=3000)
    assert planned.pipeline.config.values["train.sampled.start"] == ""
    assert planned.pipeline.config.network.channels == 4
    assert not [line for line in planned.notes if "start from" in line]


def test_images_that_shipped_networks_have_learned_are_neither_held_out_nor_tested_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, few = preset("digits", {"methods": "uraenas"}), task(images())
    for part, taken in ((few.train, True), (few.held_out, False), (few.dataset.test, False)):
        monkeypatch.setattr(DataFacts, "marks", {marks_of(part.take(np.arange(1)))})
        assert (usual_search(config, few) is not None) == taken
        assert (fine_tuning(config, few, ()) is not None) == taken
        notes = on_search(config, few)
        assert any("images are training images of CIFAR-10" in note for note in notes) != taken
    start = {"train.sampled.start": "cifar10-small", "network.channels": 16, "network.cells": 1}
    with pytest.raises(UraenasError, match="cifar10-small has seen 1 of the 30 test images"):
        Pipeline.checked(tmp_path / "run", override(config, start), dataset=few.dataset)


@pytest.mark.data
def test_shipped_runs_know_the_images_of_cifar10_that_they_have_learned() -> None:
    """Own folders may hold some of them."""
    cifar = load_dataset("cifar10")
    for name in ("cifar10", "cifar10-small", "cifar10-one"):
        facts = Run.pretrained(name).data()
        learned, tested = (facts.has_learned(part) for part in (cifar.train, cifar.test))
        assert (learned, tested) == (45_000, 0)


def test_settings_that_are_given_stay_and_decide_whether_networks_start_trained() -> None:
    few = task(images())

    def found(**changes: object) -> object:
        return fine_tuning(preset("digits", changes), few, changes)

    batch = found(**{"train.batch": 32, "methods": "uraenas-a"})
    assert batch is not None
    assert (batch.train.batch, batch.method("uraenas-a").weights.step_size) == (32, 0.01)
    for changes in (
        {"train.sampled.start": ""},
        {"network.channels": 8},
        {"network.space": "nasbench201", "network.cells": 2},
        {"methods": "uraenas,deep-ensemble"},  # whose networks would start from nothing
        {"methods": "joint"},
        {"train.point.step_size": 0.05},  # which uraenas has not
    ):
        assert found(**changes) is None, changes
    larger = preset("cifar10-fast", {"methods": "uraenas"})
    assert fine_tuning(larger, few, {"methods"}) is None


@pytest.mark.parametrize(
    ("side", "channels", "fits"), [(32, 3, True), (8, 1, False), (64, 3, False), (32, 2, False)]
)
def test_images_of_another_format_start_from_nothing(side: int, channels: int, fits: bool) -> None:
    assert (fine_tuning(preset("digits"), task(images(side, channels)), ()) is not None) == fits


def test_networks_that_start_trained_are_said_to_want_as_many_steps_as_a_budget_gives_them() -> None:
    few = task(images())
    config = fine_tuning(preset("digits"), few, ())
    assert config is not None
    each = few.steps(config.train.batch)

    def notes(steps: int) -> list[str]:
        now = override(config, {"train.epochs": -(-steps // each)})
        return [line for line in advice(now, few) if "too few to learn well" in line]

    assert not notes(FEW_STEPS_ON)
    (note,) = notes(FEW_STEPS_ON // 2)
    advised = int(note.partition("train.epochs=")[2].split()[0])
    assert ENOUGH_STEPS_ON <= advised * each < 2 * ENOUGH_STEPS_ON
