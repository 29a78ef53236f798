"""Runs whose training images are augmented: settings, stops, stacks, and what is not augmented."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from short_runs import assert_same_members, stopped_in_training, trained

from uraenas.base.errors import UraenasError
from uraenas.data import Dataset, LabelledImages
from uraenas.data.augment import AUGMENTATIONS
from uraenas.data.loader import Loader
from uraenas.run.config import FREE_KEYS, build, deciding, from_json, preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.rates import Rates

CHANGING = [name for name in AUGMENTATIONS if name != "none"]
GENOTYPE = "|nor_conv_1x1~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|none~2|"
QUICK = {"data.limit": "60", "train.expected.genotype": GENOTYPE, "evaluate.suite": "none"}


def run_of(out: Path, name: str) -> list[str | Path]:
    settings = {**QUICK, "train.augmentation": name}
    assignments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ["run", "--preset", "tiny", "--methods", "drnas", *assignments, "--out", out]


def test_an_augmentation_may_be_named_with_several_strengths() -> None:
    config = build(
        {"train.augmentation": "primitives:0.5,primitives:2,trivial", "train.trivial.strength": 0.1}
    )
    found = [(type(one).__name__, one.strength) for one in config.augmentations]
    assert found == [("Primitives", 0.5), ("Primitives", 2.0), ("Trivial", 0.1)]
    assert "train.primitives.strength" not in config.values
    assert build(config.values).augmentations == config.augmentations


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("primitives:11", r"train\.primitives\.strength = 11.* is out of range"),
        ("none:1", "none has no strength"),
        ("cutout:", "a number follows the colon"),
        ("cutout:half", "a number follows the colon"),
        ("primitive:1", "Did you mean 'primitives'"),
        ("cutout:1,cutout:1", "names none, or one twice"),
    ],
)
def test_a_strength_that_is_none_is_refused(asked: str, why: str) -> None:
    with pytest.raises(UraenasError, match=why):
        build({"train.augmentation": asked})


@pytest.mark.parametrize("name", CHANGING)
def test_a_run_that_is_stopped_ends_as_if_nothing_had_been(
    uraenas: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Rates, "_timed", lambda rates, step, steps: 1e-3)  # nobody asks how long it will take
    whole = uraenas(*run_of(tmp_path / "whole", name))
    assert whole.returncode == 0, whole.stderr
    with stopped_in_training():
        assert uraenas(*run_of(tmp_path / "stopped", name)).returncode == 130
    assert uraenas("train", tmp_path / "stopped").returncode == 0
    runs = Run(tmp_path / "whole"), Run(tmp_path / "stopped")
    assert_same_members(*runs, "drnas")


def test_augmentation_changes_what_is_learned(tmp_path: Path) -> None:
    quick = {**QUICK, "train.epochs": 1}
    runs = [
        trained(tmp_path / name, "drnas", **quick, **{"train.augmentation": name})
        for name in ("none", "cutout")
    ]
    assert len({run.ensemble("drnas").identity for run in runs}) == 2


def test_a_chain_does_not_depend_on_its_stack(tmp_path: Path) -> None:
    quick = {"data.limit": 60, "evaluate.suite": "none", "train.augmentation": "cutmix,none"}
    runs = [
        trained(tmp_path / str(stack), "random-ensemble", **quick, **{"engine.stack": stack})
        for stack in (1, 2)
    ]
    assert_same_members(*runs, "random-ensemble")


def test_only_chains_see_augmented_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search and the statistics of SWA means use loaders of the images as they are."""
    made: list[bool] = []
    init = Loader.__init__

    def noted(loader: Loader, *arguments: object) -> None:
        init(loader, *arguments)  # type: ignore[arg-type]
        made.append(loader.augmentations != ())

    monkeypatch.setattr(Loader, "__init__", noted)
    sampling = {"train.sampling.samples": 2, "train.epochs": 4, "train.sampling.exploration": 0.5}
    quick = {"data.limit": 60, "search.epochs": 1, "train.augmentation": "mixup", **sampling}
    trained(tmp_path / "run", "uraenas-swa", **quick)
    assert made == [False, False, True, False]


def test_floats_are_refused_before_anything_is_learned(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    parts = [LabelledImages(random.random((30, 8, 8, 1), np.float32), np.arange(30) % 3) for _ in range(2)]
    dataset = Dataset("floats", *parts, classes=("a", "b", "c"), padding=0, flip=False)
    config = preset("tiny", {"train.augmentation": "cutout"})
    with pytest.raises(UraenasError, match="these are float32"):
        Pipeline.start(tmp_path / "run", config, dataset=dataset)


# Settings


@pytest.mark.parametrize("name", CHANGING)
def test_an_augmentation_has_the_settings_of_its_section(name: str) -> None:
    config = build({"train.augmentation": name, f"train.{name}.strength": "1"})
    assert config.augmentations == (AUGMENTATIONS[name].make({"strength": 1.0}),)
    others = {f"train.{other}.strength" for other in CHANGING if other != name}
    assert not others & set(config.values)
    assert from_json(json.loads(json.dumps(config.as_json()))) == config
    assert f"train.{name}.strength" in deciding(config)
    assert not "train.augmentation".startswith(FREE_KEYS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train.augmentation": "cutot"}, "unknown augmentation 'cutot'. Did you mean 'cutout'"),
        ({"train.augmentation": "augmix,augmix"}, "train.augmentation = augmix,augmix names none, or one twice"),
        ({"train.mixup.strength": 0.5}, "train.mixup.strength is no setting of"),
        ({"train.augmentation": "augmix", "train.augmix.strength": 11}, "train.augmix.strength = 11.0 is out of"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_in_one_line(changes: dict, message: str) -> None:
    with pytest.raises(UraenasError, match=message):
        preset("tiny", changes)
