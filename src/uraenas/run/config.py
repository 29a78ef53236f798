"""A run's settings: values by key, the parts that they make, what presets and `key=value` change, and what differs.

Which keys there are is in `schema.py`.
"""

from collections.abc import Container, Iterable, Mapping
from functools import cached_property
from typing import Any

from uraenas.architectures import DISTRIBUTIONS
from uraenas.base.errors import UraenasError, unknown
from uraenas.base.files import FORMAT
from uraenas.base.parts import Part, naming, row_of
from uraenas.data import DataSettings
from uraenas.data.augment import AUGMENTATIONS, Augmentation, asked_for
from uraenas.engine import EngineSettings
from uraenas.ensemble import EnsembleSettings
from uraenas.evaluation import EvaluateSettings
from uraenas.learning.chains import TrainSettings
from uraenas.learning.loops import LoopParts
from uraenas.learning.methods import Assembled, method
from uraenas.learning.recipes import RECIPES
from uraenas.learning.sources import SOURCES
from uraenas.run.parsing import parse
from uraenas.run.presets import PRESETS
from uraenas.run.schema import DATA, ENGINE, ENSEMBLE, EVALUATE, TRAIN, every_key, lacking, loop_of, schema_of
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
            with naming(f"train.{assembled.row.recipes}"):
                assembled.recipes.check(assembled.weights, self.train.epochs)
        if self.search is not None:
            settings = self.search.settings
            with naming(f"search.{self.search.weights.section}", epochs=f"search.{settings.epochs_name}"):
                settings.check(self.search.weights)
        with naming("evaluate.baseline"):
            method(self.evaluate.baseline)
        self._check_folds()
        self._check_candidates()

    def _check_folds(self) -> None:
        """With folds there are no images that no chain has seen."""
        if self.train.folds and self.evaluate.part == "held_out":
            raise UraenasError(
                "evaluate.part = held_out needs images that no chain learns from; "
                "use train.folds=0, or evaluate.part=test"
            )

    def _check_candidates(self) -> None:
        """More chains than members need a way to choose."""
        asked = self.values.get("ensemble.candidates", 0)
        if asked and not any(self.chooses(name) for name in self.methods):
            raise UraenasError(
                f"ensemble.candidates = {asked} needs a choice of members; use ensemble.selection=greedy, repeated "
                "or top-k, or a method that chooses (nes, hyper-deep, autodeuq)"
            )

    def chooses(self, name: str) -> bool:
        """Whether this method's members are chosen by what they say of held-out images."""
        row = method(name)
        return not row.single and self.ensemble.chosen_by(row.selection).judges

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
        loop, weights = loop_of(name), self.values["search.weights"]
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
        asked = map(asked_for, self.train.augmentation)
        return tuple(self._made(f"train.{name}", AUGMENTATIONS[name], own) for name, own in asked)

    @cached_property
    def ensemble(self) -> EnsembleSettings:
        return self._made("ensemble", ENSEMBLE)

    @cached_property
    def evaluate(self) -> EvaluateSettings:
        return self._made("evaluate", EVALUATE)

    @cached_property
    def engine(self) -> EngineSettings:
        return self._made("engine", ENGINE)

    @property
    def needs_search(self) -> bool:
        """Whether there is a search, and something is made of what it finds."""
        return self.search is not None and any(self.method(name).needs_search for name in self.methods)

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

    def _made(self, section: str, part: Part[Any], own: Mapping[str, Any] | None = None) -> Any:
        """The part with the values of its section, and others of its own in their place."""
        keys = {name: f"{section}.{name}" for name in part.settings}
        values = {name: self.values[key] for name, key in keys.items() if key in self.values}
        with naming(section):
            return part.make({**values, **(own or {})})

    # What differs

    @property
    def every(self) -> dict[str, Any]:
        """All values, also those of settings that no method has now."""
        return {**self.others, **self.values}

    def only(self, *methods: str) -> "Config":
        """The settings that these methods have, and no others."""
        if methods not in self._only:
            found = build({**self.every, "methods": methods})
            found.others = {}
            self._only[methods] = found
        return self._only[methods]

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **self.every}


def build(values: Mapping[str, Any], required: Iterable[str] = ()) -> Config:
    """The config with these values, texts or of the right type, and defaults for the rest.

    Values of settings that none of its methods has are put aside, unless they are `required` to count.
    """
    every = every_key()
    for key in values:
        if key not in every:
            name = key.rpartition(".")[2]  # often right, in another section
            namesakes = [one for one in every if one.rpartition(".")[2] == name]
            raise unknown("setting", key, namesakes or every)
    parsed = {key: parse(key, value, every[key]) for key, value in values.items()}
    schema = schema_of(parsed)
    for key in required:
        if key not in schema:
            raise lacking(key, parsed)
    taken = {key: parsed.get(key, setting.default) for key, setting in schema.items()}
    return Config(taken, {key: value for key, value in parsed.items() if key not in schema})


def preset(
    name: str, changes: Mapping[str, Any] | None = None, known: Container[str] | None = None
) -> Config:
    """The settings of this name, with dotted keys changed.

    Of a run from before, the keys that are `known` to it count; what the preset has come to say since then does not.
    """
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    changes = changes or {}
    own = {key: value for key, value in PRESETS[name].items() if known is None or key in known}
    return build({**own, **changes}, required=changes)


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """The config with dotted keys changed."""
    return build({**config.every, **changes}, required=changes)


def from_json(stored: Any) -> Config:
    """The config that `as_json` described."""
    if not isinstance(stored, dict):
        raise UraenasError("config.json does not hold a table of settings")
    return build({key: value for key, value in stored.items() if key not in NO_SETTINGS})


def deciding(config: Config) -> dict[str, Any]:
    """The settings that a run may not change once it has begun."""
    return {key: value for key, value in config.every.items() if not key.startswith(FREE_KEYS)}


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
    before, after = old.every, new.every
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
