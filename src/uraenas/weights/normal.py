"""Normal weights: a mean and a deviation σ = softplus(ρ) for every weight of every layer, learned together.

In training a draw of weights serves a batch, and Flipout gives every image its own, which is as good as independent:

    y = W̄ x + s_out ∘ (σ ∘ ε) (s_in ∘ x),     s signs of each image and channel.

In prediction a draw is W̄ + σ ∘ ε, for all images.
"""

import math

import torch.nn.functional as F
from torch import Tensor

from uraenas.base import draws
from uraenas.spaces import Apply, Draw, Entry, Layout, Tensors
from uraenas.weights.masks import mask, number_of

SPREAD = ".spread"


def raw_spread(deviation: float) -> float:
    """ρ of this deviation."""
    return deviation + math.log(-math.expm1(-deviation))  # log(e^σ − 1), also where e^σ is too large


def spreads(layout: Layout, deviation: float) -> list[Entry]:
    """ρ of every weight of every layer."""
    raw = raw_spread(deviation)
    return [Entry(f"{n}{SPREAD}", e.shape, constant=raw, prior=False) for n, e in layout.layers.items()]


def normal_layer(name: str, x: Tensor, weight: Tensor, apply: Apply, weights: Tensors, draw: Draw) -> Tensor:
    """A layer whose weights are drawn."""
    step = _step(name, weights[f"{name}{SPREAD}"], draw)
    if draw.number is not None:
        return apply(x, weight + step)
    apart = apply(x * _signs(draw, f"{name} in", x), step)
    return apply(x, weight) + apart * _signs(draw, f"{name} out", apart)


def drawn_weights(weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
    """W̄ + σ ∘ ε of every layer."""
    found = dict(weights)
    for name, entry in layout.layers.items():
        if f"{name}{SPREAD}" in weights:
            found[entry.name] = weights[entry.name] + _step(name, weights[f"{name}{SPREAD}"], draw)
    return found


def _step(name: str, raw: Tensor, draw: Draw) -> Tensor:
    """σ ∘ ε of a layer."""
    noise = draws.normal(draws.at(draw.key, number_of(name)), raw.numel(), raw.dtype)
    return F.softplus(raw) * noise.view(raw.shape)


def _signs(draw: Draw, place: str, like: Tensor) -> Tensor:
    """1 or −1 for each image and channel."""
    return 2 * mask(draw, place, like, 2, 0.5) - 1


def divergence_of_spread(sigma: Tensor, prior: float) -> Tensor:
    """KL(N(μ, σ²) ‖ N(μ, prior²)) of each weight: what is left of the whole where weight decay is the mean's part."""
    return (prior / sigma).log() + sigma**2 / (2 * prior**2) - 0.5
