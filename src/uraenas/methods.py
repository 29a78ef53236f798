"""The table of methods: a method is a choice of architectures and a choice of weights."""

from dataclasses import dataclass
from typing import Literal

from uraenas.errors import unknown

Architectures = Literal["expected", "sampled", "uniform"]
Weights = Literal["point", "sampled", "snapshot"]


@dataclass(frozen=True)
class Method:
    """Where the architectures of the members come from, and where their weights come from."""

    architecture: Architectures
    weights: Weights
    single: bool = False  # one member, whatever the ensemble size
    per_chain: Literal["one", "all"] = "one"  # members from one chain: its last sample, or all it collected

    @property
    def chains(self) -> str:
        """What the names of its chains begin with; methods of one kind share them."""
        return f"{self.architecture}-{self.weights}-"


METHODS: dict[str, Method] = {
    "drnas": Method("expected", "point", single=True),
    "uraenas-w": Method("expected", "sampled", per_chain="all"),
    "uraenas-a": Method("sampled", "point"),
    "uraenas": Method("sampled", "sampled", per_chain="all"),
    "deep-ensemble": Method("expected", "point"),
    "random-ensemble": Method("uniform", "point"),
    "snapshot": Method("expected", "snapshot", per_chain="all"),
}


def method(name: str) -> Method:
    """The row of this name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
