"""BatchEnsemble and rank-one Bayesian factors: M members share all weights but two vectors at each layer.

    y = s_m ∘ W (r_m ∘ x),     which is the layer with weights W ∘ s_m r_mᵀ.

Each image stands M times in a batch, once for every member, and all pass together; norms are shared. The factors have
no weight decay. The Bayesian factors are Gaussian, r_m ~ N(μ, σ²) and s_m likewise, with the prior N(1, prior²):

    KL = Σ log(prior/σ) + (σ² + (μ − 1)²) / (2 prior²) − ½.
"""

from collections.abc import Sequence
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
from uraenas.weights.method import Candidate, Changes, passes
from uraenas.weights.normal import raw_spread

INPUTS, OUTPUTS, SPREAD = ".inputs", ".outputs", ".spread"


@dataclass(frozen=True)
class BatchEnsemble(OneCosine):
    """BatchEnsemble: members share weights but for two factors at each layer, and are trained together."""

    size: int = 4  # members that share weights; each image stands so often in a batch
    spread: float = 0.5  # of the factors around 1 when they start

    section: ClassVar[str] = "batch_ensemble"
    of_members: ClassVar[tuple[str, ...]] = ()
    trajectory: ClassVar[str] = "batch_ensemble"
    objective = None

    def check_own(self) -> None:
        require_range("size", self.size, 1, 1000)
        require_not_negative("spread", self.spread)

    @property
    def changes(self) -> Changes:
        return Changes(layout=self._with_factors, repeats=self.size)

    def _with_factors(self, layout: Layout) -> Layout:
        return Layout((*layout.entries, *factors(layout, self.size, self.spread)))

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        images = len(network.images)

        def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
            before, after = (_for_images(weights[f"{name}{end}"], draw, images) for end in (INPUTS, OUTPUTS))
            return _times(apply(_times(x, before), weight), after)

        return network(weights, Passage(layer=layer))

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        return passes(samples, self.size)

    @property
    def members_per_chain(self) -> int:
        return self.size


@dataclass(frozen=True)
class RankOne(OneCosine):
    """Rank-one Bayesian factors: BatchEnsemble whose factors are Gaussian, each pass with its own draw of them."""

    size: int = 4  # Gaussians that share weights; each image stands so often in a batch
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
        require_not_negative("spread", self.spread)
        require_positive("deviation", self.deviation)
        require_positive("prior", self.prior)
        require_range("draws", self.draws, 1, MOST_DRAWS)

    @property
    def changes(self) -> Changes:
        return Changes(layout=self._with_factors, repeats=self.size, penalty=self._divergence)

    def _with_factors(self, layout: Layout) -> Layout:
        own = factors(layout, self.size, self.spread)
        raw = raw_spread(self.deviation)
        spreads = (Entry(f"{one.name}{SPREAD}", one.shape, constant=raw, prior=False) for one in own)
        return Layout((*layout.entries, *own, *spreads))

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        images = len(network.images)

        def drawn(name: str) -> Tensor:
            mean, raw = (_for_images(weights[one], draw, images) for one in (name, f"{name}{SPREAD}"))
            noise = draws.normal(draws.at(draw.key, number_of(name)), mean.numel(), mean.dtype)
            return mean + F.softplus(raw) * noise.view(mean.shape)

        def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
            return _times(apply(_times(x, drawn(f"{name}{INPUTS}")), weight), drawn(f"{name}{OUTPUTS}"))

        return network(weights, Passage(layer=layer))

    def _divergence(self, weights: Tensors, progress: Tensor, images: int) -> Tensor:
        total = next(iter(weights.values())).new_zeros(())
        for name, raw in weights.items():
            if name.endswith(SPREAD):
                mean, sigma = weights[name.removesuffix(SPREAD)], F.softplus(raw)
                square = (sigma**2 + (mean - 1) ** 2) / (2 * self.prior**2)
                total = total + (torch.log(self.prior / sigma) + square - 0.5).sum()
        return total / images

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        return passes(samples, self.draws)

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


def _for_images(factors_MC: Tensor, draw: Draw, images: int) -> Tensor:
    """Each image's member's [N, C]: in training the batch stands M times one after another; else one for all [1, C]."""
    size, channels = factors_MC.shape
    if draw.number is not None:
        return factors_MC[draw.number % size][None]
    return factors_MC[:, None].expand(size, images // size, channels).reshape(-1, channels)


def _times(x: Tensor, factor: Tensor) -> Tensor:
    """Values [N, C, …] times factors [N, C]."""
    return x * factor.view(*factor.shape, *(1 for _ in x.shape[2:]))
