"""Networks on tables learn for as many epochs as make enough steps, where nobody says for how many."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from uraenas import UraeNASRegressor
from uraenas.run.budget import plan
from uraenas.run.config import Config, preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

COLUMNS = np.random.default_rng(0).normal(size=(6000, 2))


def houses(folder: Path, rows: int) -> str:
    path = folder / f"{rows}.csv"
    with path.open("w") as file:
        csv.writer(file).writerows([("area", "rooms", "price"), *((a, b, a + b) for a, b in COLUMNS[:rows])])
    return str(path)


def planned(folder: Path, rows: int, budget: str | None = None, **settings: object) -> Pipeline:
    asked = {"data.name": houses(folder, rows), "data.target": "price", **settings}
    config = preset("table", asked)
    return plan(folder / f"run-{rows}", config, budget=budget, fixed=asked).pipeline


@pytest.mark.parametrize(("rows", "batch"), [(60, 32), (500, 32), (6000, 128)])
def test_a_table_of_any_size_is_learned_in_some_2000_steps(tmp_path: Path, rows: int, batch: int) -> None:
    pipeline = planned(tmp_path, rows)
    train = pipeline.config.train
    each = pipeline.task.steps(train.batch)
    assert train.batch == batch
    assert train.epochs == math.ceil(2000 / each)
    pipeline.begin()
    assert Run(tmp_path / f"run-{rows}").config() == pipeline.config
    assert planned(tmp_path, rows).config == pipeline.config  # the same command goes on
    assert Pipeline.resume(tmp_path / f"run-{rows}").config == pipeline.config


def test_what_is_asked_for_is_kept(tmp_path: Path) -> None:
    train = planned(tmp_path, 6000, **{"train.epochs": 3, "train.batch": 16}).config.train
    assert (train.epochs, train.batch) == (3, 16)
    train = planned(tmp_path, 6000, **{"train.batch": 16}).config.train
    assert (train.epochs, train.batch) == (20, 16)  # many rows are seen so often at least
    own = preset("table", {"data.name": houses(tmp_path, 60), "data.target": "price"})
    assert Pipeline.checked(tmp_path / "own", own).config == own


def test_a_budget_is_kept_by_the_next_command(tmp_path: Path) -> None:
    first = planned(tmp_path, 500, "20m")
    first.begin()
    assert planned(tmp_path, 500, "20m").config == first.config


def test_estimators_learn_as_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Config] = []

    def begin(pipeline: Pipeline) -> None:
        found.append(pipeline.config)
        raise KeyboardInterrupt  # before anything is learned

    monkeypatch.setattr(Pipeline, "begin", begin)
    for more in ({}, {"epochs": 7}):
        with pytest.raises(KeyboardInterrupt):
            UraeNASRegressor(**more).fit(COLUMNS[:500], COLUMNS[:500].sum(1))
    assert [config.train.epochs for config in found] == [2000 // 12 + 1, 7]
    assert found[0].methods == ("joint-adam",)
    assert found[0].chooses("joint-adam")
