"""Which settings there are: the sections of the parts that a run's methods are made of.

A key is `section.name`. Which sections there are follows from the choices `methods`, `network.space`,
`search.distribution`, `search.weights` and `train.augmentation`, so a run has no setting that none of its methods uses.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from uraenas.architectures import DISTRIBUTIONS
from uraenas.base.errors import UraenasError
from uraenas.base.parts import Part, naming, row_of
from uraenas.data import DataSettings
from uraenas.data.augment import AUGMENTATIONS, asked_for
from uraenas.engine import EngineSettings
from uraenas.ensemble import EnsembleSettings
from uraenas.evaluation import EvaluateSettings
from uraenas.learning.chains import TrainSettings
from uraenas.learning.loops import LOOPS, Loop
from uraenas.learning.methods import DEFAULT, METHODS, method
from uraenas.learning.recipes import RECIPES
from uraenas.learning.search import SearchSettings
from uraenas.learning.sources import SOURCES
from uraenas.run.explained import explained
from uraenas.spaces import SPACES
from uraenas.weights import WEIGHTS


@dataclass(frozen=True)
class TopSettings:
    """What belongs to no section."""

    seed: int = 0
    methods: tuple[str, ...] = DEFAULT
    tensorboard: bool = False  # event files of search and training under RUN/tensorboard

    def __post_init__(self) -> None:
        if not self.methods:
            raise UraenasError(f"methods is empty; choose from {', '.join(METHODS)}")
        for name in self.methods:
            method(name)
        if len(set(self.methods)) < len(self.methods):
            raise UraenasError(f"methods names one twice: {', '.join(self.methods)}")
        if not 0 <= self.seed < 2**63:
            raise UraenasError(f"seed = {self.seed} is out of range; it must lie in 0 … 2^63 - 1")


@dataclass(frozen=True)
class SpaceChoice:
    """Which space networks are from; its own settings follow."""

    space: str = "nasbench201"


@dataclass(frozen=True)
class Setting:
    """One key: its type, and its value unless it is set."""

    kind: Any
    default: Any


Schema = dict[str, Setting]

TOP, DATA, CHOICE, TRAIN = Part(TopSettings), Part(DataSettings), Part(SpaceChoice), Part(TrainSettings)
ENSEMBLE, EVALUATE, ENGINE = Part(EnsembleSettings), Part(EvaluateSettings), Part(EngineSettings)


def schema_of(values: Mapping[str, Any]) -> Schema:
    """The settings that follow from the choices among these values."""

    def chosen(key: str, default: Any) -> Any:
        return values.get(key, default)

    methods = chosen("methods", DEFAULT)
    schema: Schema = dict(_settings(None, TOP))
    TopSettings(**{key: chosen(key, setting.default) for key, setting in schema.items()})  # its checks
    schema |= _settings("data", DATA)
    schema |= _settings("network", CHOICE)
    schema |= _settings("network", row_of(SPACES, "space", chosen("network.space", SpaceChoice.space)))
    rows = [method(name) for name in methods]
    sources = dict.fromkeys(row.source for row in rows)
    of_sources = {key: s for name in sources for key, s in _settings(f"train.{name}", SOURCES[name]).items()}
    if any(_needs_search(name, values) for name in sources):
        distribution = chosen("search.distribution", SearchSettings.distribution)
        loop = loop_of(distribution)
        schema |= _settings("search", loop.settings)
        weights = chosen("search.weights", schema["search.weights"].default)
        schema |= _settings(f"search.{distribution}", DISTRIBUTIONS[distribution])
        part = row_of(loop.weights, "search.weights", weights)
        schema |= _settings(f"search.{part.made.section}", part)
    schema |= _settings("train", TRAIN)
    for text in chosen("train.augmentation", TrainSettings.augmentation):
        with naming("train"):
            name, own = asked_for(text)
        settings = _settings(f"train.{name}", row_of(AUGMENTATIONS, "augmentation", name))
        schema |= {key: one for key, one in settings.items() if key.rpartition(".")[2] not in own}
    schema |= of_sources
    for name in dict.fromkeys(row.recipes for row in rows):
        schema |= _settings(f"train.{name}", RECIPES[name])
    for name in dict.fromkeys(row.weights for row in rows):
        schema |= _settings(f"train.{WEIGHTS[name].made.section}", WEIGHTS[name])
    if not all(row.single for row in rows):
        schema |= _settings("ensemble", ENSEMBLE)
    return {**schema, **_settings("evaluate", EVALUATE), **_settings("engine", ENGINE)}


def every_key() -> dict[str, Any]:
    """All keys that there are, whatever is chosen, with their types."""
    return {key: s.kind for section, part in _every_part() for key, s in _settings(section, part).items()}


def lacking(key: str, values: Mapping[str, Any]) -> UraenasError:
    """The error for a setting that the methods of these values do not have: who has it, or what they have instead."""
    name = values.get("search.distribution", SearchSettings.distribution)
    own, *units = (f"search.{loop.settings.made.unit}" for loop in (loop_of(name), *LOOPS.values()))
    told = f"{key} is no setting of {', '.join(values.get('methods', DEFAULT))}"
    if key in units and own in schema_of(values):  # searches are counted differently
        return UraenasError(f"{told} with search.distribution={name}; in its place there is {own}")
    having = [name for name in METHODS if key in schema_of({**values, "methods": (name,)})]
    return UraenasError(f"{told}; methods that have it: {', '.join(having) or 'none, with these choices'}")


def explanations() -> dict[str, str]:
    """What each setting is for, in a line."""
    return {
        f"{section}.{name}" if section else name: explained(part.made, name)
        for section, part in _every_part()
        for name in part.settings
    }


def loop_of(distribution: str) -> Loop:
    """How the distribution of this name is searched for."""
    return LOOPS[row_of(DISTRIBUTIONS, "distribution", distribution).made.loop]


def _needs_search(source: str, values: Mapping[str, Any]) -> bool:
    names = SOURCES[source].settings
    own = {name: values[key] for name in names if (key := f"train.{source}.{name}") in values}
    with naming(f"train.{source}"):
        return SOURCES[source].make(own).needs_search


@cache
def _settings(section: str | None, part: Part[Any]) -> Mapping[str, Setting]:
    """The settings of a part, by key."""
    defaults = {field.name: field.default for field in dataclasses.fields(part.made)} | dict(part.defaults)
    prefix = "" if section is None else f"{section}."
    return {f"{prefix}{name}": Setting(kind, defaults[name]) for name, kind in part.settings.items()}


def _every_part() -> list[tuple[str | None, Part[Any]]]:
    """All parts that have settings, with their sections."""
    of_search = [part for loop in LOOPS.values() for part in loop.weights.values()]
    return [
        (None, TOP),
        ("data", DATA),
        ("network", CHOICE),
        *(("network", part) for part in SPACES.values()),
        *(("search", loop.settings) for loop in LOOPS.values()),
        *((f"search.{name}", part) for name, part in DISTRIBUTIONS.items()),
        *((f"search.{part.made.section}", part) for part in of_search),
        ("train", TRAIN),
        *((f"train.{name}", part) for name, part in {**AUGMENTATIONS, **SOURCES, **RECIPES}.items()),
        *((f"train.{part.made.section}", part) for part in WEIGHTS.values()),
        ("ensemble", ENSEMBLE),
        ("evaluate", EVALUATE),
        ("engine", ENGINE),
    ]
