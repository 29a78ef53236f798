"""A run's settings: the parts' own settings composed, and what presets and `key=value` change of them."""

import dataclasses
import math
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from uraenas.chains import TrainSettings
from uraenas.data import DataSettings
from uraenas.engine import EngineSettings
from uraenas.errors import UraenasError, require_range, unknown
from uraenas.evaluate import EvaluateSettings
from uraenas.methods import METHODS, method
from uraenas.presets import PRESETS
from uraenas.search import SearchSettings


@dataclass(frozen=True)
class NetworkSettings:
    """Width and depth of all networks; image size, channels and classes come from the data."""

    channels: int = 16
    cells: int = 5  # per stage

    def __post_init__(self) -> None:
        require_range("network.channels", self.channels, 1, 1024)
        require_range("network.cells", self.cells, 1, 100)


@dataclass(frozen=True)
class Config:
    """Everything that decides a run's result, and how it is computed."""

    seed: int = 0
    methods: tuple[str, ...] = tuple(METHODS)
    tensorboard: bool = False  # event files of search and training under RUN/tensorboard
    data: DataSettings = field(default_factory=DataSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)

    def __post_init__(self) -> None:
        if not self.methods:
            raise UraenasError(f"methods is empty; choose from {', '.join(METHODS)}")
        for name in self.methods:
            method(name)
        if len(set(self.methods)) < len(self.methods):
            raise UraenasError(f"methods names one twice: {', '.join(self.methods)}")
        if not 0 <= self.seed < 2**63:
            raise UraenasError(f"seed = {self.seed} is out of range; it must lie in 0 … 2^63 - 1")


# Keys that may differ when a run goes on, and what they begin with: where it computes and finds its data (which
# data.json knows again), what is watched and measured, which methods are wanted of it.
FREE_KEYS = (
    "methods",
    "data.name",
    "data.root",
    "tensorboard",
    "evaluate.",
    "engine.device",
    "engine.stack",
    "engine.checkpoint_seconds",
)


def preset(name: str) -> Config:
    """The settings of this name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return override(Config(), PRESETS[name])


def override(config: Config, changes: dict[str, Any]) -> Config:
    """The config with dotted keys set; values are texts or already of the right type."""
    flat = flatten(config)
    kinds = _kinds(Config)
    for key, value in changes.items():
        if key not in flat:
            raise unknown("setting", key, flat)
        flat[key] = _parse(key, value, kinds[key])
    return _build(flat)


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """`["train.epochs=3"]` → `{"train.epochs": "3"}`."""
    changes = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UraenasError(f"cannot read {text!r}; expected key=value, such as train.epochs=20")
        changes[key.strip()] = value.strip()
    return changes


def flatten(config: Config) -> dict[str, Any]:
    """Dotted keys → values."""
    flat: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            flat |= {
                f"{item.name}.{part.name}": getattr(value, part.name) for part in dataclasses.fields(value)
            }
        else:
            flat[item.name] = value
    return flat


def from_json(stored: Any) -> Config:
    """The config that `flatten` described, read back from JSON."""
    if not isinstance(stored, dict):
        raise UraenasError("config.json does not hold a table of settings")
    return override(Config(), stored)


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """The settings that differ and change the result: key → (old, new)."""
    before, after = flatten(old), flatten(new)
    return {k: (before[k], after[k]) for k in before if before[k] != after[k] and not k.startswith(FREE_KEYS)}


def measuring(config: Config) -> dict[str, Any]:
    """The settings that decide what metrics.json holds of trained members, as JSON has them."""
    left_out = ("evaluate.baseline", "evaluate.keep_predictions")
    chosen = {k: v for k, v in flatten(config).items() if k.startswith("evaluate.") and k not in left_out}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in chosen.items()}


def measured_otherwise(metrics: Mapping[str, Any], config: Config) -> dict[str, tuple[Any, Any]]:
    """What metrics.json was measured by, where that is known and differs: key → (old, new)."""
    now = measuring(config)
    before = metrics.get("settings", {})
    return {key: (old, now[key]) for key, old in before.items() if key in now and old != now[key]}


def in_words(changed: dict[str, tuple[Any, Any]]) -> str:
    """What `differences` found, to be told."""
    return ", ".join(f"{key} was {old!r} and is now {new!r}" for key, (old, new) in changed.items())


def _kinds(kind: type) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            kinds |= {f"{name}.{inner}": k for inner, k in _kinds(hint).items()}  # type: ignore[arg-type]
        else:
            kinds[name] = hint
    return kinds


def _build(flat: dict[str, Any]) -> Config:
    parts: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for key, value in flat.items():
        section, dot, name = key.partition(".")
        if dot:
            parts.setdefault(section, {})[name] = value
        else:
            top[key] = value
    hints = typing.get_type_hints(Config)
    return Config(**top, **{section: hints[section](**values) for section, values in parts.items()})


def _parse(key: str, value: Any, kind: Any) -> Any:
    """A value of this type, from a text or from JSON."""
    origin = typing.get_origin(kind)
    if origin is tuple:
        inner = typing.get_args(kind)
        if not isinstance(value, str | list | tuple):
            raise _refused(key, value, "a list of values, separated by commas")
        items = [v.strip() for v in value.split(",") if v.strip()] if isinstance(value, str) else list(value)
        if inner[-1] is not Ellipsis and len(items) != len(inner):
            raise _refused(key, value, f"{len(inner)} values, separated by commas")
        return tuple(_parse(key, item, inner[0]) for item in items)
    if kind is bool:
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise _refused(key, value, "true or false")
    if kind is str:
        if isinstance(value, str):
            return value
        raise _refused(key, value, "a text")
    try:
        number = (
            kind(value)
            if not isinstance(value, bool)
            and (kind is float or isinstance(value, str) or int(value) == value)
            else None
        )
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or (kind is float and not math.isfinite(number)):
        raise _refused(key, value, "a whole number" if kind is int else "a number")
    return number


def _refused(key: str, value: Any, allowed: str) -> UraenasError:
    return UraenasError(f"{key} = {value!r} is not allowed; it must be {allowed}")
