"""The table of methods: a method is a choice of architectures and a choice of weights."""

from dataclasses import dataclass
from typing import Literal

from uraenas.errors import unknown

Architectures = Literal["expected", "sampled", "uniform"]
Weights = Literal["point", "sampled", "snapshot"]

# Settings `train.…` of drawing architectures, and of sampling weights.
DRAWING = {"architecture_temperature", "draw_none"}
SAMPLING = {
    "sampler",
    "sampler_step_size",
    "cycles",
    "weight_samples",
    "exploration",
    "sampling_peak",
    "average_samples",
    "temperature",
}


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

    def ignores(self, key: str) -> bool:
        """Whether this setting, named as in `data.root`, changes nothing about the method's members."""
        section, _, name = key.partition(".")
        if section == "search" or key == "data.search_validation":
            return self.architecture == "uniform"
        unused = set(SAMPLING if self.weights == "point" else {"step_size"})
        if self.weights == "snapshot":
            unused.add("temperature")
        if self.architecture != "sampled":
            unused |= DRAWING
        if self.architecture != "sampled" or self.per_chain == "one":
            unused.add("architectures")
        if self.architecture != "expected":
            unused.add("genotype")
        if self.single:
            unused |= {"members", "selection"}
        return section == "train" and name in unused


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
