"""An architecture of the space of perceptrons: a layer for each node, and skips from the three nodes before the last.

Node 0 is the input. Node k reads node k − 1 and those of k − 2, k − 3, k − 4 that it has skips from; so does the
output, after the last node. A node that is the identity passes on what node k − 1 has, so it and its skips vanish from
what is computed: `dense` is that form.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from uraenas.base.errors import UraenasError

IDENTITY = "identity"
REACH = 3  # nodes before the last one that a skip can come from
LAYER = re.compile(r"([a-z]+)([1-9][0-9]{0,4})")


@dataclass(frozen=True)
class Dense:
    """A dense layer that is there: its activation and width, and the layers it reads, 0 for the input."""

    activation: str
    width: int
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Perceptron:
    """Layers by node, such as `relu64`, and for each node and the output the nodes that skips come from."""

    layers: tuple[str, ...]
    skips: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        words = zip((*self.layers, "out"), self.skips, strict=True)
        return "/".join(f"{word}<{','.join(map(str, own))}" if own else word for word, own in words)

    @classmethod
    def from_string(cls, text: str) -> "Perceptron":
        """The architecture whose `str` this is."""
        layers, skips = [], []
        try:
            for word in text.strip().split("/"):
                layer, sign, own = word.partition("<")
                layers.append(layer)
                skips.append(tuple(int(one) for one in own.split(",")) if sign else ())
            found = cls(tuple(layers[:-1]), tuple(skips))
            possible = all(set(own) <= set(reached(k + 1)) for k, own in enumerate(skips))
            sound = layers[-1] == "out" and possible and str(found) == text.strip()
        except ValueError:
            sound = False
        if not sound:
            raise UraenasError(
                f"{text!r} is no perceptron; expected something like relu64/identity/tanh32<0,1/out<2"
            )
        return found

    @cached_property
    def dense(self) -> tuple[tuple[Dense, ...], tuple[int, ...]]:
        """The layers that are there, and those that the output reads."""
        found: list[Dense] = []
        place = [0]  # of each node: the layer whose values it has
        for k, layer in enumerate(self.layers):
            if layer == IDENTITY:
                place.append(place[k])
            else:
                activation, width = split(layer)
                found.append(Dense(activation, width, self._read(k, place)))
                place.append(len(found))
        return tuple(found), self._read(len(self.layers), place)

    def _read(self, k: int, place: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted({place[k], *(place[source] for source in self.skips[k])}))

    @cached_property
    def canonical(self) -> str:
        layers, last = self.dense
        words = [(f"{one.activation}{one.width}", one.sources) for one in layers] + [("out", last)]
        return "/".join(f"{word}({','.join(map(str, sources))})" for word, sources in words)


def reached(node: int) -> tuple[int, ...]:
    """The nodes that skips into a node can come from."""
    return tuple(range(max(0, node - 1 - REACH), node - 1))


def split(layer: str) -> tuple[str, int]:
    """`relu64` → relu, 64."""
    match = LAYER.fullmatch(layer)
    if match is None:
        raise UraenasError(f"{layer!r} is no layer of a perceptron; expected something like relu64")
    return match[1], int(match[2])
