"""The table of methods: a method is a choice of architectures and a choice of weights."""

from dataclasses import dataclass
from typing import Literal

from uraenas.errors import unknown

Architectures = Literal["expected", "sampled", "uniform"]
Weights = Literal["point", "sampled", "snapshot"]

DRAWING = ("architecture_temperature", "draw_none")  # settings of drawing architectures, of `train.…`
SAMPLING = (  # and of sampling weights
    "sampler",
    "sampler_step_size",
    "cycles",
    "weight_samples",
    "exploration",
    "sampling_peak",
    "average_samples",
    "temperature",
)


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
        unused = {
            *(() if self.architecture == "sampled" else DRAWING),
            *(() if self.architecture == "expected" else ("genotype",)),
            *(() if (self.architecture, self.per_chain) == ("sampled", "all") else ("architectures",)),
            *(SAMPLING if self.weights == "point" else ("step_size",)),
            *(("temperature",) if self.weights == "snapshot" else ()),
            *(("members", "selection") if self.single else ()),
        }
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
