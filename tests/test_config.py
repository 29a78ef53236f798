"""Settings: named, typed, in range, and the same after a trip through JSON."""

import json
from typing import Any

import pytest

from uraenas.config import (
    Config,
    differences,
    flatten,
    from_json,
    override,
    parse_assignments,
    preset,
)
from uraenas.base.errors import UraenasError
from uraenas.methods import METHODS
from uraenas.presets import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_and_survives_json(name: str) -> None:
    config = preset(name)
    assert from_json(json.loads(json.dumps(flatten(config)))) == config
    assert flatten(config).keys() == flatten(Config()).keys()
    assert config != Config()


def test_every_preset_sets_what_it_says() -> None:
    flat = flatten(preset("digits"))
    assert {key: flat[key] for key in PRESETS["digits"]} == PRESETS["digits"]
    assert preset("tiny").methods == ("drnas", "uraenas", "deep-ensemble")


def test_overrides_read_texts_and_values_alike() -> None:
    texts = {
        "train.epochs": "60",
        "train.temperature": "0.5",
        "methods": "drnas, uraenas",
        "evaluate.severities": "1,3",
        "evaluate.keep_predictions": "False",
        "search.architecture_betas": "0.4,0.9",
        "data.name": "digits",
        "seed": "7",
    }
    values = {
        "train.epochs": 60,
        "train.temperature": 0.5,
        "methods": ["drnas", "uraenas"],
        "evaluate.severities": [1, 3],
        "evaluate.keep_predictions": False,
        "search.architecture_betas": [0.4, 0.9],
        "data.name": "digits",
        "seed": 7,
    }
    from_texts, from_values = override(Config(), texts), override(Config(), values)
    assert from_texts == from_values
    assert from_texts.train.epochs == 60
    assert from_texts.methods == ("drnas", "uraenas")
    assert from_texts.evaluate.severities == (1, 3)
    assert from_texts.evaluate.keep_predictions is False
    untouched = override(Config(), {})
    assert untouched == Config()


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("train.epoch", "train.epochs"),
        ("trian.epochs", "train.epochs"),
        ("search.temprature", "search.temperature"),
        ("sed", "seed"),
    ],
)
def test_an_unknown_key_names_the_nearest(key: str, near: str) -> None:
    with pytest.raises(UraenasError, match=f"unknown setting '{key}'. Did you mean '{near}'"):
        override(Config(), {key: "1"})


@pytest.mark.parametrize("section", ["train", "search"])
def test_epochs_that_do_not_fit_the_cycles_name_those_that_do(section: str) -> None:
    with pytest.raises(UraenasError, match="take 24 or 26, or change cycles"):
        override(Config(), {f"{section}.epochs": "25", f"{section}.cycles": "2"})


@pytest.mark.parametrize("section", ["train", "search"])
def test_a_value_that_a_part_refuses_is_said_with_its_section(section: str) -> None:
    with pytest.raises(UraenasError, match=f"^{section}: exploration = 2.0 is out of range"):
        override(Config(), {f"{section}.exploration": "2"})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("train.epochs", "many", "a whole number"),
        ("train.epochs", "2.5", "a whole number"),
        ("train.epochs", 2.5, "a whole number"),
        ("train.epochs", True, "a whole number"),
        ("train.epochs", None, "a whole number"),
        ("train.epochs", "inf", "a whole number"),
        ("train.epochs", [1], "a whole number"),
        ("train.temperature", "warm", "a number"),
        ("train.temperature", "nan", "a number"),
        ("train.temperature", True, "a number"),
        ("train.temperature", None, "a number"),
        ("evaluate.keep_predictions", "perhaps", "true or false"),
        ("evaluate.keep_predictions", 1, "true or false"),
        ("data.name", 3, "a text"),
        ("methods", [1, 2], "a text"),
        ("search.architecture_betas", "0.5", "2 values"),
        ("evaluate.severities", "1,x", "a whole number"),
    ],
)
def test_a_value_of_the_wrong_type_says_what_is_allowed(key: str, value: Any, said: str) -> None:
    with pytest.raises(UraenasError, match=f"{key} = .* is not allowed; it must be {said}"):
        override(Config(), {key: value})


