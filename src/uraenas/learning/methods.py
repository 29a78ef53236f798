"""The table of methods: a source of architectures, recipes, a kind of weights, and what a chain gives."""

import sys
from dataclasses import dataclass
from typing import Literal

from uraenas.base.errors import UnknownName, unknown
from uraenas.learning.recipes import RECIPES, Recipes
from uraenas.learning.sources import SOURCES, Source
from uraenas.weights import WEIGHTS, WeightMethod


@dataclass(frozen=True)
class Method:
    """A row of choices."""

    source: str  # of SOURCES
    weights: str  # of WEIGHTS
    # members from one chain: the newest, all it can give, some
    per_chain: Literal["one", "all"] | int = "one"
    single: bool = False  # one member, whatever the ensemble's size
    recipes: str = "same"  # of RECIPES
    selection: str = "in-turn"  # its own way to choose members
    candidates: int = 1  # chains trained for each that is needed, where members are chosen by held-out NLL

    @property
    def most_per_chain(self) -> int:
        if isinstance(self.per_chain, int):
            return self.per_chain
        return {"one": 1, "all": sys.maxsize}[self.per_chain]


METHODS: dict[str, Method] = {
    "drnas": Method("expected", "point", single=True),
    "uraenas-w": Method("expected", "sghmc", per_chain="all"),
    "uraenas-a": Method("sampled", "point"),
    "uraenas": Method("sampled", "sghmc", per_chain="all"),
    "uraenas-swa": Method("sampled", "swa", per_chain="all"),
    "deep-ensemble": Method("expected", "point"),
    "deep-ensemble-swa": Method("expected", "swa"),
    "random-ensemble": Method("uniform", "point"),
    "snapshot": Method("expected", "snapshot", per_chain="all"),
    "hyper-ensemble": Method("expected", "point", recipes="varied"),
    "hyper-deep": Method("expected", "point", recipes="varied", selection="repeated", candidates=3),
    "nes": Method("uniform", "point", selection="greedy", candidates=3),
    "joint": Method("sampled", "swa", recipes="varied"),
    "uraenas-adam": Method("sampled", "adam"),
    "deep-ensemble-adam": Method("expected", "adam"),
    "single-adam": Method("expected", "adam", single=True),
    "random-ensemble-adam": Method("uniform", "adam"),
    "joint-adam": Method("sampled", "adam", recipes="varied", selection="repeated"),
    "autodeuq": Method("sampled", "adam", recipes="learned", selection="greedy"),
    "mc-dropout": Method("expected", "dropout", per_chain="all"),
    "dropconnect": Method("expected", "dropconnect", per_chain="all"),
    "swapout": Method("expected", "swapout", per_chain="all"),
    "stochastic-depth": Method("expected", "stochastic_depth", single=True),
    "swag": Method("expected", "swag", per_chain="all"),
    "multi-swag": Method("expected", "swag", per_chain=4),
    "laplace": Method("expected", "laplace", per_chain="all"),
    "fge": Method("expected", "fge", per_chain="all"),
    "batch-ensemble": Method("expected", "batch_ensemble", per_chain="all"),
    "rank-one": Method("expected", "rank_one", per_chain="all"),
    "mimo": Method("expected", "mimo", per_chain="all"),
    "variational": Method("expected", "variational", per_chain="all"),
    "ssig": Method("expected", "ssig", per_chain="all"),
    "sebays": Method("expected", "sebays", per_chain="all"),
}
# What a run has unless it says otherwise: the paper's, and those they must be held against.
DEFAULT = ("drnas", "uraenas-w", "uraenas-a", "uraenas", "deep-ensemble", "random-ensemble", "snapshot")


def method(name: str) -> Method:
    """The row of this name. One without a name of its own is called by its choices: `expected-sgld`."""
    if name in METHODS:
        return _with_parts(name, METHODS[name])
    source, _, weights = name.partition("-")
    if source in SOURCES and weights in WEIGHTS:
        return Method(source, weights, per_chain="all")
    if source in SOURCES and weights:
        raise unknown("kind of weights", weights, WEIGHTS)
    raise unknown("method", name, METHODS)


def _with_parts(name: str, row: Method) -> Method:
    """The row, whose choices must be there."""
    tables = {"source": SOURCES, "kind of weights": WEIGHTS, "recipes": RECIPES}
    for (kind, table), choice in zip(tables.items(), (row.source, row.weights, row.recipes), strict=True):
        if choice not in table:
            raise UnknownName(f"method {name}: {unknown(kind, choice, table)}")
    return row


@dataclass(frozen=True)
class Assembled:
    """A method with its parts, made from a run's settings."""

    name: str
    row: Method
    source: Source
    recipes: Recipes
    weights: WeightMethod

    @property
    def origin(self) -> str:
        """Where its chains come from, in a word that their names begin with."""
        row = self.row
        return row.source if row.recipes == "same" else f"{row.recipes}-{row.source}"

    @property
    def needs_search(self) -> bool:
        """Whether its chains can be planned only when a search is over: those that start trained need none."""
        return (self.source.needs_search and not self.source.start) or self.recipes.from_search

    @property
    def chains(self) -> str:
        """What the names of its chains begin with; methods that ask for the same chains share them."""
        return f"{self.origin}-{self.weights.trajectory}-"
