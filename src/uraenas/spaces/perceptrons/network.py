"""The network of one perceptron, as a function of named tensors: a layer reads its sources side by side.

h_k = φ_k(W_k [h_j for j in sources of k] + b_k),     outputs = W [h_j …] + b
"""

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.spaces.layout import Entry, Layout, Tensors
from uraenas.spaces.passage import PLAIN, Passage
from uraenas.spaces.perceptrons.wiring import Perceptron

# Each is 0 at 0, so that units which are not there stay 0.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "swish": F.silu,
    "tanh": torch.tanh,
    "linear": lambda x: x,
}


@cache
def weight_layout(architecture: Perceptron, inputs: int, outputs: int) -> Layout:
    """Where the weights of one member lie."""
    layers, last = architecture.dense
    widths = [inputs, *(layer.width for layer in layers)]
    entries: list[Entry] = []
    for k, layer in enumerate(layers, start=1):
        entries += dense(f"layer{k}", layer.width, sum(widths[j] for j in layer.sources))
    entries += dense("out", outputs, sum(widths[j] for j in last), role="logits")
    return Layout(tuple(entries))


def dense(name: str, outputs: int, inputs: int, role: str = "") -> list[Entry]:
    """A dense layer's weight and bias."""
    return [
        Entry(f"{name}.weight", (outputs, inputs), deviation=inputs**-0.5, role=role),
        Entry(f"{name}.bias", (outputs,), role=role),
    ]


def trace(
    architecture: Perceptron, weights: Tensors, x: Tensor, passage: Passage = PLAIN
) -> tuple[Tensor, Tensor]:
    """Outputs [N, K] of rows [N, D], and what the last layer reads."""
    layers, last = architecture.dense
    values = [x]
    for k, layer in enumerate(layers, start=1):
        z = _applied(f"layer{k}", _beside(values, layer.sources), weights, passage)
        values.append(ACTIVATIONS[layer.activation](z))
    seen = _beside(values, last)
    return _applied("out", seen, weights, passage), seen


def _beside(values: list[Tensor], sources: tuple[int, ...]) -> Tensor:
    return values[sources[0]] if len(sources) == 1 else torch.cat([values[j] for j in sources], dim=1)


def _applied(name: str, x: Tensor, weights: Tensors, passage: Passage) -> Tensor:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    if passage is PLAIN:
        return F.linear(x, weight, bias)
    return passage.output(name, passage.layer(name, x, weight, F.linear) + bias)
