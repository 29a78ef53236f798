"""The entry `PerceptronSpace`: nodes one after another, each the identity or a dense layer, with skips."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from markupsafe import Markup
from torch import Tensor

from uraenas.base.errors import UraenasError, require_range, unknown
from uraenas.base.parts import given
from uraenas.spaces.layout import Layout, Tensors
from uraenas.spaces.passage import PLAIN, Passage
from uraenas.spaces.perceptrons import drawing, network, stacked, supernet
from uraenas.spaces.perceptrons.wiring import IDENTITY, Perceptron, reached
from uraenas.spaces.space import Cost, Decision, Features, Shape

NO_SKIP, SKIP = "none", "skip"


@dataclass(frozen=True)
class PerceptronSpace:
    """Perceptrons: a number of nodes, each the identity or dense with a width and an activation, and skips."""

    nodes: int = 3  # at most so many hidden layers
    widths: tuple[int, ...] = (16, 32, 64)  # units of a layer
    activations: tuple[str, ...] = ("relu", "swish", "tanh")  # of a layer
    name: str = given(default="perceptrons")
    shape: Shape = given(default_factory=Shape)

    def __post_init__(self) -> None:
        require_range("nodes", self.nodes, 1, 20)
        for name in ("widths", "activations"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # JSON has lists
            if not getattr(self, name) or len(set(getattr(self, name))) < len(getattr(self, name)):
                raise UraenasError(f"{name} = {getattr(self, name)} names none, or one twice")
        for width in self.widths:
            require_range("widths", width, 1, 10_000)
        for activation in self.activations:
            if activation not in network.ACTIVATIONS:
                raise unknown("activations", activation, network.ACTIVATIONS)

    @property
    def inputs(self) -> int:
        return self.shape.height * self.shape.width * self.shape.channels

    @property
    def outputs(self) -> int:
        return self.shape.classes

    # What there is to choose

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """What a node can be."""
        return IDENTITY, *(f"{one}{width}" for one in self.activations for width in self.widths)

    @cached_property
    def places(self) -> tuple[tuple[int, int | None], ...]:
        """Of each decision the node, the output after the last; and the node that a skip comes from, if it is one."""
        every = ((k, j) for k in range(1, self.nodes + 2) for j in (None, *reached(k)))
        return tuple(place for place in every if place != (self.nodes + 1, None))

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(
            Decision(f"node {k}", self.layers)
            if j is None
            else Decision(f"{j} → {k if k <= self.nodes else 'output'}", (NO_SKIP, SKIP), absent=0)
            for k, j in self.places
        )

    def architecture(self, indices: Sequence[int]) -> Perceptron:
        chosen = dict(zip(self.places, indices, strict=True))
        layers = (self.layers[chosen[k, None]] for k in range(1, self.nodes + 1))
        skips = (tuple(j for j in reached(k) if chosen[k, j] == 1) for k in range(1, self.nodes + 2))
        return Perceptron(tuple(layers), tuple(skips))

    def indices(self, architecture: Perceptron) -> tuple[int, ...]:
        return tuple(
            self.layers.index(architecture.layers[k - 1])
            if j is None
            else int(j in architecture.skips[k - 1])
            for k, j in self.places
        )

    def parse(self, text: str) -> Perceptron:
        found, allowed = Perceptron.from_string(text), self.layers
        if len(found.layers) != self.nodes or not set(found.layers) <= set(allowed):
            raise UraenasError(
                f"{text} is none of {self.name}: {self.nodes} nodes, each one of {', '.join(allowed)}"
            )
        return found

    def is_valid(self, architecture: Perceptron) -> bool:
        return True  # each node reads the one before it

    def canonical(self, architecture: Perceptron) -> str:
        return architecture.canonical

    # What it computes

    def weight_layout(self, architecture: Perceptron) -> Layout:
        return network.weight_layout(architecture, self.inputs, self.outputs)

    def statistics_layout(self, architecture: Perceptron) -> Layout:
        return Layout(())  # there are no norms

    def forward(
        self,
        architectures: Sequence[Perceptron],
        weights: Sequence[Tensors],
        statistics: Sequence[Tensors],
        images: Tensor,
        training: bool,
        passage: Passage = PLAIN,
    ) -> Tensor:
        pairs = zip(architectures, weights, strict=True)
        named = [(own[entry.name], entry) for one, own in pairs for entry in self.weight_layout(one).entries]
        if training and passage is PLAIN and all(one.shape == entry.shape for one, entry in named):
            return self.together(architectures, torch.cat([one.reshape(-1) for one, _ in named]), images)
        own_rows = [images] * len(architectures) if images.dim() == 4 else list(images)
        members = zip(architectures, weights, own_rows, strict=True)
        return torch.stack([network.trace(a, w, x.flatten(1), passage)[0] for a, w, x in members])

    def together(self, architectures: Sequence[Perceptron], flat: Tensor, images: Tensor) -> Tensor:
        """Outputs [M, N, K] in training, all members as one, of their flat weights one after another."""
        rows = images.flatten(-3)
        rows = rows.expand(len(architectures), -1, -1) if images.dim() == 4 else rows
        sizes = stacked.Sizes(self.inputs, self.outputs, max(self.widths), self.nodes)
        return stacked.forward(stacked.plan_of(tuple(architectures), sizes, flat.device), flat, rows)

    def trace(
        self,
        architecture: Perceptron,
        weights: Tensors,
        statistics: Tensors,
        images: Tensor,
        passage: Passage = PLAIN,
    ) -> tuple[Tensor, Features]:
        """Levels are the input and what the last layer reads."""
        rows = images.flatten(1)
        outputs, seen = network.trace(architecture, weights, rows, passage)
        return outputs, (rows, seen)

    def supernet_layout(self) -> Layout:
        return supernet.supernet_layout(self.nodes, max(self.widths), self.inputs, self.outputs)

    def supernet_forward(self, weights: Tensors, images: Tensor, mixing: Tensor) -> Tensor:
        facts = (self.activations, self.widths, self.nodes)
        return supernet.forward(*facts, weights, images.flatten(1), mixing)

    # What it costs and looks like

    def cost(self, architecture: Perceptron) -> Cost:
        layout = self.weight_layout(architecture)
        return Cost(layout.size, sum(entry.size for entry in layout.entries if len(entry.shape) > 1))

    @property
    def most_parameters(self) -> int:
        widest = f"{self.activations[0]}{max(self.widths)}"
        every = tuple(reached(k) for k in range(1, self.nodes + 2))
        return self.cost(Perceptron((widest,) * self.nodes, every)).parameters

    def look(self, option: str) -> tuple[str, str]:
        return drawing.look(option)

    def describe(self, architecture: Perceptron) -> str:
        return drawing.described(architecture)

    def draw(
        self, architecture: Perceptron, x: float, y: float, width: float, labels: bool = False, tip: str = ""
    ) -> Markup:
        return drawing.graph(architecture, x, y, width, labels, tip)

    def legend(self) -> list[tuple[str, str, Markup]]:
        return drawing.legend(self.activations)
