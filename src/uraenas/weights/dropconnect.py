"""DropConnect: masks on weights instead of values.

    y = (M ∘ W) x / (1 − p),     M ~ Bernoulli(1 − p)

One mask serves a whole batch. Each pass is a member; published is a Gaussian in their place (Wan et al., 2013).
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import require_range, unknown
from uraenas.spaces import Apply, Draw, Layout, Network, Passage, Tensors
from uraenas.weights.descending import OneCosine
from uraenas.weights.masks import MOST_DRAWS, number_of, require_chance
from uraenas.weights.method import Changes

LAYERS = ("all", "dense")


@dataclass(frozen=True)
class DropConnect(OneCosine):
    """DropConnect: a member is a pass with its own masks on weights."""

    rate: float = 0.1
    layers: str = "all"  # whose weights are dropped; dense: of layers that are no convolutions, as published
    draws: int = 10  # passes of one network

    section: ClassVar[str] = "dropconnect"
    of_members: ClassVar[tuple[str, ...]] = ("draws",)
    trajectory: ClassVar[str] = "dropconnect"
    objective = None

    def check_own(self) -> None:
        require_chance("rate", self.rate)
        if self.layers not in LAYERS:
            raise unknown("layers", self.layers, LAYERS)
        require_range("draws", self.draws, 1, MOST_DRAWS)

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
            return apply(x, self._kept(name, weight, draw))

        return network(weights, Passage(layer=layer))

    def _kept(self, name: str, weight: Tensor, draw: Draw) -> Tensor:
        """A layer's weights, some of them dropped."""
        if self.layers == "dense" and weight.dim() > 2:
            return weight
        keep = 1 - self.rate
        kept = draws.coins(draws.at(draw.key, number_of(name)), weight.numel(), keep)
        return weight * (kept.view(weight.shape).to(weight.dtype) / keep)

    @property
    def changes(self) -> Changes:
        return Changes(as_plain=self._dropped)

    def _dropped(self, weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
        own = {e.name: self._kept(name, weights[e.name], draw) for name, e in layout.layers.items()}
        return {**weights, **own}

    @property
    def members_per_chain(self) -> int:
        return self.draws
