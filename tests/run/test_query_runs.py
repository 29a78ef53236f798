"""A run that searches by queries, from its settings to its members, also when it is cut off between two stacks."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from short_runs import assert_same_members
from two_workers import TwoWorkers

from uraenas import load_dataset
from uraenas.base.errors import UraenasError
from uraenas.run import forecast
from uraenas.run.config import preset
from uraenas.run.directory import SEARCH_STATE
from uraenas.run.export import usual_search
from uraenas.run.pipeline import Pipeline
from uraenas.run.places import Elsewhere
from uraenas.run.recipes import recipe_notes
from uraenas.run.task import prepare

SETTINGS = {
    "methods": "autodeuq",
    "search.distribution": "agebo",
    "search.weights": "adam",
    "search.queries": 4,
    "search.query_epochs": 1,
    "search.agebo.together": 2,
    "search.agebo.population": 2,
    "search.agebo.first": 2,
    "network.widths": "4,8",
    "network.nodes": 2,
    "train.folds": 0,
    "train.epochs": 1,
    "train.sampled.architectures": 3,
    "ensemble.members": 2,
    "ensemble.selection": "greedy",
    "engine.stack": 1,
    "data.limit": 100,
}


class Cut(Exception):
    """The process ends here."""


def test_a_search_cut_off_or_asked_of_workers_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "PAUSE", 0)  # progress is told at once
    config = preset("table", SETTINGS)
    whole = Pipeline.start(tmp_path / "whole", config)
    found = whole.search()
    whole.train(found)
    assert found is not None
    assert found.state["recipes"].unique(dim=0).shape == (4, 2)
    assert [row["queries"] for row in found.history] == [2, 4]  # two rounds
    assert all(name.startswith("learned-sampled-adam-") for name in whole.run.chains.names())

    told = []

    def cut(stage: str, done: float, total: float, left: float | None = None, found: str = "") -> None:
        told.append(found)
        if found:  # the first stack is through
            raise Cut

    with pytest.raises(Cut):
        Pipeline.start(tmp_path / "cut", config, cut).search()
    assert "entropy" in told[-1]
    assert "best" in told[-1]
    again = Pipeline.resume(tmp_path / "cut")
    assert again.run.has(SEARCH_STATE)
    assert again.forecast(evaluating=False, patience=0.0).plan["search_epochs"] == 2
    resumed = again.search()
    assert resumed is not None
    assert list(resumed.history) == list(found.history)
    for name, tensor in found.state.items():
        assert torch.equal(tensor, resumed.state[name]), name
    again.train(resumed)
    assert_same_members(whole.run, again.run, "autodeuq")
    costs = [run.costs.read()["search"]["images"] for run in (whole.run, again.run)]
    assert costs[0] == costs[1]

    with pytest.warns(UserWarning, match=r"one was seen to die; query-\d"):
        elsewhere = searched_elsewhere(tmp_path / "elsewhere", config)
    theirs = elsewhere.run.searched()
    assert list(theirs.history) == list(found.history)
    for name, tensor in found.state.items():
        assert torch.equal(tensor, theirs.state[name]), name
    costs = elsewhere.run.costs.read()
    assert costs["search"]["images"] == whole.run.costs.read()["search"]["images"]
    assert [costs[f"workers/{name}"]["queries"] for name in ("one", "two")] == [2, 2]


def searched_elsewhere(out: Path, config: Any) -> Pipeline:
    pipeline = Pipeline.start(out, config)
    pipeline.place = Elsewhere(TwoWorkers(dying=True))
    with pipeline.run.held(), closing(pipeline.place):
        pipeline.search()
    return pipeline


def test_recipes_of_a_search_that_has_none_are_refused_before_anything_is_written(
    tmp_path: Path, uraenas: Callable
) -> None:
    done = uraenas("run", "--preset", "table", "--methods", "autodeuq", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "autodeuq takes its recipes from the search, and dirichlet has none" in done.stderr
    assert "use search.distribution=agebo" in done.stderr
    assert not any(tmp_path.iterdir())


def test_the_packages_search_serves_no_method_that_takes_recipes_from_one() -> None:
    plain, with_recipes = (preset("tiny", {"methods": name}) for name in ("drnas", "autodeuq"))
    few = prepare(plain, replace(load_dataset("digits"), name="own"))
    assert usual_search(plain, few) is not None
    assert usual_search(with_recipes, few) is None


def test_a_note_tells_where_factors_of_the_search_are_of_other_settings() -> None:
    alike = {"search.batch": 32, "search.prior_deviation": 0.5}
    assert recipe_notes(preset("table", {**SETTINGS, **alike})) == []
    (note,) = recipe_notes(preset("table", {**SETTINGS, **alike, "search.weights": "point"}))
    assert "search.point.step_size = 0.1 and train.adam.step_size = 0.01; " in note
    (note,) = recipe_notes(preset("table", {**SETTINGS, **alike, "search.prior_deviation": 1}))
    assert ": search.prior_deviation = 1.0 and train.prior_deviation = 0.5; " in note
    assert recipe_notes(preset("table")) == []


def test_a_search_has_the_settings_of_its_loop_alone() -> None:
    values = preset("table", SETTINGS).values
    assert "search.adam.step_size" in values
    assert not {"search.epochs", "search.order", "search.clip", "search.sampling.cycles"} & values.keys()
    with pytest.raises(UraenasError, match=r"search\.queries is no setting"):
        preset("tiny", {"search.queries": 5})
    with pytest.raises(UraenasError, match=r"unknown search\.weights 'sghmc'"):
        preset("tiny", {"search.distribution": "random", "search.weights": "sghmc"})
