"""The table of methods, and which settings each of them makes use of."""

from dataclasses import fields, replace

import pytest
import torch

from uraenas.architecture.dirichlet import ArchitectureDistribution
from uraenas.chains import TrainSettings, plan_chains
from uraenas.methods import METHODS

SEARCHED = ArchitectureDistribution(torch.tensor([0.5, 1.0, 1.0, 2.0, 0.5], dtype=torch.float64).expand(6, 5))
GENOTYPE = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_3x3~2|"
OTHERWISE = {
    "members": 5,
    "architectures": 7,
    "architecture_temperature": 0.01,
    "draw_none": False,
    "genotype": GENOTYPE,
    "epochs": 100,
    "batch": 64,
    "prior_deviation": 1.0,
    "step_size": 0.05,
    "momentum": 0.5,
    "sampler": "sgld",
    "sampler_step_size": 0.05,
    "cycles": 2,
    "weight_samples": 8,
    "exploration": 0.5,
    "sampling_peak": 0.2,
    "average_samples": True,
    "temperature": 1.0,
    "selection": "greedy",
}


def what_is_done(name: str, settings: TrainSettings) -> tuple[object, ...]:
    """All that the members of a method depend on."""
    row = METHODS[name]
    plan, _ = plan_chains(row, settings, SEARCHED, seed=0)
    chosen = () if row.single else (settings.members, settings.selection)
    averaged = settings.average_samples and row.per_chain == "all"
    return plan, settings.rule(row.weights, 10, 1000), settings.batch, chosen, averaged


@pytest.mark.parametrize("name", METHODS)
def test_a_setting_is_ignored_where_it_changes_nothing_and_nowhere_else(name: str) -> None:
    assert set(OTHERWISE) == {field.name for field in fields(TrainSettings)}
    settings = TrainSettings()
    for key, value in OTHERWISE.items():
        assert getattr(settings, key) != value
        same = what_is_done(name, settings) == what_is_done(name, replace(settings, **{key: value}))
        assert METHODS[name].ignores(f"train.{key}") == same, key


@pytest.mark.parametrize("name", METHODS)
def test_only_methods_without_a_search_ignore_its_settings(name: str) -> None:
    searched = TrainSettings().needs_search(METHODS[name])
    for key in ("search.epochs", "data.search_validation"):
        assert METHODS[name].ignores(key) != searched
    assert not any(METHODS[name].ignores(key) for key in ("seed", "data.held_out", "network.cells"))
