"""A run that searches by queries, from its settings to its members, also when it is cut off between two stacks."""

from pathlib import Path

import pytest
import torch
from short_runs import FEW, assert_same_members

from uraenas.base.errors import UraenasError
from uraenas.run.config import preset
from uraenas.run.directory import SEARCH_STATE
from uraenas.run.pipeline import Pipeline

SETTINGS = {
    "methods": "drnas",
    "search.distribution": "evolution",
    "search.queries": 4,
    "search.query_epochs": 1,
    "search.evolution.together": 2,
    "search.evolution.population": 2,
    **FEW,
    "train.epochs": 1,
}


class Cut(Exception):
    """The process ends here."""


def test_a_run_cut_off_between_two_stacks_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    config = preset("tiny", SETTINGS)
    whole = Pipeline.start(tmp_path / "whole", config)
    found = whole.search()
    whole.train(found)
    assert found is not None

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
    assert_same_members(whole.run, again.run, "drnas")
    costs = [run.costs.read()["search"]["images"] for run in (whole.run, again.run)]
    assert costs[0] == costs[1]


def test_a_search_has_the_settings_of_its_loop_alone() -> None:
    values = preset("tiny", SETTINGS).values
    assert "search.point.step_size" in values
    assert not {"search.epochs", "search.order", "search.clip", "search.sampling.cycles"} & values.keys()
    with pytest.raises(UraenasError, match=r"search\.queries is no setting"):
        preset("tiny", {"search.queries": 5})
    with pytest.raises(UraenasError, match=r"unknown search\.weights 'sghmc'"):
        preset("tiny", {"search.distribution": "random", "search.weights": "sghmc"})