@pytest.mark.parametrize("key", ["evaluate.severities", "methods", "search.architecture_betas"])
@pytest.mark.parametrize("value", [5, 0.5, None, True])
def test_a_single_value_where_several_belong_is_refused(key: str, value: Any) -> None:
    with pytest.raises(UraenasError, match=key):
        override(Config(), {key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", "-1"),
        ("seed", str(2**63)),
        ("methods", ""),
        ("methods", "drnas,drnas"),
        ("network.channels", "0"),
        ("network.cells", "0"),
        ("search.epochs", "0"),
        ("search.batch", "1"),
        ("search.cycles", "3"),
        ("search.step_size", "0"),
        ("search.architecture_step_size", "-1"),
        ("search.clip", "-1"),
        ("search.floor", "-0.1"),
        ("search.momentum", "1"),
        ("search.temperature", "-1"),
        ("search.exploration", "1.5"),
        ("search.prior_deviation", "0"),
        ("search.regulariser_weight", "-1"),
        ("search.architecture_betas", "1.0,0.999"),
        ("search.architecture_betas", "0.5,-0.1"),
        ("train.members", "0"),
        ("train.architectures", "0"),
        ("train.epochs", "7"),
        ("train.cycles", "0"),
        ("train.weight_samples", "3"),
        ("train.step_size", "0"),
        ("train.sampler_step_size", "-0.1"),
        ("train.temperature", "-1"),
        ("train.exploration", "-0.1"),
        ("evaluate.bootstrap", "-1"),
        ("evaluate.subsets", "0"),
        ("evaluate.severities", ""),
        ("evaluate.severities", "1,6"),
        ("engine.stack", "0"),
        ("data.held_out", "0"),
        ("data.held_out", "1"),
        ("data.search_validation", "1"),
        ("data.padding", "-2"),
    ],
)
def test_a_value_out_of_range_is_refused(key: str, value: str) -> None:
    with pytest.raises(UraenasError):
        override(Config(), {key: value})


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [
        ("methods", "uraena", "uraenas"),
        ("search.weights", "points", "point"),
        ("search.sampler", "sgdl", "sgld"),
        ("search.regulariser", "l3", "l2"),
        ("train.sampler", "sghcm", "sghmc"),
        ("train.selection", "greed", "greedy"),
        ("evaluate.baseline", "deep-ensembl", "deep-ensemble"),
        ("engine.device", "cud", "cuda"),
        ("engine.precision", "float16", "bfloat16|float32|float64"),
    ],
)
def test_an_unknown_choice_names_the_nearest(key: str, value: str, near: str) -> None:
    with pytest.raises(UraenasError, match=f"unknown .*'{value}'. Did you mean '({near})'"):
        override(Config(), {key: value})


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(UraenasError, match="Did you mean 'digits'"):
        preset("digit")


@pytest.mark.parametrize("seed", [0, 2**53 + 1, 2**62 + 12345, 2**63 - 1])
@pytest.mark.parametrize("as_type", [int, str])
def test_every_seed_in_range_is_taken_exactly(seed: int, as_type: type) -> None:
    assert override(Config(), {"seed": as_type(seed)}).seed == seed


def test_assignments_are_split_at_the_first_equals_sign() -> None:
    assert parse_assignments(["a = 1", "data.name=x=y", "b="]) == {"a": "1", "data.name": "x=y", "b": ""}
    for text in ("train.epochs", "=3", " = 3"):
        with pytest.raises(UraenasError, match="expected key=value"):
            parse_assignments([text])


@pytest.mark.parametrize("stored", [None, [], "text", 3])
def test_a_stored_config_that_is_no_table_is_refused(stored: Any) -> None:
    with pytest.raises(UraenasError, match="does not hold a table"):
        from_json(stored)


def test_differences_list_what_changes_the_result_and_nothing_else() -> None:
    old = Config()
    new = override(old, {"train.epochs": 100, "engine.stack": 3, "methods": "drnas", "engine.device": "cpu"})
    assert differences(old, new) == {"train.epochs": (200, 100)}
    assert differences(old, old) == {}


def test_all_methods_are_the_default() -> None:
    assert Config().methods == tuple(METHODS)
    assert len(METHODS) == 7
