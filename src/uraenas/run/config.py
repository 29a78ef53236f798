"""A run's settings: the sections of the parts that its methods are made of, and what presets and `key=value` change.

A key is `section.name`. Which sections there are follows from the choices `methods`, `network.space`,
`search.distribution`, `search.weights` and `train.augmentation`, so a run has no setting that none of its methods uses.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from uraenas.architectures import DISTRIBUTIONS
from uraenas.base.errors import UraenasError, unknown
from uraenas.base.files import FORMAT
from uraenas.base.parts import Part, naming, row_of
from uraenas.data import DataSettings
from uraenas.data.augment import AUGMENTATIONS, Augmentation
from uraenas.engine import EngineSettings
from uraenas.ensemble import EnsembleSettings
from uraenas.evaluation import EvaluateSettings
from uraenas.learning.chains import TrainSettings
from uraenas.learning.loops import LOOPS, Loop, LoopParts
from uraenas.learning.methods import DEFAULT, METHODS, Assembled, method
from uraenas.learning.recipes import RECIPES
from uraenas.learning.search import SearchSettings
from uraenas.learning.sources import SOURCES
from uraenas.run.explained import explained
from uraenas.run.parsing import parse
from uraenas.run.presets import PRESETS
from uraenas.spaces import SPACES, Space
from uraenas.weights import WEIGHTS

# Keys that may differ when a run goes on, and what they begin with: where it computes and finds its data (which
# data.json knows again), what is watched and measured, which methods are wanted of it.
FREE_KEYS = (
    "methods",
    "data.name",
    "data.root",
    "data.skip_unreadable",
    "tensorboard",
    "evaluate.",
    "engine.device",
    "engine.stack",
    "engine.checkpoint_seconds",
)
NO_SETTINGS = ("format", "run", "chains")  # what config.json says besides them: whose it is


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


class Config:
    """Everything that decides a run's result, and how it is computed: dotted keys → values, and the parts they make.

    `others` are values of settings that no method of the run has now; they are kept for methods it had before.
    """

    def __init__(self, values: Mapping[str, Any], others: Mapping[str, Any] | None = None) -> None:
        self.values, self.others = dict(values), dict(others or {})
        self._only: dict[tuple[str, ...], Config] = {}
        for part in ("data", "network", "search", "train", "augmentations", "ensemble", "evaluate", "engine"):
            getattr(self, part)  # its checks are ours
        for name in self.methods:
            assembled = self.method(name)
            with naming(f"train.{assembled.row.source}"):
                assembled.source.check(self.network)
            with naming(f"train.{assembled.weights.section}", epochs="train.epochs"):
                assembled.weights.check(self.train.epochs)
        if self.search is not None:
            settings = self.search.settings
            with naming(f"search.{self.search.weights.section}", epochs=f"search.{settings.epochs_name}"):
                settings.check(self.search.weights)
        with naming("evaluate.baseline"):
            method(self.evaluate.baseline)
        self._check_folds()

    def _check_folds(self) -> None:
        """With folds there are no images that no chain has seen."""
        if self.train.folds and self.evaluate.part == "held_out":
            raise UraenasError(
                "evaluate.part = held_out needs images that no chain learns from; "
                "use train.folds=0, or evaluate.part=test"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.values == other.values

    def __hash__(self) -> int:
        return hash(tuple(self.values.items()))

    def __repr__(self) -> str:
        return f"Config({self.values})"

    # Parts

    @property
    def seed(self) -> int:
        return self.values["seed"]

    @property
    def methods(self) -> tuple[str, ...]:
        return self.values["methods"]

    @property
    def tensorboard(self) -> bool:
        return self.values["tensorboard"]

    @cached_property
    def data(self) -> DataSettings:
        return self._made("data", DATA)

    @cached_property
    def network(self) -> Space:
        """The space, for images of no shape in particular yet."""
        return self._made("network", row_of(SPACES, "space", self.values["network.space"]))

    @cached_property
    def search(self) -> LoopParts | None:
        """None where no method needs one."""
        if "search.distribution" not in self.values:
            return None
        name = self.values["search.distribution"]
        loop, weights = _loop_of(name), self.values["search.weights"]
        part = row_of(loop.weights, "search.weights", weights)
        return loop.parts(
            self._made("search", loop.settings),
            self._made(f"search.{name}", DISTRIBUTIONS[name]),
            self._made(f"search.{part.made.section}", part),
        )

    @cached_property
    def train(self) -> TrainSettings:
        return self._made("train", TRAIN)

    @cached_property
    def augmentations(self) -> tuple[Augmentation, ...]:
        """Of the images that chains are trained on."""
        return tuple(self._made(f"train.{name}", AUGMENTATIONS[name]) for name in self.train.augmentation)

    @cached_property
    def ensemble(self) -> EnsembleSettings:
        return self._made("ensemble", ENSEMBLE)

    @cached_property
    def evaluate(self) -> EvaluateSettings:
        return self._made("evaluate", EVALUATE)

    @cached_property
    def engine(self) -> EngineSettings:
        return self._made("engine", ENGINE)

    def method(self, name: str) -> Assembled:
        """A method with the parts that these settings make."""
        row = method(name)
        source, recipes, weights = SOURCES[row.source], RECIPES[row.recipes], WEIGHTS[row.weights]
        return Assembled(
            name,
            row,
            self._made(f"train.{row.source}", source),
            self._made(f"train.{row.recipes}", recipes),
            self._made(f"train.{weights.made.section}", weights),
        )

    def _made(self, section: str, part: Part[Any]) -> Any:
        keys = {name: f"{section}.{name}" for name in part.settings}
        with naming(section):
            return part.make({name: self.values[key] for name, key in keys.items() if key in self.values})

    # What differs

    def only(self, *methods: str) -> "Config":
        """The settings that these methods have, and no others."""
        if methods not in self._only:
            found = build({**self.others, **self.values, "methods": methods})
            found.others = {}
            self._only[methods] = found
        return self._only[methods]

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **self.others, **self.values}


def build(values: Mapping[str, Any], required: Iterable[str] = ()) -> Config:
    """The config with these values, texts or of the right type, and defaults for the rest.

    Values of settings that none of its methods has are put aside, unless they are `required` to count.
    """
    every = _every_key()
    for key in values:
        if key not in every:
            name = key.rpartition(".")[2]  # often right, in another section
            namesakes = [one for one in every if one.rpartition(".")[2] == name]
            raise unknown("setting", key, namesakes or every)
    parsed = {key: parse(key, value, every[key]) for key, value in values.items()}
    schema = _schema(parsed)
    for key in required:
        if key not in schema:
            raise UraenasError(
                f"{key} is no setting of {', '.join(parsed.get('methods', DEFAULT))}; methods that have it: "
                f"{', '.join(_who_has(key, parsed)) or 'none, with these choices'}"
            )
    taken = {key: parsed.get(key, setting.default) for key, setting in schema.items()}
    return Config(taken, {key: value for key, value in parsed.items() if key not in schema})


def preset(name: str, changes: Mapping[str, Any] | None = None) -> Config:
    """The settings of this name, with dotted keys changed."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    changes = changes or {}
    return build({**PRESETS[name], **changes}, required=changes)


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """The config with dotted keys changed."""
    return build({**config.others, **config.values, **changes}, required=changes)


