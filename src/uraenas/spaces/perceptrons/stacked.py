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

from uraenas.spaces.perceptrons.network import ACTIVATIONS
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

    def columns(self, source: int) -> slice:
        """Where the values of a source lie: 0 is the input, k the layer at level k − 1."""
        end = self.inputs + source * self.width
        return slice(end - self.width if source else 0, end)

    def read(self, level: int) -> slice:
        """The columns that a layer at this level could read; an output may come early, after any layer."""
        first = 0 if level == self.nodes else max(0, level - REACH)
        return slice(self.columns(first).start, self.columns(level).stop)

    def width_at(self, level: int) -> int:
        return self.outputs if level == self.nodes else self.width


@dataclass(frozen=True)
class Block:
    """Where a tensor [M, …] lies among what is spread out."""

    start: int
    shape: tuple[int, int, int]

    @property
    def stop(self) -> int:
        return self.start + math.prod(self.shape)

    def of(self, spread: Tensor) -> Tensor:
        return spread[self.start : self.stop].view(self.shape)

    def places(self, row: int) -> np.ndarray:
        """Where the numbers of the member in this row lie."""
        own = self.shape[1:]
        return self.start + row * math.prod(own) + np.arange(math.prod(own)).reshape(own)


@dataclass(frozen=True)
class Layer:
    """z = b + h W, of one level of all members; h is what they could read there."""

    bias: Block  # [M, 1, W]
    weight: Block  # [M, U, W]
    read: slice  # columns of the values

    def __call__(self, spread: Tensor, values: Tensor) -> Tensor:
        return torch.baddbmm(self.bias.of(spread), values[..., self.read], self.weight.of(spread))

    def slope(self, spread: Tensor, slope: Tensor) -> Tensor:
        """At what is read, from that at z."""
        return torch.bmm(slope, self.weight.of(spread).transpose(1, 2))

    def learn(self, slope: Tensor, values: Tensor, found: Tensor) -> None:
        """Put the slopes at bias and weight where they belong."""
        torch.sum(slope, dim=1, keepdim=True, out=self.bias.of(found))
        torch.bmm(values[..., self.read].transpose(1, 2), slope, out=self.weight.of(found))


@dataclass(frozen=True)
class Hidden:
    """A layer with its activations, whose values others read."""

    layer: Layer
    written: slice  # columns of the values
    runs: tuple[tuple[str, slice], ...]  # members of one activation each

    def activate(self, z: Tensor, values: Tensor) -> None:
        for activation, members in self.runs:
            values[members, :, self.written] = ACTIVATIONS[activation](z[members])

    def slope(self, above: Tensor, z: Tensor, values: Tensor) -> Tensor:
        """At z, from that at all values."""
        own = above[..., self.written], z, values[..., self.written]
        return torch.cat([SLOPES[name](*(one[some] for one in own)) for name, some in self.runs])


@dataclass(frozen=True, eq=False)
class Plan:
    """Where each weight of a stack goes. Members are in order of their activations, each in its row."""

    hidden: tuple[Hidden, ...]
    output: Layer
    columns: int  # of all values
    order: Tensor  # the member in each row
    rows: Tensor  # the row of each member
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
        spread = flat.new_zeros(plan.output.weight.stop).index_copy_(0, plan.places, flat)
        values = x.new_empty(*x.shape[:2], plan.columns)
        values[..., : x.shape[2]] = x.index_select(0, plan.order)
        before = []  # what goes into activations
        for hidden in plan.hidden:
            z = hidden.layer(spread, values)
            hidden.activate(z, values)
            before.append(z)
        ctx.plan = plan
        ctx.save_for_backward(spread, values, *before)
        return plan.output(spread, values).index_select(0, plan.rows)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        plan: Plan = ctx.plan
        spread, values, *before = ctx.saved_tensors
        found = torch.empty_like(spread)
        slope = slopes[0].index_select(0, plan.order)
        plan.output.learn(slope, values, found)
        above = plan.output.slope(spread, slope)  # the output may read all values
        for hidden, z in zip(reversed(plan.hidden), reversed(before), strict=True):
            slope, layer = hidden.slope(above, z, values), hidden.layer
            layer.learn(slope, values, found)
            if hidden is not plan.hidden[0]:
                above[..., layer.read] += layer.slope(spread, slope)
        return found.index_select(0, plan.places), None, None


@lru_cache(maxsize=KEPT)
def plan_of(architectures: tuple[Perceptron, ...], sizes: Sizes, device: torch.device) -> Plan:
    """How these members are run as one."""
    networks = [_by_level(one, sizes) for one in architectures]
    activations = [_activations(network, sizes.nodes) for network in networks]
    order = sorted(range(len(networks)), key=activations.__getitem__)
    rows = np.argsort(order)
    layers = _layers(sizes, len(networks))
    hidden = tuple(
        Hidden(layer, sizes.columns(level + 1), _runs([activations[m][level] for m in order]))
        for level, layer in enumerate(layers[:-1])
    )
    places = [_places(network, layers, sizes, row) for network, row in zip(networks, rows, strict=True)]
    tensors = (torch.from_numpy(one).to(device) for one in (np.array(order), rows, np.concatenate(places)))
    return Plan(hidden, layers[-1], sizes.columns(sizes.nodes).stop, *tensors)


def _by_level(architecture: Perceptron, sizes: Sizes) -> dict[int, Dense]:
    """The layers of a network; the output's is at the last level, however few there are before it."""
    layers, last = architecture.dense
    return {**dict(enumerate(layers)), sizes.nodes: Dense("linear", sizes.outputs, last)}


def _activations(network: dict[int, Dense], nodes: int) -> list[str]:
    """By level; any will do where there is no layer."""
    nowhere = next(iter(ACTIVATIONS))
    return [network[level].activation if level in network else nowhere for level in range(nodes)]


def _runs(activations: Sequence[str]) -> tuple[tuple[str, slice], ...]:
    """Members in a row that have the same."""
    runs = [(name, list(some)) for name, some in groupby(range(len(activations)), activations.__getitem__)]
    return tuple((name, slice(some[0], some[-1] + 1)) for name, some in runs)


def _layers(sizes: Sizes, members: int) -> list[Layer]:
    """By level, their blocks one after another."""
    found: list[Layer] = []
    for level in range(sizes.nodes + 1):
        read, width = sizes.read(level), sizes.width_at(level)
        bias = Block(found[-1].weight.stop if found else 0, (members, 1, width))
        found.append(Layer(bias, Block(bias.stop, (members, read.stop - read.start, width)), read))
    return found


def _places(network: dict[int, Dense], layers: Sequence[Layer], sizes: Sizes, row: int) -> np.ndarray:
    """Of a network's flat weights, in their order: by layer its weight [outputs, inputs], then its bias."""
    widths = [sizes.inputs, *(dense.width for dense in network.values())]
    found = []
    for level, dense in network.items():
        layer = layers[level]
        columns = [np.arange(widths[j]) + sizes.columns(j).start - layer.read.start for j in dense.sources]
        weight, bias = layer.weight.places(row), layer.bias.places(row)
        found += [weight[np.concatenate(columns), : dense.width].T.ravel(), bias[0, : dense.width]]
    return np.concatenate(found)
