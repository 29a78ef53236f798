"""BatchEnsemble and rank-one Bayesian factors: M members share all weights but two vectors at each layer.

    y = s_m ∘ W (r_m ∘ x),     which is the layer with weights W ∘ s_m r_mᵀ.

A batch is divided among the members, and all pass together, so a step costs what one network's does; norms are shared.
Where each image stands in a batch several times, it is for another member each time: M times is for every member. The
factors have no weight decay. The Bayesian factors are Gaussian, r_m ~ N(μ, σ²) and s_m likewise, each image's drawn for
itself in training, with the prior N(1, prior²):

    KL = Σ log(prior/σ) + (σ² + (μ − 1)²) / (2 prior²) − ½.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import require_not_negative, require_positive, require_range
from uraenas.spaces import Apply, Draw, Entry, Layout, Network, Passage, Tensors
from uraenas.weights.descending import OneCosine
from uraenas.weights.masks import MOST_DRAWS, number_of
from uraenas.weights.method import Changes
from uraenas.weights.normal import SPREAD, raw_spread

INPUTS, OUTPUTS = ".inputs", ".outputs"


@dataclass(frozen=True)
class BatchEnsemble(OneCosine):
    """BatchEnsemble: members share weights but for two factors at each layer, and are trained together."""

    size: int = 4  # members that share weights
    # how often an image stands in a batch, each time for another member; so many times the work
    repeats: int = 1
    spread: float = 0.5  # of the factors around 1 when they start

    section: ClassVar[str] = "batch_ensemble"
    of_members: ClassVar[tuple[str, ...]] = ()
    trajectory: ClassVar[str] = "batch_ensemble"
    objective = None

    def check_own(self) -> None:
        require_range("size", self.size, 1, 1000)
        require_range("repeats", self.repeats, 1, self.size)
        require_not_negative("spread", self.spread)

    @property
    def changes(self) -> Changes:
        return Changes(layout=self._with_factors, repeats=self.repeats, as_plain=self._multiplied)

    def _multiplied(self, weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
        return multiplied(weights, layout, lambda name: _for_images(weights[name], draw, 1, 1))

    def _with_factors(self, layout: Layout) -> Layout:
        return Layout((*layout.entries, *factors(layout, self.size, self.spread)))

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        images = len(network.images)

        def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
            own = (weights[f"{name}{end}"] for end in (INPUTS, OUTPUTS))
            before, after = (_for_images(one, draw, images, self.repeats) for one in own)
            return _times(apply(_times(x, before), weight), after)

        return network(weights, Passage(layer=layer))

    @property
    def members_per_chain(self) -> int:
        return self.size


@dataclass(frozen=True)
class RankOne(OneCosine):
    """Rank-one Bayesian factors: BatchEnsemble whose factors are Gaussian, each pass with its own draw of them."""

    size: int = 4  # Gaussians that share weights
    # how often an image stands in a batch, each time for another of them; so many times the work
    repeats: int = 1
    spread: float = 0.5  # of the factors' means around 1 when they start
    deviation: float = 0.03  # of each factor, when it starts
    prior: float = 0.1  # the deviation of the factors' prior around 1
    draws: int = 12  # passes of one network, in turn from its Gaussians

    section: ClassVar[str] = "rank_one"
    of_members: ClassVar[tuple[str, ...]] = ("draws",)
    trajectory: ClassVar[str] = "rank_one"
    objective = None

    def check_own(self) -> None:
        require_range("size", self.size, 1, 1000)
        require_range("repeats", self.repeats, 1, self.size)
        require_not_negative("spread", self.spread)
        require_positive("deviation", self.deviation)
        require_positive("prior", self.prior)
        require_range("draws", self.draws, 1, MOST_DRAWS)

    @property
    def changes(self) -> Changes:
        return Changes(
            layout=self._with_factors,
            repeats=self.repeats,
            penalty=self._divergence,
            as_plain=self._multiplied,
        )

    def _multiplied(self, weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
        return multiplied(weights, layout, self._drawn(weights, draw, 1).__getitem__)

    def _with_factors(self, layout: Layout) -> Layout:
        own = factors(layout, self.size, self.spread)
        raw = raw_spread(self.deviation)
        spreads = (Entry(f"{one.name}{SPREAD}", one.shape, constant=raw, prior=False) for one in own)
        return Layout((*layout.entries, *own, *spreads))

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        drawn = self._drawn(weights, draw, len(network.images))

        def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
            return _times(apply(_times(x, drawn[f"{name}{INPUTS}"]), weight), drawn[f"{name}{OUTPUTS}"])

        return network(weights, Passage(layer=layer))

    def _drawn(self, weights: Tensors, draw: Draw, images: int) -> Tensors:
        """All factors, of each image [N, C] or for all [1, C]. One draw for all: a hundred small ones take longer."""
        raw = {name.removesuffix(SPREAD): one for name, one in weights.items() if name.endswith(SPREAD)}
        sigmas = F.softplus(torch.cat([one.flatten() for one in raw.values()]))
        of_members = sigmas.split([one.numel() for one in raw.values()])

        def of_images(factors_MC: Tensor) -> Tensor:
            return _for_images(factors_MC, draw, images, self.repeats)

        means = [of_images(weights[name]) for name in raw]
        spreads = [of_images(one.view_as(weights[name])) for name, one in zip(raw, of_members, strict=True)]
        mean, spread = (torch.cat([one.flatten() for one in some]) for some in (means, spreads))
        noise = draws.normal(draws.at(draw.key, number_of("factors")), len(mean), mean.dtype)
        found = (mean + spread * noise).split([one.numel() for one in means])
        return {name: one.view(own.shape) for name, one, own in zip(raw, found, means, strict=True)}

    def _divergence(self, weights: Tensors, progress: Tensor, images: int) -> Tensor:
        names = [name.removesuffix(SPREAD) for name in weights if name.endswith(SPREAD)]
        mean = torch.cat([weights[name].flatten() for name in names])
        sigma = F.softplus(torch.cat([weights[f"{name}{SPREAD}"].flatten() for name in names]))
        square = (sigma**2 + (mean - 1) ** 2) / (2 * self.prior**2)
        return (torch.log(self.prior / sigma) + square - 0.5).sum() / images

    @property
    def members_per_chain(self) -> int:
        return self.draws


def factors(layout: Layout, size: int, spread: float) -> list[Entry]:
    """Of every layer with weights: `size` vectors for what it reads, and as many for what it gives."""
    found = []
    for name, entry in layout.layers.items():
        for end, channels in ((INPUTS, entry.shape[1]), (OUTPUTS, entry.shape[0])):
            found.append(Entry(f"{name}{end}", (size, channels), spread, 1.0, prior=False))
    return found


def multiplied(weights: Tensors, layout: Layout, factor: Callable[[str], Tensor]) -> Tensors:
    """W ∘ s rᵀ of every layer, with factors [1, C] by name."""
    found = dict(weights)
    for name, entry in layout.layers.items():
        if f"{name}{INPUTS}" in weights:
            outer = factor(f"{name}{OUTPUTS}").T * factor(f"{name}{INPUTS}")
            found[entry.name] = weights[entry.name] * outer.view(*outer.shape, *(1 for _ in entry.shape[2:]))
    return found


def _for_images(factors_MC: Tensor, draw: Draw, images: int, repeats: int) -> Tensor:
    """Those of each image's member [N, C]; in prediction one member's for all [1, C].

    In training the k-th time of image i in a batch is for member (i + k) mod M; where there are fewer images than
    members, for others in each step.
    """
    if draw.number is not None:
        return factors_MC[draw.number % len(factors_MC)][None]
    once = images // repeats
    if once < len(factors_MC):
        first = draws.integers(draws.at(draw.key, number_of("members")), 1, len(factors_MC))
        order = torch.arange(len(factors_MC), device=first.device)
        factors_MC = factors_MC.index_select(0, (order + first) % len(factors_MC))
    turns = -(-once // len(factors_MC))
    times = [factors_MC.roll(-k, 0) if k else factors_MC for k in range(repeats)]
    return torch.cat([one.repeat(turns, 1)[:once] for one in times])


def _times(x: Tensor, factor: Tensor) -> Tensor:
    """Values [N, C, …] times factors [N, C].

    Values keep their precision: factors in float32 would make all maps after them take twice the room.
    """
    return x * factor.view(*factor.shape, *(1 for _ in x.shape[2:])).to(x.dtype)