def from_json(stored: Any) -> Config:
    """The config that `as_json` described."""
    if not isinstance(stored, dict):
        raise UraenasError("config.json does not hold a table of settings")
    return build({key: value for key, value in stored.items() if key not in NO_SETTINGS})


def deciding(config: Config) -> dict[str, Any]:
    """The settings that a run may not change once it has begun."""
    every = {**config.others, **config.values}
    return {key: value for key, value in every.items() if not key.startswith(FREE_KEYS)}


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """`["train.epochs=3"]` → `{"train.epochs": "3"}`."""
    changes = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UraenasError(f"cannot read {text!r}; expected key=value, such as train.epochs=20")
        changes[key.strip()] = value.strip()
    return changes


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """The settings that both have, that differ and that change the result: key → (old, new)."""
    before, after = {**old.others, **old.values}, {**new.others, **new.values}
    return {
        key: (before[key], after[key])
        for key in before
        if key in after and before[key] != after[key] and not key.startswith(FREE_KEYS)
    }


def in_words(changed: Mapping[str, tuple[Any, Any]]) -> str:
    """What `differences` found, to be told."""
    return ", ".join(f"{key} was {old!r} and is now {new!r}" for key, (old, new) in changed.items())


def measuring(config: Config) -> dict[str, Any]:
    """The settings that decide what metrics.json holds of trained members, as JSON has them."""
    left_out = ("evaluate.baseline", "evaluate.keep_predictions")
    chosen = {k: v for k, v in config.values.items() if k.startswith("evaluate.") and k not in left_out}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in chosen.items()}


