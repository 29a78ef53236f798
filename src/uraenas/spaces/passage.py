"""Where a kind of weights may put itself in the way of values that pass through a network.

A space calls its passage at every layer with weights, after that layer's norm, and at every term of a sum. By default
nothing happens there. Masks, factors and noise on weights are passages.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

Apply = Callable[[Tensor, Tensor], Tensor]  # (values, weight) → values, linear in both; a bias is added later
Layer = Callable[[str, Tensor, Tensor, Apply], Tensor]  # (name, values, weight, how it is applied) → values


@dataclass(frozen=True)
class Term:
    """One term of a sum: in a cell what an edge brings to a node, in a residual block the branch or the shortcut."""

    name: str
    depth: float  # of the sum in the network: above 0, and 1 at its end
    skips: bool  # whether it is another value as it was
    alone: bool  # whether the sum has no other term


def _layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
    return apply(x, weight)


def _output(name: str, x: Tensor) -> Tensor:
    return x


def _term(term: Term, x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True)
class Passage:
    """What happens at these places. Names of layers are those of their weights, without `.weight`."""

    layer: Layer = _layer
    output: Callable[[str, Tensor], Tensor] = _output  # what a layer gives, after its norm if it has one
    term: Callable[[Term, Tensor], Tensor] = _term


PLAIN = Passage()
