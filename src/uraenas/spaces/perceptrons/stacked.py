"""Many perceptrons in training as one: weights with zeros where a network has fewer units, multiplied as a batch.

A weight of layer k is cut by source into blocks [M, W, U_j], W the width of the space's widest layer, so a member's
products have the same shapes whoever is beside it. One gather spreads the flat weights out into all blocks, and its
gradient is a gather, too, since each weight has one place.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.spaces.perceptrons.network import ACTIVATIONS, weight_layout
from uraenas.spaces.perceptrons.wiring import Dense, Perceptron

KEPT = 8  # plans: each knows the place of every weight
FEW = 0.75  # of the members: if fewer read a source, their products alone are computed


@dataclass(frozen=True, eq=False)
class Block:
    """What one layer has for one source (None: its bias), in the order in which they are spread out."""

    source: int | None
    shape: tuple[int, int, int]  # [members, rows, columns]; of a bias [M, 1, rows]
    members: Tensor | None = None  # those that read this source; None: all, or nearly all

    @property
    def size(self) -> int:
        return math.prod(self.shape)


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

    layers: tuple[tuple[Block, ...], ...]  # the last is the output's
    activations: tuple["Activated", ...]  # by layer
    places: Tensor  # of what is spread out, among the flat weights; beyond their end: 0
    back: Tensor  # of each flat weight, among what is spread out


def forward(plan: Plan, flat: Tensor, x: Tensor) -> Tensor:
    """Outputs [M, N, K] of rows [M, N, D]."""
    spread: Tensor = _Spread.apply(torch.cat([flat, flat.new_zeros(1)]), plan.places, plan.back)
    # One split: its gradient is one concatenation.
    pieces = iter(spread.split([block.size for blocks in plan.layers for block in blocks]))
    values = [x]
    for blocks, activated in zip(plan.layers[:-1], plan.activations, strict=True):
        values.append(activated(_layer(blocks, pieces, values)))
    return _layer(plan.layers[-1], pieces, values)


def _layer(blocks: Sequence[Block], pieces: Iterator[Tensor], values: Sequence[Tensor]) -> Tensor:
    bias, *others = blocks
    found = next(pieces).view(bias.shape)
    for block in others:
        assert block.source is not None  # the bias comes first, and there is one
        weight, x, some = next(pieces).view(block.shape), values[block.source], block.members
        # Added afterwards in both cases: a member's bits must not depend on how many others read this source.
        if some is None:
            found = found + torch.bmm(x, weight.transpose(1, 2))
        else:
            product = torch.bmm(x.index_select(0, some), weight.transpose(1, 2))
            found = found.expand(-1, product.shape[1], -1).index_add(0, some, product)
    return found


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
def plan_of(
    architectures: tuple[Perceptron, ...], inputs: int, outputs: int, width: int, device: torch.device
) -> Plan:
    """How these members are run as one."""
    members = [_levels(one, outputs) for one in architectures]
    depth = max(len(layers) for layers in members) - 1
    sizes = [weight_layout(one, inputs, outputs).size for one in architectures]
    beginnings = np.cumsum([0, *sizes])
    nothing = int(beginnings[-1])
    blocks, places = [], []
    for level in range(depth + 1):
        rows = outputs if level == depth else width
        own = [_at(layers, level, depth) for layers in members]
        used = sorted({j for layer in own if layer for j in layer.sources})
        of_level = []
        for source in (None, *used):
            columns = 1 if source is None else inputs if source == 0 else width
            reading = [
                m for m, layer in enumerate(own) if layer and (source is None or source in layer.sources)
            ]
            few = source is not None and len(reading) < FEW * len(members)
            chosen = reading if few else list(range(len(members)))
            index = np.full((len(chosen), rows, columns), nothing, np.int64)
            for m in reading:
                layer = own[m]
                assert layer is not None
                found = _entries(members[m], layer, source, inputs) + beginnings[m]
                index[chosen.index(m), : found.shape[0], : found.shape[1]] = found
            shape = (len(chosen), 1, rows) if source is None else (len(chosen), rows, columns)
            of_level.append(Block(source, shape, torch.tensor(chosen).to(device) if few else None))
            places.append(index.reshape(-1))
        blocks.append(tuple(of_level))
    every = np.concatenate(places)
    back = np.zeros(nothing + 1, np.int64)
    back[every] = np.arange(len(every))
    groups = tuple(_groups([_at(layers, k, depth) for layers in members], device) for k in range(depth))
    # Where nothing has come from a 0 goes: its gradient is that of some 0, and nobody asks for it.
    tensors = (torch.from_numpy(one).to(device) for one in (every, back))
    return Plan(tuple(blocks), groups, *tensors)


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