def measured_differently(settings: Mapping[str, Any], config: Config) -> dict[str, tuple[Any, Any]]:
    """What metrics were measured by, where it differs from the settings now: key → (old, new)."""
    now = measuring(config)
    return {key: (old, now[key]) for key, old in settings.items() if key in now and old != now[key]}


# Which settings there are


def _schema(values: Mapping[str, Any]) -> Schema:
    """The settings that follow from the choices among these values."""

    def chosen(key: str, default: Any) -> Any:
        return values.get(key, default)

    methods = chosen("methods", DEFAULT)
    schema: Schema = dict(_of(None, TOP))
    TopSettings(**{key: chosen(key, setting.default) for key, setting in schema.items()})  # its checks
    schema |= _of("data", DATA)
    schema |= _of("network", CHOICE)
    schema |= _of("network", row_of(SPACES, "space", chosen("network.space", SpaceChoice.space)))
    rows = [method(name) for name in methods]
    sources = dict.fromkeys(row.source for row in rows)
    of_sources = {key: s for name in sources for key, s in _of(f"train.{name}", SOURCES[name]).items()}
    if any(_needs_search(name, values) for name in sources):
        distribution = chosen("search.distribution", SearchSettings.distribution)
        loop = _loop_of(distribution)
        schema |= _of("search", loop.settings)
        weights = chosen("search.weights", schema["search.weights"].default)
        schema |= _of(f"search.{distribution}", DISTRIBUTIONS[distribution])
        part = row_of(loop.weights, "search.weights", weights)
        schema |= _of(f"search.{part.made.section}", part)
    schema |= _of("train", TRAIN)
    for name in chosen("train.augmentation", TrainSettings.augmentation):
        schema |= _of(f"train.{name}", row_of(AUGMENTATIONS, "augmentation", name))
    schema |= of_sources
    for name in dict.fromkeys(row.recipes for row in rows):
        schema |= _of(f"train.{name}", RECIPES[name])
    for name in dict.fromkeys(row.weights for row in rows):
        schema |= _of(f"train.{WEIGHTS[name].made.section}", WEIGHTS[name])
    if not all(row.single for row in rows):
        schema |= _of("ensemble", ENSEMBLE)
    return {**schema, **_of("evaluate", EVALUATE), **_of("engine", ENGINE)}


def _loop_of(distribution: str) -> Loop:
    """How the distribution of this name is searched for."""
    return LOOPS[row_of(DISTRIBUTIONS, "distribution", distribution).made.loop]


@cache
def _of(section: str | None, part: Part[Any]) -> Mapping[str, Setting]:
    """The settings of a part, by key."""
    defaults = {field.name: field.default for field in dataclasses.fields(part.made)} | dict(part.defaults)
    prefix = "" if section is None else f"{section}."
    return {f"{prefix}{name}": Setting(kind, defaults[name]) for name, kind in part.settings.items()}


def _needs_search(source: str, values: Mapping[str, Any]) -> bool:
    names = SOURCES[source].settings
    own = {name: values[key] for name in names if (key := f"train.{source}.{name}") in values}
    with naming(f"train.{source}"):
        return SOURCES[source].make(own).needs_search


def explanations() -> dict[str, str]:
    """What each setting is for, in a line."""
    return {
        f"{section}.{name}" if section else name: explained(part.made, name)
        for section, part in _every_part()
        for name in part.settings
    }


def _every_key() -> dict[str, Any]:
    """All keys that there are, whatever is chosen, with their types."""
    return {key: s.kind for section, part in _every_part() for key, s in _of(section, part).items()}


def _every_part() -> Iterator[tuple[str | None, Part[Any]]]:
    """All parts that have settings, with their sections."""
    return iter(
        [
            (None, TOP),
            ("data", DATA),
            ("network", CHOICE),
            *(("network", part) for part in SPACES.values()),
            *(("search", loop.settings) for loop in LOOPS.values()),
            *((f"search.{name}", part) for name, part in DISTRIBUTIONS.items()),
            *(
                (f"search.{part.made.section}", part)
                for loop in LOOPS.values()
                for part in loop.weights.values()
            ),
            ("train", TRAIN),
            *((f"train.{name}", part) for name, part in {**AUGMENTATIONS, **SOURCES, **RECIPES}.items()),
            *((f"train.{part.made.section}", part) for part in WEIGHTS.values()),
            ("ensemble", ENSEMBLE),
            ("evaluate", EVALUATE),
            ("engine", ENGINE),
        ]
    )


def _who_has(key: str, values: Mapping[str, Any]) -> list[str]:
    """The methods that have a setting."""
    return [name for name in METHODS if key in _schema({**values, "methods": (name,)})]
