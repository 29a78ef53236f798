"""Kinds of weights the plain way: eager PyTorch, hooks on a textbook network.

Each makes a loss of a network, and may give it parameters. Settings are the defaults of the kinds. Those that are not
here train as one that is: `sebays` as `ssig`, all others as `point`, but for noise and the rule of the step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from uraenas.bench.plain import Cell, PlainNetwork, Reduction

Loss = Callable[[Tensor, Tensor], Tensor]  # images, labels → mean loss of a batch
RATE, KEEP, MEMBERS, INPUTS, HEADS = 0.1, 0.5, 4, 3, 2
START, DEVIATION = -6.0, 0.5  # of raw spreads; of factors around 1


def _layers(network: nn.Module) -> list[Any]:
    """All with weights, the one that reads images first."""
    return [one for one in network.modules() if isinstance(one, nn.Conv2d | nn.Linear)]


def plainly(network: PlainNetwork) -> Loss:
    return lambda x, y: F.cross_entropy(network(x), y)


def dropout(network: PlainNetwork) -> Loss:
    def dropped(module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        (x,) = inputs
        return F.dropout2d(x, RATE) if x.dim() == 4 else F.dropout(x, RATE)

    for layer in _layers(network)[1:]:
        layer.register_forward_pre_hook(dropped)
    return plainly(network)


def dropconnect(network: PlainNetwork) -> Loss:
    def loss(x: Tensor, y: Tensor) -> Tensor:
        matrices = ((name, one) for name, one in network.named_parameters() if one.dim() > 1)
        return F.cross_entropy(
            functional_call(network, {name: F.dropout(one, RATE) for name, one in matrices}, (x,)), y
        )

    return loss


def _terms(network: PlainNetwork) -> list[tuple[nn.Module, float]]:
    """What arrives at sums, and the chance to be kept there."""
    found, blocks = [], len(network.blocks)
    for number, block in enumerate(network.blocks, start=1):
        if isinstance(block, Cell):
            parts: Sequence[nn.Module] = list(block.edges.values())
        else:
            assert isinstance(block, Reduction)
            parts = [block.second, block.shortcut]
        found += [(part, 1 - number / blocks * (1 - KEEP)) for part in parts]
    return found


def swapout(network: PlainNetwork) -> Loss:
    for part, chance in _terms(network):
        part.register_forward_hook(lambda m, i, x, chance=chance: x * torch.empty_like(x).bernoulli_(chance))
    return plainly(network)


def stochastic_depth(network: PlainNetwork) -> Loss:
    for part, chance in _terms(network):
        if not isinstance(part, nn.Identity):
            part.register_forward_hook(
                lambda m, i, x, chance=chance: x * x.new_empty(len(x), 1, 1, 1).bernoulli_(chance) / chance
            )
    return plainly(network)


def _factored(
    network: PlainNetwork, factor: Callable[[nn.Module, str, int], Tensor], spread: bool = False
) -> None:
    """Factors on both sides of each layer, given for each image."""

    def shaped(values: Tensor, x: Tensor) -> Tensor:
        return x * values.view(*values.shape, *(1 for _ in x.shape[2:]))

    for layer in _layers(network):
        outputs, inputs = layer.weight.shape[:2]
        for side, size in (("inputs", inputs), ("outputs", outputs)):
            start = 1 + DEVIATION * torch.randn(MEMBERS, size, device=layer.weight.device)
            layer.register_parameter(side, nn.Parameter(start))
            if spread:
                layer.register_parameter(f"{side}_raw", nn.Parameter(torch.full_like(start, START)))
        layer.register_forward_pre_hook(lambda m, i: shaped(factor(m, "inputs", len(i[0])), i[0]))
        layer.register_forward_hook(lambda m, i, x: shaped(factor(m, "outputs", len(x)), x))


def _of_members(values: Tensor, images: int) -> Tensor:
    return values.repeat(-(-images // MEMBERS), 1)[:images]


def batch_ensemble(network: PlainNetwork) -> Loss:
    _factored(network, lambda layer, side, images: _of_members(getattr(layer, side), images))
    return plainly(network)


def rank_one(network: PlainNetwork) -> Loss:
    def factor(layer: nn.Module, side: str, images: int) -> Tensor:
        mean, sigma = getattr(layer, side), F.softplus(getattr(layer, f"{side}_raw"))
        mean, sigma = _of_members(mean, images), _of_members(sigma, images)
        return mean + sigma * torch.randn_like(mean)

    _factored(network, factor, spread=True)
    return lambda x, y: F.cross_entropy(network(x), y) + _divergence(network)


def _divergence(network: nn.Module) -> Tensor:
    """KL of all spreads from a prior of deviation 0.1, for as many images as CIFAR-10 has."""
    sigma = F.softplus(torch.cat([p.flatten() for n, p in network.named_parameters() if n.endswith("_raw")]))
    return (torch.log(RATE / sigma) + sigma**2 / (2 * RATE**2) - 0.5).sum() / 50_000


def _with_heads(network: PlainNetwork, many: int) -> None:
    last = network.classifier
    wide = nn.Linear(last.in_features, many * last.out_features, device=last.weight.device)
    network.classifier = wide


def heads(network: PlainNetwork) -> Loss:
    _with_heads(network, HEADS)
    return lambda x, y: sum(
        (F.cross_entropy(one, y) for one in network(x).chunk(HEADS, dim=1)), start=x.new_zeros(())
    )


def mimo(network: PlainNetwork) -> Loss:
    first: Any = network.stem[0]
    more = (INPUTS * first.in_channels, first.out_channels, 3, first.stride, 1)
    network.stem[0] = nn.Conv2d(*more, bias=False, device=first.weight.device)
    _with_heads(network, INPUTS)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        orders = [torch.randperm(len(x), device=x.device) for _ in range(INPUTS)]
        logits = network(torch.cat([x[order] for order in orders], dim=1)).chunk(INPUTS, dim=1)
        pairs = zip(logits, orders, strict=True)
        return sum((F.cross_entropy(one, y[order]) for one, order in pairs), start=x.new_zeros(()))

    return loss


def variational(network: PlainNetwork) -> Loss:
    """Flipout: signs of each image around one draw of noise."""

    def signs(x: Tensor) -> Tensor:
        return 2 * x.new_empty(*x.shape[:2], *(1 for _ in x.shape[2:])).bernoulli_(0.5) - 1

    def noisy(layer: Any, inputs: tuple[Tensor], y: Tensor) -> Tensor:
        step = F.softplus(layer.weight_raw) * torch.randn_like(layer.weight)
        x = inputs[0] * signs(inputs[0])
        if isinstance(layer, nn.Linear):
            apart = F.linear(x, step)
        else:
            apart = F.conv2d(x, step, None, layer.stride, layer.padding)
        return y + apart * signs(apart)

    for layer in _layers(network):
        layer.register_parameter("weight_raw", nn.Parameter(torch.full_like(layer.weight, START)))
        layer.register_forward_hook(noisy)
    return lambda x, y: F.cross_entropy(network(x), y) + _divergence(network)


def ssig(network: PlainNetwork) -> Loss:
    """Noise on weights, and a gate behind each norm."""

    def gated(norm: Any, inputs: tuple[Tensor], y: Tensor) -> Tensor:
        soft = torch.sigmoid((norm.gate + torch.logit(torch.rand_like(norm.gate), 1e-6)) / 0.5)
        return y * ((soft > 0.5).float() + soft - soft.detach()).view(1, -1, 1, 1)

    for norm in [one for one in network.modules() if isinstance(one, nn.BatchNorm2d)]:
        norm.register_parameter("gate", nn.Parameter(torch.full_like(norm.weight, 4.6)))
        norm.register_forward_hook(gated)
    return variational(network)


KINDS: dict[str, Callable[[PlainNetwork], Loss]] = {
    "point": plainly,
    "dropout": dropout,
    "dropconnect": dropconnect,
    "swapout": swapout,
    "stochastic_depth": stochastic_depth,
    "batch_ensemble": batch_ensemble,
    "rank_one": rank_one,
    "mimo": mimo,
    "heads": heads,
    "variational": variational,
    "ssig": ssig,
}
