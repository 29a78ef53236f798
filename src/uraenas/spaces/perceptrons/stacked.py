"""Many perceptrons in training as one: weights with zeros where a network has fewer units, multiplied as a batch.

The weight of level k is a block [M, U, W], W the width of the space's widest layer and U that of all that a layer there
could read. All shapes follow from the space, so a member's products are the same whoever is beside it. Values of all
levels lie side by side [M, N, C], so what a layer could read is a range of columns. Members are in order of their
activations, so that those of a level are a few runs. Slopes are written out: PyTorch's own would copy each range.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.spaces.perceptrons.network import ACTIVATIONS, weight_layout
from uraenas.spaces.perceptrons.wiring import REACH, Dense, Perceptron

KEPT = 8  # plans: each knows the place of every weight
# (slope at the values, what went in, values) → slope at what went in
SLOPES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "relu": lambda slope, z, value: torch.ops.aten.threshold_backward(slope, value, 0),
    "swish": lambda slope, z, value: torch.ops.aten.silu_backward(slope, z),
    "tanh": lambda slope, z, value: torch.ops.aten.tanh_backward(slope, value),
    "linear": lambda slope, z, value: slope,
}


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

    def start(self, source: int) -> int:
        """The first column of its values."""
        return self.inputs + (source - 1) * self.width if source else 0


@dataclass(frozen=True)
class Block:
    """Where a tensor lies among what is spread out."""

    start: int
    shape: tuple[int, int, int]

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + math.prod(self.shape))

    def of(self, spread: Tensor) -> Tensor:
        return spread[self.place].view(self.shape)

    def numbers(self) -> np.ndarray:
        return np.arange(self.place.start, self.place.stop).reshape(self.shape)


@dataclass(frozen=True)
class Level:
    """One layer of all members, the output's last."""

    bias: Block  # [M, 1, W]
    weight: Block  # [M, U, W]
    read: slice  # columns
    written: slice  # columns; beyond them for the output, which is no value
    runs: tuple[tuple[str, slice], ...]  # members of one activation each; of the output: none

    def slope(self, above: Tensor, z: Tensor, values: Tensor) -> Tensor:
        """At what goes into activations, from that at all values."""
        own = above[..., self.written], z, values[..., self.written]
        return torch.cat([SLOPES[name](*(one[some] for one in own)) for name, some in self.runs])

    def learn(self, slope: Tensor, values: Tensor, found: Tensor) -> None:
        """Put the slopes at bias and weight where they belong."""
        torch.sum(slope, dim=1, keepdim=True, out=self.bias.of(found))
        torch.bmm(values[..., self.read].transpose(1, 2), slope, out=self.weight.of(found))


@dataclass(frozen=True, eq=False)
class Plan:
    """Where each weight of a stack goes."""

    levels: tuple[Level, ...]
    columns: int  # of all values
    length: int  # of what is spread out
    order: Tensor  # of the members, by their activations
    back: Tensor  # from that order
    places: Tensor  # of each flat weight, among what is spread out


def forward(plan: Plan, flat: Tensor, x: Tensor) -> Tensor:
    """Outputs [M, N, K] of rows [M, N, D], which have no slope."""
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        flat, x = (one.to(torch.get_autocast_dtype(kind)) for one in (flat, x))
    outputs: Tensor = _Networks.apply(flat, x, plan)
    return outputs


class _Networks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, flat: Tensor, x: Tensor, plan: Plan) -> Tensor:
        spread = flat.new_zeros(plan.length).index_copy_(0, plan.places, flat)
        values = x.new_empty(*x.shape[:2], plan.columns)
        values[..., : x.shape[2]] = x.index_select(0, plan.order)
        before = []  # what goes into activations
        for level in plan.levels:
            z = torch.baddbmm(level.bias.of(spread), values[..., level.read], level.weight.of(spread))
            for activation, members in level.runs:
                values[members, :, level.written] = ACTIVATIONS[activation](z[members])
            before.append(z)
        ctx.plan = plan
        ctx.save_for_backward(spread, values, *before[:-1])
        return before[-1].index_select(0, plan.back)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        plan: Plan = ctx.plan
        spread, values, *before = ctx.saved_tensors
        found = torch.empty_like(spread)
        *hidden, last = plan.levels
        slope = slopes[0].index_select(0, plan.order)
        last.learn(slope, values, found)
        above = torch.bmm(slope, last.weight.of(spread).transpose(1, 2))  # the output may read all values
        for level, z in zip(reversed(hidden), reversed(before), strict=True):
            slope = level.slope(above, z, values)
            level.learn(slope, values, found)
            if level is not hidden[0]:
                above[..., level.read] += torch.bmm(slope, level.weight.of(spread).transpose(1, 2))
        return found.index_select(0, plan.places), None, None


@lru_cache(maxsize=KEPT)
def plan_of(architectures: tuple[Perceptron, ...], sizes: Sizes, device: torch.device) -> Plan:
    """How these members are run as one."""
    members = [_levels(one, sizes.outputs) for one in architectures]
    names = [[_activation(layers, level, sizes.nodes) for level in range(sizes.nodes)] for layers in members]
    order = sorted(range(len(members)), key=names.__getitem__)
    lengths = [weight_layout(one, sizes.inputs, sizes.outputs).size for one in architectures]
    beginnings = np.cumsum([0, *lengths])
    places, levels, length = np.empty(beginnings[-1], np.int64), [], 0
    for number in range(sizes.nodes + 1):
        own_names = [names[m][number] for m in order] if number < sizes.nodes else []
        level = _level(sizes, number, len(members), length, own_names)
        bias, weight = level.bias.numbers(), level.weight.numbers()
        for place, m in enumerate(order):
            if layer := _at(members[m], number, sizes.nodes):
                for source in (None, *layer.sources):
                    found = beginnings[m] + _entries(members[m], layer, source, sizes.inputs)
                    start = 0 if source is None else sizes.start(source) - level.read.start
                    block = bias if source is None else weight
                    places[found] = block[place, start : start + found.shape[1], : found.shape[0]].T
        levels.append(level)
        length = level.weight.place.stop
    indices = torch.tensor(order)
    tensors = (one.to(device) for one in (indices, torch.argsort(indices), torch.from_numpy(places)))
    return Plan(tuple(levels), sizes.start(sizes.nodes + 1), length, *tensors)


def _level(sizes: Sizes, number: int, members: int, start: int, activations: Sequence[str]) -> Level:
    """Its blocks begin at `start`."""
    sources, width = sizes.read(number), sizes.rows(number)
    read = slice(sizes.start(sources[0]), sizes.start(sources[-1] + 1))
    bias = Block(start, (members, 1, width))
    weight = Block(bias.place.stop, (members, read.stop - read.start, width))
    runs, begun = [], 0
    for name, some in groupby(activations):
        count = len(list(some))
        runs.append((name, slice(begun, begun + count)))
        begun += count
    return Level(bias, weight, read, slice(read.stop, read.stop + width), tuple(runs))


def _activation(layers: tuple[Dense, ...], level: int, depth: int) -> str:
    """A member's at a level; where it has no layer there, any will do."""
    layer = _at(layers, level, depth)
    return layer.activation if layer else next(iter(ACTIVATIONS))


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
