"""Many perceptrons in training as one: weights with zeros where a network has fewer units, multiplied as a batch.

The weight of level k is a block [M, W, U], W the width of the space's widest layer and U that of all that a layer there
could read, side by side. All shapes follow from the space, so a member's products are the same whoever is beside it.
One gather spreads the flat weights out into all blocks, and its gradient is a gather, too, since each weight has one
place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.spaces.perceptrons.network import ACTIVATIONS, weight_layout
from uraenas.spaces.perceptrons.wiring import REACH, Dense, Perceptron

KEPT = 8  # plans: each knows the place of every weight


@dataclass(frozen=True)
class Sizes:
    """Of a space: numbers that go in and come out, the widest layer's units, and the most hidden layers."""

    inputs: int
    outputs: int
    width: int
    nodes: int

    def read(self, level: int) -> range:
        """What a layer at this level could read, 0 for the input: an output may come early, after any layer."""
        return range(0 if level == self.nodes else max(0, level - REACH), level + 1)

    def rows(self, level: int) -> int:
        return self.outputs if level == self.nodes else self.width

    def columns(self, source: int) -> int:
        return self.width if source else self.inputs


@dataclass(frozen=True, eq=False)
class Activated:
    """The activations of one layer: members are put in order of theirs, and back again."""

    counts: dict[str, int]  # members of each activation
    order: Tensor
    back: Tensor

    def __call__(self, z: Tensor) -> Tensor:
        if len(self.counts) == 1:
            return ACTIVATIONS[next(iter(self.counts))](z)
        ordered: Tensor = _Spread.apply(z, self.order, self.back)
        groups = zip(self.counts, ordered.split(list(self.counts.values())), strict=True)
        there = torch.cat([ACTIVATIONS[name](some) for name, some in groups])
        again: Tensor = _Spread.apply(there, self.back, self.order)
        return again


@dataclass(frozen=True, eq=False)
class Plan:
    """Where each weight of a stack goes."""

    sizes: Sizes
    blocks: tuple[tuple[int, int, int], ...]  # of each level: its biases [M, 1, W], then its weight [M, W, U]
    activations: tuple[Activated, ...]  # by level
    places: Tensor  # of what is spread out, among the flat weights; beyond their end: 0
    back: Tensor  # of each flat weight, among what is spread out


def forward(plan: Plan, flat: Tensor, x: Tensor) -> Tensor:
    """Outputs [M, N, K] of rows [M, N, D]."""
    spread: Tensor = _Spread.apply(torch.cat([flat, flat.new_zeros(1)]), plan.places, plan.back)
    # One split: its gradient is one concatenation.
    pieces = spread.split([a * b * c for a, b, c in plan.blocks])
    blocks = [piece.view(shape) for piece, shape in zip(pieces, plan.blocks, strict=True)]
    values = [x]
    for level, activated in enumerate(plan.activations):
        values.append(activated(_product(plan, level, blocks, values)))
    return _product(plan, len(plan.activations), blocks, values)


def _product(plan: Plan, level: int, blocks: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    read = plan.sizes.read(level)
    seen = values[read[0]] if len(read) == 1 else torch.cat([values[source] for source in read], dim=2)
    return torch.baddbmm(blocks[2 * level], seen, blocks[2 * level + 1].transpose(1, 2))


class _Spread(torch.autograd.Function):
    """A gather whose gradient is a gather: every value that is not 0 has one place at most."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, places: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(back)
        return flat.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (back,) = ctx.saved_tensors
        return gradients[0].index_select(0, back), None, None


@lru_cache(maxsize=KEPT)
def plan_of(architectures: tuple[Perceptron, ...], sizes: Sizes, device: torch.device) -> Plan:
    """How these members are run as one."""
    members = [_levels(one, sizes.outputs) for one in architectures]
    lengths = [weight_layout(one, sizes.inputs, sizes.outputs).size for one in architectures]
    beginnings = np.cumsum([0, *lengths])
    nothing = int(beginnings[-1])
    blocks, places = [], []
    for level in range(sizes.nodes + 1):
        columns = [sizes.columns(source) for source in sizes.read(level)]
        bias = np.full((len(members), 1, sizes.rows(level)), nothing, np.int64)
        weight = np.full((len(members), sizes.rows(level), sum(columns)), nothing, np.int64)
        starts = dict(zip(sizes.read(level), np.cumsum([0, *columns]), strict=False))
        for m, layers in enumerate(members):
            layer = _at(layers, level, sizes.nodes)
            if layer is None:
                continue
            for source in (None, *layer.sources):
                found = _entries(layers, layer, source, sizes.inputs) + beginnings[m]
                if source is None:
                    bias[m, 0, : layer.width] = found[:, 0]
                else:
                    start = starts[source]
                    weight[m, : layer.width, start : start + found.shape[1]] = found
        blocks += [bias, weight]
        places += [bias.reshape(-1), weight.reshape(-1)]
    every = np.concatenate(places)
    back = np.zeros(nothing + 1, np.int64)
    back[every] = np.arange(len(every))
    levels = range(sizes.nodes)
    groups = tuple(_groups([_at(layers, k, sizes.nodes) for layers in members], device) for k in levels)
    # Where nothing has come from a 0 goes: its gradient is that of some 0, and nobody asks for it.
    tensors = (torch.from_numpy(one).to(device) for one in (every, back))
    return Plan(sizes, tuple(block.shape for block in blocks), groups, *tensors)


def _levels(architecture: Perceptron, outputs: int) -> tuple[Dense, ...]:
    """Its layers, the output's among them."""
    layers, last = architecture.dense
    return (*layers, Dense("linear", outputs, last))


def _at(layers: tuple[Dense, ...], level: int, depth: int) -> Dense | None:
    """A member's layer at a level: the output's is always at the last."""
    if level == depth:
        return layers[-1]
    return layers[level] if level < len(layers) - 1 else None


def _entries(layers: tuple[Dense, ...], wanted: Dense, source: int | None, inputs: int) -> np.ndarray:
    """Where a layer's weights for one source, or its bias, lie in the member's own flat vector [rows, columns]."""
    widths = [inputs, *(layer.width for layer in layers)]
    start = 0
    for layer in layers:
        total = sum(widths[j] for j in layer.sources)
        if layer is wanted:
            break
        start += layer.width * (total + 1)
    if source is None:
        return start + wanted.width * total + np.arange(wanted.width)[:, None]
    before = sum(widths[j] for j in wanted.sources if j < source)
    columns = before + np.arange(widths[source])
    return start + np.arange(wanted.width)[:, None] * total + columns


def _groups(layers: Sequence[Dense | None], device: torch.device) -> Activated:
    """Members by activation."""
    names = [next(iter(ACTIVATIONS)) if layer is None else layer.activation for layer in layers]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    order = torch.tensor([m for name in counts for m, one in enumerate(names) if one == name])
    return Activated(counts, order.to(device), torch.argsort(order).to(device))
