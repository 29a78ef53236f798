"""Settings: those that a method uses and no others, named, typed, in range, and the same after a trip through JSON."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from uraenas.base.errors import UraenasError
from uraenas.base.files import read_json
from uraenas.learning.chains import mover
from uraenas.learning.methods import DEFAULT, METHODS, method
from uraenas.run.config import (
    Config,
    build,
    differences,
    from_json,
    override,
    parse_assignments,
    preset,
)
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.presets import PRESETS
from uraenas.run.schema import explanations

DEFAULTS = build({})
GENOTYPE = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_and_survives_json(name: str) -> None:
    config = preset(name)
    again = from_json(json.loads(json.dumps(config.as_json())))
    assert again == config
    assert again.others == config.others
    assert config != DEFAULTS


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_sets_what_it_says(name: str) -> None:
    """And nothing that no method has: some settings are for methods that a user adds."""
    every = {**PRESETS[name], "methods": ",".join(METHODS)}
    values = {**build(every, required=PRESETS[name]).values, "methods": preset(name).methods}
    for key, value in PRESETS[name].items():
        shown = ",".join(map(str, values[key])) if isinstance(values[key], tuple) else values[key]
        assert shown == value, key
    assert preset(name).values.items() <= values.items()


# A setting exists where a method uses it


def sections(config: Config) -> set[str]:
    """All but those that every run has."""
    everywhere = {"data", "network", "evaluate", "engine", "train"}
    return {key.rpartition(".")[0] for key in config.values if "." in key} - everywhere


SEARCH = {"search", "search.dirichlet", "search.sampling"}
SECTIONS = {
    "drnas": {*SEARCH, "train.expected", "train.point"},
    "uraenas-w": {*SEARCH, "train.expected", "train.sampling", "ensemble"},
    "uraenas-a": {*SEARCH, "train.sampled", "train.point", "ensemble"},
    "uraenas": {*SEARCH, "train.sampled", "train.sampling", "ensemble"},
    "uraenas-swa": {*SEARCH, "train.sampled", "train.sampling", "ensemble"},
    "deep-ensemble": {*SEARCH, "train.expected", "train.point", "ensemble"},
    "deep-ensemble-swa": {*SEARCH, "train.expected", "train.sampling", "ensemble"},
    "random-ensemble": {"train.uniform", "train.point", "ensemble"},
    "hyper-ensemble": {*SEARCH, "train.expected", "train.varied", "train.point", "ensemble"},
    "hyper-deep": {*SEARCH, "train.expected", "train.varied", "train.point", "ensemble"},
    "nes": {"train.uniform", "train.point", "ensemble"},
    "joint": {*SEARCH, "train.sampled", "train.varied", "train.sampling", "ensemble"},
    "snapshot": {*SEARCH, "train.expected", "train.sampling", "ensemble"},
    "uraenas-adam": {*SEARCH, "train.sampled", "train.adam", "ensemble"},
    "deep-ensemble-adam": {*SEARCH, "train.expected", "train.adam", "ensemble"},
    "random-ensemble-adam": {"train.uniform", "train.adam", "ensemble"},
    "single-adam": {*SEARCH, "train.expected", "train.adam"},
    "joint-adam": {*SEARCH, "train.sampled", "train.varied", "train.adam", "ensemble"},
    "autodeuq": {*SEARCH, "train.sampled", "train.adam", "ensemble"},
    "mc-dropout": {*SEARCH, "train.expected", "train.dropout", "ensemble"},
    "dropconnect": {*SEARCH, "train.expected", "train.dropconnect", "ensemble"},
    "swapout": {*SEARCH, "train.expected", "train.swapout", "ensemble"},
    "stochastic-depth": {*SEARCH, "train.expected", "train.stochastic_depth"},
    "swag": {*SEARCH, "train.expected", "train.swag", "ensemble"},
    "multi-swag": {*SEARCH, "train.expected", "train.swag", "ensemble"},
    "fge": {*SEARCH, "train.expected", "train.fge", "ensemble"},
    "laplace": {*SEARCH, "train.expected", "train.point", "ensemble"},
    "batch-ensemble": {*SEARCH, "train.expected", "train.batch_ensemble", "ensemble"},
    "rank-one": {*SEARCH, "train.expected", "train.rank_one", "ensemble"},
    "mimo": {*SEARCH, "train.expected", "train.mimo", "ensemble"},
    "variational": {*SEARCH, "train.expected", "train.variational", "ensemble"},
    "ssig": {*SEARCH, "train.expected", "train.ssig", "ensemble"},
    "sebays": {*SEARCH, "train.expected", "train.sebays", "ensemble"},
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_sections_of_its_parts_and_no_others(name: str) -> None:
    for config in (DEFAULTS, preset("cifar10")):
        assert sections(config.only(name)) == SECTIONS[name]
    chain = {"step_size", "momentum", "floor", "cycles", "samples", "exploration", "peak"}
    of_kind = {
        "sghmc": {*chain, "temperature"},
        "snapshot": chain,  # which has no noise
        "swa": {*chain, "temperature", "mean_of"},
    }
    start = "train.sampling."
    own = {key.removeprefix(start) for key in DEFAULTS.only(name).values if key.startswith(start)}
    assert own == of_kind.get(method(name).weights, set())


def test_several_methods_have_the_settings_of_all() -> None:
    together = DEFAULTS.only("drnas", "uraenas-swa", "random-ensemble")
    all_three = (SECTIONS[name] for name in ("drnas", "uraenas-swa", "random-ensemble"))
    assert sections(together) == set().union(*all_three)


@pytest.mark.parametrize("name", ["drnas", "uraenas-w", "deep-ensemble", "snapshot", "deep-ensemble-swa"])
def test_a_given_genotype_needs_no_search_and_has_none_of_its_settings(name: str) -> None:
    given = preset("digits", {"methods": name, "train.expected.genotype": GENOTYPE})
    assert given.search is None
    assert sections(given) == SECTIONS[name] - SEARCH
    both = override(given, {"methods": f"{name},uraenas"})
    assert both.search is not None
    assert both.values["search.epochs"] == 30  # the preset's, kept meanwhile


def test_the_choices_of_a_search_decide_its_sections() -> None:
    point = build({"methods": "drnas", "search.weights": "point"})
    assert sections(point) == (SECTIONS["drnas"] | {"search.point"}) - {"search.sampling"}
    without = build({"methods": "drnas", "search.weights": "sgld"}).values
    assert "search.sampling.cycles" in without
    assert "search.sampling.momentum" not in without  # SGLD has none


@pytest.mark.parametrize(
    ("methods", "key", "value", "who"),
    [
        ("drnas", "ensemble.members", "5", "uraenas-w, uraenas-a, uraenas, uraenas-swa"),
        ("drnas,uraenas", "train.sampling.mean_of", "2", "uraenas-swa, deep-ensemble-swa"),
        ("random-ensemble", "search.epochs", "4", "drnas, uraenas-w, uraenas-a"),
        ("snapshot", "train.sampling.temperature", "1", "uraenas-w, uraenas, uraenas-swa, deep-ensemble-swa"),
        ("uraenas", "train.point.step_size", "1", "drnas, uraenas-a, deep-ensemble, random-ensemble"),
        ("uraenas", "train.expected.genotype", GENOTYPE, "drnas, uraenas-w, deep-ensemble"),
        ("uraenas", "search.point.step_size", "1", "none, with these choices"),
    ],
)
def test_a_setting_of_another_method_is_refused_and_the_methods_that_have_it_are_named(
    methods: str, key: str, value: str, who: str
) -> None:
    words = f"{key} is no setting of {', '.join(methods.split(','))}; methods that have it: {who}"
    for make in (lambda changes: preset("tiny", changes), lambda changes: override(DEFAULTS, changes)):
        with pytest.raises(UraenasError) as error:
            make({"methods": methods, key: value})
        assert str(error.value).startswith(words)


@pytest.mark.parametrize(
    ("distribution", "key", "place"),
    [("evolution", "search.epochs", "search.queries"), ("gdas", "search.queries", "search.epochs")],
)
def test_where_a_search_is_counted_differently_the_setting_that_it_has_in_place_is_named(
    distribution: str, key: str, place: str
) -> None:
    changes = {"search.distribution": distribution, key: "3"}
    with pytest.raises(
        UraenasError,
        match=rf"{key} is no .* with search.distribution={distribution}; in its place there is {place}$",
    ):
        preset("tiny", changes)
    with pytest.raises(UraenasError, match="methods that have it: "):  # that one has neither
        preset("tiny", {"methods": "random-ensemble", key: "3"})
    assert preset("tiny", {"search.distribution": distribution, place: "3"}).values[place] == 3


def test_settings_of_methods_that_a_run_had_before_are_kept_and_still_compared(tmp_path: Path) -> None:
    first = {"methods": "snapshot", "train.sampling.exploration": "0.25"}
    Pipeline.start(tmp_path, preset("tiny", first))
    Pipeline.start(tmp_path, preset("tiny", {"methods": "random-ensemble"}))
    stored = read_json(tmp_path / "config.json")
    assert stored["methods"] == ["random-ensemble"]
    assert stored["train.sampling.exploration"] == 0.25
    assert sections(Run(tmp_path).config()) == SECTIONS["random-ensemble"]
    words = r"other settings: train\.sampling\.exploration was 0\.25 and is now 0\.5; give those it had"
    with pytest.raises(UraenasError, match=words):
        Pipeline.start(tmp_path, preset("tiny", {**first, "train.sampling.exploration": "0.5"}))
    assert read_json(tmp_path / "config.json") == stored
    assert Pipeline.start(tmp_path, preset("tiny", first)).config.values["train.sampling.exploration"] == 0.25


@pytest.mark.parametrize("name", [*METHODS, "expected-sgld"])
def test_every_setting_has_a_value_of_its_type_that_its_text_gives_back(name: str) -> None:
    values = DEFAULTS.only(name).values
    texts = {k: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for k, v in values.items()}
    again = build(texts).values
    assert again == values
    assert {key: type(value) for key, value in again.items()} == {k: type(v) for k, v in values.items()}


# Reading


def test_overrides_read_texts_and_values_alike() -> None:
    texts = {
        "train.epochs": "60",
        "train.sampling.temperature": "0.5",
        "methods": "drnas, uraenas",
        "evaluate.severities": "1,3",
        "evaluate.keep_predictions": "False",
        "search.dirichlet.betas": "0.4,0.9",
        "data.name": "digits",
        "seed": "7",
    }
    values = {
        "train.epochs": 60,
        "train.sampling.temperature": 0.5,
        "methods": ["drnas", "uraenas"],
        "evaluate.severities": [1, 3],
        "evaluate.keep_predictions": False,
        "search.dirichlet.betas": [0.4, 0.9],
        "data.name": "digits",
        "seed": 7,
    }
    from_texts, from_values = override(DEFAULTS, texts), override(DEFAULTS, values)
    assert from_texts == from_values
    assert from_texts.train.epochs == 60
    assert from_texts.methods == ("drnas", "uraenas")
    assert from_texts.evaluate.severities == (1, 3)
    assert from_texts.evaluate.keep_predictions is False
    assert from_texts.search is not None
    assert from_texts.search.distribution.betas == (0.4, 0.9)
    assert from_texts.method("uraenas").weights.temperature == 0.5
    assert override(DEFAULTS, {}) == DEFAULTS


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("train.epoch", "train.epochs"),
        ("trian.epochs", "train.epochs"),
        ("search.sampling.temprature", "search.sampling.temperature"),
        ("sed", "seed"),
    ],
)
def test_an_unknown_key_names_the_nearest(key: str, near: str) -> None:
    with pytest.raises(UraenasError, match=f"unknown setting '{key}'. Did you mean '{near}'"):
        override(DEFAULTS, {key: "1"})


@pytest.mark.parametrize("stage", ["train", "search"])
def test_epochs_that_do_not_fit_the_cycles_name_those_that_do(stage: str) -> None:
    with pytest.raises(UraenasError, match=f"^{stage}.epochs = 25 must be.* take 24 or 26, or change cycles"):
        override(DEFAULTS, {f"{stage}.epochs": "25", f"{stage}.sampling.cycles": "2"})


@pytest.mark.parametrize("stage", ["train", "search"])
def test_a_value_that_a_part_refuses_is_said_with_its_section(stage: str) -> None:
    with pytest.raises(UraenasError, match=f"^{stage}.sampling.exploration = 2.0 is out of range"):
        override(DEFAULTS, {f"{stage}.sampling.exploration": "2"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samples": 2}, "leaves 1 for its 2 samples"),
        ({"exploration": 1.0}, "leaves 0 for its 1 samples, of which each needs one; change exploration"),
        (
            {"samples": 3, "exploration": 0.7, "epochs": 10},
            "leaves 2 for its 3 samples.*take 14 epochs",
        ),
    ],
)
def test_no_sample_is_taken_while_exploring(changes: dict, words: str) -> None:
    chosen = {"epochs": 4, "cycles": 2, "samples": 1, "exploration": 0.5, **changes}
    keys = {f"train.{'' if name == 'epochs' else 'sampling.'}{name}": v for name, v in chosen.items()}
    with pytest.raises(UraenasError, match=rf"^train\.sampling\.exploration = .*{words}"):
        preset("tiny", keys)
    preset("tiny", {"methods": "drnas", "train.epochs": 7})  # which has no cycles


def test_metrics_of_images_that_no_chain_sees_are_refused_where_there_are_none() -> None:
    with pytest.raises(UraenasError, match=r"^evaluate\.part = held_out needs .*use train.folds=0, or"):
        preset("table", parse_assignments(["evaluate.part=held_out"]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("conv", "cannot read genotype"),
        ("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|", "cuts the input off"),
        ("|nor_conv_7x7~0|+|none~0|none~1|+|none~0|none~1|skip_connect~2|", "unknown operation"),
    ],
)
def test_a_given_genotype_that_is_no_network_is_refused(text: str, words: str) -> None:
    with pytest.raises(UraenasError, match=rf"^train\.expected: .*{words}"):
        preset("tiny", {"train.expected.genotype": text})


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
        ("train.sampling.temperature", "warm", "a number"),
        ("train.sampling.temperature", "nan", "a number"),
        ("train.sampling.temperature", True, "a number"),
        ("train.sampling.temperature", None, "a number"),
        ("evaluate.keep_predictions", "perhaps", "true or false"),
        ("evaluate.keep_predictions", 1, "true or false"),
        ("data.name", 3, "a text"),
        ("methods", [1, 2], "a text"),
        ("search.dirichlet.betas", "0.5", "2 values"),
        ("evaluate.severities", "1,x", "a whole number"),
    ],
)
def test_a_value_of_the_wrong_type_says_what_is_allowed(key: str, value: Any, said: str) -> None:
    with pytest.raises(UraenasError, match=f"{key} = .* is not allowed; it must be {said}"):
        override(DEFAULTS, {key: value})


@pytest.mark.parametrize("key", ["evaluate.severities", "methods", "search.dirichlet.betas"])
@pytest.mark.parametrize("value", [5, 0.5, None, True])
def test_a_single_value_where_several_belong_is_refused(key: str, value: Any) -> None:
    with pytest.raises(UraenasError, match=key):
        override(DEFAULTS, {key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", "-1"),
        ("seed", str(2**63)),
        ("methods", ""),
        ("methods", "drnas,drnas"),
        ("network.channels", "0"),
        ("network.cells", "0"),
        ("network.halvings", "-2"),
        ("search.epochs", "0"),
        ("search.batch", "1"),
        ("search.sampling.cycles", "3"),
        ("search.sampling.step_size", "0"),
        ("search.dirichlet.step_size", "-1"),
        ("search.clip", "-1"),
        ("search.validation", "1"),
        ("search.sampling.floor", "-0.1"),
        ("search.sampling.momentum", "1"),
        ("search.sampling.temperature", "-1"),
        ("search.sampling.exploration", "1.5"),
        ("search.prior_deviation", "0"),
        ("search.dirichlet.regulariser_weight", "-1"),
        ("search.dirichlet.betas", "1.0,0.999"),
        ("search.dirichlet.betas", "0.5,-0.1"),
        ("ensemble.members", "0"),
        ("train.sampled.architectures", "0"),
        ("train.sampled.temperature", "0"),
        ("train.epochs", "7"),
        ("train.sampling.cycles", "0"),
        ("train.sampling.samples", "0"),
        ("train.sampling.samples", "51"),
        ("train.sampling.mean_of", "4"),
        ("train.point.step_size", "0"),
        ("train.point.floor", "-1"),
        ("train.sampling.step_size", "-0.1"),
        ("train.sampling.temperature", "-1"),
        ("train.sampling.exploration", "-0.1"),
        ("train.sampling.peak", "1.5"),
        ("evaluate.bootstrap", "-1"),
        ("evaluate.subsets", "0"),
        ("evaluate.severities", ""),
        ("evaluate.severities", "1,6"),
        ("engine.stack", "0"),
        ("data.held_out", "0"),
        ("data.held_out", "1"),
        ("data.padding", "-2"),
    ],
)
def test_a_value_out_of_range_is_refused(key: str, value: str) -> None:
    config = DEFAULTS.only(*METHODS)
    with pytest.raises(UraenasError, match=key.rpartition(".")[2]):
        override(config, {key: value})


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [
        ("methods", "uraena", "uraenas"),
        ("search.weights", "points", "point"),
        ("search.weights", "sgdl", "sgld"),
        ("search.distribution", "dirichle", "dirichlet"),
        ("network.space", "nasbench-201", "nasbench201"),
        ("search.dirichlet.regulariser", "l3", "l2"),
        ("ensemble.selection", "greed", "greedy"),
        ("evaluate.baseline", "deep-ensembl", "deep-ensemble"),
        ("engine.device", "cud", "cuda"),
        ("engine.precision", "float16", "bfloat16|float32|float64"),
    ],
)
def test_an_unknown_choice_names_the_nearest(key: str, value: str, near: str) -> None:
    with pytest.raises(UraenasError, match=f"unknown .*'{value}'. Did you mean '({near})'"):
        override(DEFAULTS, {key: value})


def test_chains_to_choose_from_are_refused_where_no_method_chooses() -> None:
    asked = {"ensemble.candidates": 20}
    with pytest.raises(UraenasError, match=r"ensemble\.candidates = 20 needs a choice of members"):
        override(DEFAULTS, asked)
    for choice in ({"ensemble.selection": "top-k"}, {"methods": "drnas,nes"}):
        assert override(DEFAULTS, {**asked, **choice}).ensemble.candidates == 20


@pytest.mark.parametrize("temperature", [0, 1e-4])
@pytest.mark.parametrize("momentum", [0, 0.9])
def test_methods_whose_chains_have_one_name_move_alike(temperature: float, momentum: float) -> None:
    names = "snapshot", "uraenas-w", "expected-sgld"
    asked = {"train.sampling.temperature": temperature, "train.sampling.momentum": momentum}
    methods = list(map(build({"methods": ",".join(names), **asked}).method, names))
    for one, other in itertools.combinations(methods, 2):
        alike = mover(one.weights) == mover(other.weights)
        assert alike == (one.chains == other.chains)


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(UraenasError, match="Did you mean 'digits'"):
        preset("digit")


@pytest.mark.parametrize("seed", [0, 2**53 + 1, 2**62 + 12345, 2**63 - 1])
@pytest.mark.parametrize("as_type", [int, str])
def test_every_seed_in_range_is_taken_exactly(seed: int, as_type: type) -> None:
    assert override(DEFAULTS, {"seed": as_type(seed)}).seed == seed


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
    old = DEFAULTS
    new = override(old, {"train.epochs": 100, "engine.stack": 3, "methods": "drnas", "engine.device": "cpu"})
    assert differences(old, new) == {"train.epochs": (200, 100)}
    assert differences(old, old) == {}
    others = override(new, {"methods": "uraenas", "evaluate.suite": "none", "train.sampling.samples": 2})
    assert differences(old, others) == {"train.epochs": (200, 100), "train.sampling.samples": (3, 2)}


def test_the_default_methods_are_those_of_the_paper_and_their_controls() -> None:
    assert DEFAULTS.methods == DEFAULT
    paper = {"drnas", "uraenas-w", "uraenas-a", "uraenas"}
    assert set(DEFAULT) == {*paper, "deep-ensemble", "random-ensemble", "snapshot"}


def test_a_gpu_is_called_cuda() -> None:
    """`gpu` is spelled nearer to `cpu`."""
    with pytest.raises(UraenasError, match="Did you mean 'cuda'"):
        preset("digits", {"engine.device": "gpu"})


def test_every_setting_is_explained_in_a_line() -> None:
    told = explanations()
    assert [key for key, words in told.items() if not words or "\n" in words] == []
    assert told["train.sampling.samples"] != told["train.sampling.cycles"]
    assert told["evaluate.subsets"].startswith("random member subsets"), "the comment beside the field"
