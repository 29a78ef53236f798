"""Stem, residual blocks and head: what members and supernet share, as functions of named tensors."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base.kernels import kernels_in
from uraenas.spaces.cells.skeleton import Block, Skeleton
from uraenas.spaces.layout import MOMENTUM, Entry, Tensors, convolution, norm, statistics
from uraenas.spaces.passage import PLAIN, Passage, Term

EPSILON = 1e-5  # of batch norm


@dataclass(frozen=True)
class Filling:
    """What a skeleton is filled with: the numbers of one network, and how it is run."""

    weights: Tensors
    running: Tensors | None = None  # statistics; without them the batch's own are always used
    training: bool = True
    passage: Passage = PLAIN


def stem_entries(skeleton: Skeleton) -> list[Entry]:
    entries = []
    for number, step in enumerate(skeleton.stem()):
        reads = "" if number else "images"
        entries.append(convolution(step.name, skeleton.channels, step.channels_in, 3, reads))
        entries += norm(f"{step.name}.norm", skeleton.channels)
    return entries


def reduction_entries(block: Block) -> list[Entry]:
    first, second = f"{block.name}.first", f"{block.name}.second"
    return [
        convolution(first, block.channels, block.channels_in, 3),
        *norm(f"{first}.norm", block.channels),
        convolution(second, block.channels, block.channels, 3),
        *norm(f"{second}.norm", block.channels),
        convolution(f"{block.name}.shortcut", block.channels, block.channels_in, 1),
    ]


def head_entries(skeleton: Skeleton) -> list[Entry]:
    bound = 1 / math.sqrt(skeleton.features)
    return [
        *norm("head.norm", skeleton.features),
        Entry(
            "classifier.weight",
            (skeleton.classes, skeleton.features),
            deviation=bound / math.sqrt(3),
            role="logits",
        ),
        Entry("classifier.bias", (skeleton.classes,), role="logits"),
    ]


def skeleton_statistics(skeleton: Skeleton) -> list[Entry]:
    """Running statistics of all norms outside cells."""
    entries = []
    for step in skeleton.stem():
        entries += statistics(f"{step.name}.norm", skeleton.channels)
    for block in skeleton.blocks():
        if block.reduces:
            entries += statistics(f"{block.name}.first.norm", block.channels)
            entries += statistics(f"{block.name}.second.norm", block.channels)
    return entries + statistics("head.norm", skeleton.features)


def batch_norm(x: Tensor, name: str, filling: Filling) -> Tensor:
    """Batch norm by name.

    PyTorch's own, not cuDNN's: that one wants its vectors on 16-byte boundaries, and these are slices of one vector.
    """
    weights, running = filling.weights, filling.running
    if f"{name}.scale" not in weights:
        return x  # the convolution before it holds it
    scale, shift = weights[f"{name}.scale"], weights[f"{name}.shift"]
    if running is None:
        return torch.batch_norm(x, scale, shift, None, None, True, 0.0, EPSILON, cudnn_enabled=False)
    mean, variance = running[f"{name}.mean"], running[f"{name}.variance"]
    facts = (scale, shift, mean, variance, filling.training, MOMENTUM, EPSILON)
    return torch.batch_norm(x, *facts, cudnn_enabled=False)


def folded(weights: Tensors, running: Tensors) -> Tensors:
    """The same network in evaluation, with the norms that follow convolutions made part of them.

    (W·x − mean) · scale / √(variance + ε) + shift = (factor·W)·x + (shift − factor·mean), per output channel.
    """
    found = dict(weights)
    for name in list(weights):
        conv = name.removesuffix(".norm.scale")
        if conv != name and f"{conv}.weight" in weights:
            scale, shift = found.pop(name), found.pop(f"{conv}.norm.shift")
            mean, variance = running[f"{conv}.norm.mean"], running[f"{conv}.norm.variance"]
            factor = scale.double() / (variance.double() + EPSILON).sqrt()
            weight = weights[f"{conv}.weight"]
            found[f"{conv}.weight"] = (weight * factor[:, None, None, None]).to(weight.dtype)
            found[f"{conv}.bias"] = (shift - factor * mean).to(weight.dtype)
    return found


def convolved(x: Tensor, name: str, filling: Filling, stride: int = 1) -> Tensor:
    """A convolution that keeps the size of the map, or divides it by the stride, and its norm.

    One that holds its norm has a bias.
    """
    weights, passage = filling.weights, filling.passage
    bias = weights.get(f"{name}.bias")

    def apply(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(x, weight, bias, stride=stride, padding=weight.shape[-1] // 2)

    y = passage.layer(name, x, weights[f"{name}.weight"], apply)
    return passage.output(name, batch_norm(y, f"{name}.norm", filling))


def stem(x: Tensor, skeleton: Skeleton, filling: Filling) -> Tensor:
    """Conv-BN, then a ReLU-conv-BN for each further halving: the stem of DARTS for large images."""
    for number, step in enumerate(skeleton.stem()):
        x = F.relu(x) if number else x
        x = convolved(x, step.name, filling, step.stride)
    return x


def reduction(x: Tensor, name: str, filling: Filling, depth: float = 1.0) -> Tensor:
    """The residual block of stride 2: two ReLU-conv-BN beside an average pool with a 1×1 convolution."""
    weights, passage = filling.weights, filling.passage
    y = convolved(F.relu(x), f"{name}.first", filling, stride=2)
    y = convolved(F.relu(y), f"{name}.second", filling)
    # An odd map keeps its last row and column, as the strided convolution does. Runtimes are slower where they may be.
    is_odd = any(side % 2 for side in x.shape[2:])
    pooled, shortcut = F.avg_pool2d(x, 2, 2, ceil_mode=is_odd), f"{name}.shortcut"
    around = passage.layer(shortcut, pooled, weights[f"{shortcut}.weight"], F.conv2d)
    around = passage.term(Term(shortcut, depth, skips=True, alone=False), passage.output(shortcut, around))
    return passage.term(Term(f"{name}.branch", depth, skips=False, alone=False), y) + around


def head(x: Tensor, filling: Filling) -> Tensor:
    features = F.relu(batch_norm(x, "head.norm", filling)).mean(dim=(2, 3))
    weights, passage = filling.weights, filling.passage
    weight, bias = weights["classifier.weight"], weights["classifier.bias"]
    if passage is PLAIN:  # in one operation: the last bits depend on it
        return F.linear(features, weight, bias)
    return passage.output("classifier", passage.layer("classifier", features, weight, F.linear) + bias)


def pool(x: Tensor) -> Tensor:
    """The operation `avg_pool_3x3`: padding is not counted.

    With the channels innermost PyTorch's gradient is wrong on a GPU (docs/gotchas.md).
    """
    if x.is_cuda and (own := kernels_in("uraenas.spaces.cells.pool_on_gpu")):
        return own.pool(x)
    x = x.contiguous() if x.is_cuda else x
    return F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
