"""Spike-and-slab node selection: SSIG, and SeBayS, which draws several such networks one after another.

Every output channel c of a layer before the last is there or not, and its weights are normal (Jantre et al., 2021):

    z_c ~ Bernoulli(γ_c),     y_c = z_c · norm(W x)_c,     W ~ N(w̄, σ²),

with the prior z ~ Bernoulli(λ), w ~ N(0, prior²), λ small:

    KL = Σ_c KL(Bern(γ_c) ‖ Bern(λ)) + γ_c Σ_{w of c} [log(prior/σ) + (σ² + w̄²)/(2 prior²) − ½].

The gradient of z is that of a concrete variable of temperature ½, straight through. SeBayS goes on from one network:
before each of its short cosines every mean jumps by ±3σ and σ starts anew, and each cosine ends in a member.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import require_positive, require_range
from uraenas.spaces import Draw, Entry, Layout, Network, Passage, Tensors
from uraenas.weights.descending import OneCosine, ShortCosines
from uraenas.weights.masks import MOST_DRAWS, number_of
from uraenas.weights.method import Candidate, Changes, passes
from uraenas.weights.normal import SPREAD, drawn_weights, normal_layers, raw_spread, spreads

GATE = ".gate"
STARTS = 4.6  # log odds of inclusion at the start: 0.99
TEMPERATURE = 0.5  # of the concrete variables
JUMP, UNEVEN = 3.0, 0.05  # deviations that a mean jumps by; of ρ, when it starts anew


@dataclass(frozen=True)
class SpikeAndSlab(OneCosine):
    """SSIG: channels are there or not and weights are normal; a member is a draw of both."""

    deviation: float = 2.5e-3  # of each weight, when it starts
    prior: float = 1.0  # the deviation of the prior of weights
    inclusion: float = 1e-4  # the prior's chance that a channel is there
    draws: int = 10  # passes of one network

    section: ClassVar[str] = "ssig"
    of_members: ClassVar[tuple[str, ...]] = ("draws",)
    trajectory: ClassVar[str] = "ssig"
    objective = None

    def check_own(self) -> None:
        _check(self.deviation, self.prior, self.inclusion, self.draws)

    @property
    def changes(self) -> Changes:
        return _changes(self.deviation, self.prior, self.inclusion)

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        return sparse_pass(network, weights, draw)

    @property
    def members_per_chain(self) -> int:
        return self.draws


@dataclass(frozen=True)
class Sequential(ShortCosines):
    """SeBayS: spike-and-slab networks one after another, each begun by a jump away from the one before."""

    peak: float = 0.1
    exploration: float = 0.4
    samples: int = 3  # networks, each at the end of a short cosine
    deviation: float = 2.5e-3  # of each weight, when it starts, and after a jump
    prior: float = 0.2  # the deviation of the prior of weights
    inclusion: float = 1e-4  # the prior's chance that a channel is there
    draws: int = 1  # passes of each network

    section: ClassVar[str] = "sebays"
    of_members: ClassVar[tuple[str, ...]] = ("draws",)
    trajectory: ClassVar[str] = "sebays"
    objective = None

    def check_own(self) -> None:
        _check(self.deviation, self.prior, self.inclusion, self.draws)
        self.require_short_cosines()

    @property
    def changes(self) -> Changes:
        return replace(_changes(self.deviation, self.prior, self.inclusion), renew=self._jump)

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        return sparse_pass(network, weights, draw)

    def _jump(self, weights: Tensors, key: Tensor) -> Tensors:
        moved = {}
        for name in (name for name in weights if name.endswith(SPREAD)):
            raw, mean = weights[name], f"{name.removesuffix(SPREAD)}.weight"
            place = draws.at(key, number_of(name))
            sign = 2 * draws.coins(draws.at(place, 0), raw.numel(), 0.5).to(raw.dtype) - 1
            noise = draws.normal(draws.at(place, 1), raw.numel(), raw.dtype).view(raw.shape)
            moved[mean] = weights[mean] + JUMP * F.softplus(raw) * sign.view(raw.shape)
            moved[name] = raw_spread(self.deviation) + UNEVEN * noise
        return moved

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        return passes(samples, self.draws)

    @property
    def members_per_chain(self) -> int:
        return self.samples * self.draws


def gated(layout: Layout, deviation: float) -> Layout:
    """With spreads of all layers' weights and gates of all layers' channels but the last one's logits.

    The divergence holds the prior of these weights, so they have no weight decay.
    """
    last, own = layout.last, {entry.name for entry in layout.layers.values()}
    gates = [
        Entry(f"{name}{GATE}", entry.shape[:1], constant=STARTS, prior=False)
        for name, entry in layout.layers.items()
        if entry is not last
    ]
    entries = (replace(entry, prior=entry.prior and entry.name not in own) for entry in layout.entries)
    return Layout((*entries, *spreads(layout, deviation), *gates))


def sparse_pass(network: Network, weights: Tensors, draw: Draw) -> Tensor:
    """One draw of weights and channels; in training weights are every image's own, channels the batch's."""
    there = _gates(weights, draw)

    def output(name: str, x: Tensor) -> Tensor:
        gate = there.get(name)
        return x if gate is None else x * gate.view(1, -1, *(1 for _ in x.shape[2:])).to(x.dtype)

    layer = normal_layers(weights, draw, len(network.images))
    return network(weights, Passage(layer=layer, output=output))


def _gates(weights: Tensors, draw: Draw) -> Tensors:
    """z of every layer that has gates."""
    names = [name for name in weights if name.endswith(GATE)]
    if not names:
        return {}
    sizes, odds = [weights[name].numel() for name in names], torch.cat([weights[name] for name in names])
    keys = (draws.at(draw.key, number_of(name)) for name in names)
    drawn = [draws.uniform(key, size, odds.dtype) for key, size in zip(keys, sizes, strict=True)]
    soft = torch.sigmoid((odds + torch.logit(torch.cat(drawn))) / TEMPERATURE)
    there = (soft > 0.5).to(soft.dtype) + soft - soft.detach()
    return {name.removesuffix(GATE): one for name, one in zip(names, there.split(sizes), strict=True)}


def without_gates(weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
    """A channel that is not there is one whose norm gives 0; where there is no norm, whose weights are 0."""
    found = drawn_weights(weights, layout, draw)
    for name, there in _gates(weights, draw).items():
        for end in layout.ends(name):
            found[end] = found[end] * there.view(-1, *(1 for _ in found[end].shape[1:]))
    return found


def divergence(weights: Tensors, prior: float, inclusion: float) -> Tensor:
    """KL from the prior, summed over all gates and weights."""
    names = [name.removesuffix(SPREAD) for name in weights if name.endswith(SPREAD)]
    means = [weights[f"{name}.weight"] for name in names]
    mean = torch.cat([one.flatten() for one in means])
    sigma = F.softplus(torch.cat([weights[f"{name}{SPREAD}"].flatten() for name in names]))
    slab = (prior / sigma).log() + (sigma**2 + mean**2) / (2 * prior**2) - 0.5
    gates = {name: weights[f"{name}{GATE}"] for name in names if f"{name}{GATE}" in weights}
    odds = torch.cat([mean.new_zeros(0), *gates.values()])  # a network of one layer has none
    chance = torch.sigmoid(odds)
    absent = F.logsigmoid(-odds) - math.log1p(-inclusion)
    present = F.logsigmoid(odds) - math.log(inclusion)
    own = dict(zip(gates, chance.split([len(one) for one in gates.values()]), strict=True))
    certain = mean.new_ones(1)
    there = [
        own.get(name, certain).view(-1, 1).expand(len(one), one[0].numel()).reshape(-1)
        for name, one in zip(names, means, strict=True)
    ]
    return (torch.cat(there) * slab).sum() + (chance * present + (1 - chance) * absent).sum()


def _changes(deviation: float, prior: float, inclusion: float) -> Changes:
    def penalty(weights: Tensors, progress: Tensor, images: int) -> Tensor:
        return divergence(weights, prior, inclusion) / images

    return Changes(layout=partial(gated, deviation=deviation), penalty=penalty, as_plain=without_gates)


def _check(deviation: float, prior: float, inclusion: float, draws: int) -> None:
    require_positive("deviation", deviation)
    require_positive("prior", prior)
    require_range("inclusion", inclusion, 1e-12, 1 - 1e-6)
    require_range("draws", draws, 1, MOST_DRAWS)
