"""Monte Carlo dropout: masks on what layers read, in training and in prediction.

    y = W (m ∘ x) / (1 − p),     m ~ Bernoulli(1 − p)

before every layer but the one that reads the images. Each pass is a member.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.base.errors import require_range, unknown
from uraenas.spaces import Apply, Draw, Layout, Network, Passage, Tensors
from uraenas.weights.descending import OneCosine
from uraenas.weights.masks import MOST_DRAWS, masked, require_chance
from uraenas.weights.method import Changes

AXES = {"channel": 2, "value": 4}  # of a map [N, C, H, W], that a mask differs along


@dataclass(frozen=True)
class Dropout(OneCosine):
    """Monte Carlo dropout: a member is a pass with its own masks on what layers read."""

    rate: float = 0.1
    per: str = "channel"  # what is dropped at once: a channel of a map, or a value of it
    # how often an image stands in a batch, each time with other masks; so many times the work
    repeats: int = 1
    draws: int = 10  # passes of one network

    section: ClassVar[str] = "dropout"
    of_members: ClassVar[tuple[str, ...]] = ("draws",)
    trajectory: ClassVar[str] = "dropout"
    objective = None

    def check_own(self) -> None:
        require_chance("rate", self.rate)
        if self.per not in AXES:
            raise unknown("per", self.per, AXES)
        require_range("repeats", self.repeats, 1, 100)
        require_range("draws", self.draws, 1, MOST_DRAWS)

    @property
    def changes(self) -> Changes:
        plain = self._dropped if self.per == "channel" else None  # single values are no matter of weights
        return Changes(repeats=self.repeats, as_plain=plain)

    def _dropped(self, weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
        """A channel that is dropped is one whose weights are 0."""
        found, keep = dict(weights), 1 - self.rate
        for name, entry in layout.layers.items():
            if entry.role != "images":
                weight = weights[entry.name]
                found[entry.name] = masked(draw, name, weight, 2, keep)
        return found

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        keep = 1 - self.rate

        def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
            if x is network.images:
                return apply(x, weight)
            return apply(masked(draw, name, x, AXES[self.per], keep), weight)

        return network(weights, Passage(layer=layer))

    @property
    def members_per_chain(self) -> int:
        return self.draws
