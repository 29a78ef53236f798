"""Normal weights: a mean and a deviation σ = softplus(ρ) for every weight of every layer, learned together.

In training a draw of weights serves a batch, and Flipout gives every image its own, which is as good as independent:

    y = W̄ x + s_out ∘ (σ ∘ ε) (s_in ∘ x),     s signs of each image and channel.

In prediction a draw is W̄ + σ ∘ ε, for all images.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base import draws
from uraenas.spaces import Apply, Draw, Entry, Layer, Layout, Tensors
from uraenas.weights.masks import number_of

SPREAD = ".spread"


def raw_spread(deviation: float) -> float:
    """ρ of this deviation."""
    return deviation + math.log(-math.expm1(-deviation))  # log(e^σ − 1), also where e^σ is too large


def spreads(layout: Layout, deviation: float) -> list[Entry]:
    """ρ of every weight of every layer."""
    raw = raw_spread(deviation)
    return [Entry(f"{n}{SPREAD}", e.shape, constant=raw, prior=False) for n, e in layout.layers.items()]


def normal_layers(weights: Tensors, draw: Draw, images: int) -> Layer:
    """Layers whose weights are drawn, for a batch of so many images."""
    steps = _steps(weights, draw)
    signs = _signs({name: weights[f"{name}.weight"] for name in steps}, draw, images)

    def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
        if draw.number is not None:
            return apply(x, weight + steps[name])
        apart = apply(x * _of_channels(signs[f"{name} in"], x), steps[name])
        return apply(x, weight) + apart * _of_channels(signs[f"{name} out"], apart)

    return layer


def drawn_weights(weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
    """W̄ + σ ∘ ε of every layer."""
    moved = {
        f"{name}.weight": weights[f"{name}.weight"] + step for name, step in _steps(weights, draw).items()
    }
    return {**weights, **moved}


def _steps(weights: Tensors, draw: Draw) -> Tensors:
    """σ ∘ ε of every layer. What can be is worked out for all at once: a hundred small ones take longer."""
    raw = {name.removesuffix(SPREAD): one for name, one in weights.items() if name.endswith(SPREAD)}
    sigma = F.softplus(torch.cat([one.flatten() for one in raw.values()]))
    noise = [draws.normal(_key(draw, name), one.numel(), one.dtype) for name, one in raw.items()]
    steps = (sigma * torch.cat(noise)).split([one.numel() for one in raw.values()])
    return {name: step.view(one.shape) for (name, one), step in zip(raw.items(), steps, strict=True)}


def _signs(layers: Tensors, draw: Draw, images: int) -> Tensors:
    """1 or −1 for each image and channel [N, C], of what each layer reads and what it gives, in training."""
    if draw.number is not None:
        return {}
    sides = (("out", 0), ("in", 1))
    channels = {f"{name} {side}": one.shape[axis] for name, one in layers.items() for side, axis in sides}
    sizes = [images * count for count in channels.values()]
    drawn = [draws.coins(_key(draw, name), size, 0.5) for name, size in zip(channels, sizes, strict=True)]
    signs = 2 * torch.cat(drawn).to(next(iter(layers.values())).dtype) - 1
    return {name: one.view(images, -1) for name, one in zip(channels, signs.split(sizes), strict=True)}


def _of_channels(signs: Tensor, x: Tensor) -> Tensor:
    """For values [N, C, …], in their precision."""
    return signs.view(*signs.shape, *(1 for _ in x.shape[2:])).to(x.dtype)


def _key(draw: Draw, place: str) -> Tensor:
    return draws.at(draw.key, number_of(place))


def divergence_of_spread(sigma: Tensor, prior: float) -> Tensor:
    """KL(N(μ, σ²) ‖ N(μ, prior²)) of each weight: what is left of the whole where weight decay is the mean's part."""
    return (prior / sigma).log() + sigma**2 / (2 * prior**2) - 0.5
