"""The entry `CellSpace`: cells of nodes and operations in a skeleton of three stages. NAS-Bench-201 is one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from markupsafe import Markup
from torch import Tensor

from uraenas.base.errors import UraenasError, require_range
from uraenas.base.parts import given
from uraenas.spaces.cells import blocks, drawing, network, supernet
from uraenas.spaces.cells.blocks import Filling
from uraenas.spaces.cells.genotype import Genotype
from uraenas.spaces.cells.operations import CONVOLUTIONS, NASBENCH201, NONE, Cell, known, label
from uraenas.spaces.cells.skeleton import Skeleton, cost, halvings_for
from uraenas.spaces.layout import Layout, Tensors
from uraenas.spaces.passage import PLAIN, Passage
from uraenas.spaces.space import Cost, Decision, Features, Shape

LEAST_SIDE = 4  # of images


@dataclass(frozen=True)
class CellSpace:
    """A cell with an operation on each edge, repeated in a skeleton of three stages."""

    channels: int = 16  # of the first stage; each stage has twice as many as the one before
    cells: int = 5  # per stage
    halvings: int = -1  # how often the stem halves images; -1: until no side is longer than 48
    name: str = given(default="nasbench201")
    nodes: int = given(default=4)
    operations: tuple[str, ...] = given(default=NASBENCH201)
    shape: Shape = given(default_factory=Shape)

    def __post_init__(self) -> None:
        require_range("channels", self.channels, 1, 1024)
        require_range("cells", self.cells, 1, 100)
        require_range("halvings", self.halvings, -1, 8)
        require_range("nodes", self.nodes, 2, 8)
        for name in ("height", "width"):
            if getattr(self.shape, name) < LEAST_SIDE:
                raise UraenasError(
                    f"images have {name} {getattr(self.shape, name)}; it must be at least {LEAST_SIDE} for {self.name}"
                    "; a table needs --preset table"
                )
        object.__setattr__(self, "operations", tuple(self.operations))  # JSON has lists
        if not self.operations or not set(self.operations) <= set(known()) or set(self.operations) == {NONE}:
            raise UraenasError(f"operations = {self.operations} is not allowed; a cell needs some that exist")

    @cached_property
    def cell(self) -> Cell:
        return Cell(self.nodes, self.operations)

    @cached_property
    def skeleton(self) -> Skeleton:
        shape, halvings = self.shape, self.halvings
        if halvings < 0:
            halvings = halvings_for(shape.height, shape.width)
        size = shape.height, shape.width, shape.channels, shape.classes
        return Skeleton(self.channels, self.cells, *size, halvings)

    # What there is to choose

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        absent = self.operations.index(NONE) if NONE in self.operations else None
        return tuple(Decision(f"{s} → {t}", self.operations, absent) for s, t in self.cell.edges)

    def architecture(self, indices: Sequence[int]) -> Genotype:
        return Genotype(tuple(self.operations[index] for index in indices))

    def indices(self, architecture: Genotype) -> tuple[int, ...]:
        return tuple(self.operations.index(operation) for operation in architecture.operations)

    def parse(self, text: str) -> Genotype:
        genotype = Genotype.from_string(text)
        if genotype.nodes != self.nodes or not set(genotype.operations) <= set(self.operations):
            allowed = ", ".join(self.operations)
            raise UraenasError(f"{text} is no cell of {self.name}: {self.nodes} nodes, with {allowed}")
        return genotype

    def is_valid(self, architecture: Genotype) -> bool:
        return architecture.connected

    def canonical(self, architecture: Genotype) -> str:
        return architecture.canonical.text

    # What it computes

    def weight_layout(self, architecture: Genotype) -> Layout:
        return network.weight_layout(architecture, self.skeleton)

    def statistics_layout(self, architecture: Genotype) -> Layout:
        return network.statistics_layout(architecture, self.skeleton)

    def forward(
        self,
        architectures: Sequence[Genotype],
        weights: Sequence[Tensors],
        statistics: Sequence[Tensors],
        images: Tensor,
        training: bool,
        passage: Passage = PLAIN,
    ) -> Tensor:
        own = [images] * len(architectures) if images.dim() == 4 else list(images)
        fillings = [Filling(w, s, training, passage) for w, s in zip(weights, statistics, strict=True)]
        members = zip(architectures, own, fillings, strict=True)
        return torch.stack([network.forward(g, self.skeleton, x, one) for g, x, one in members])

    def trace(
        self,
        architecture: Genotype,
        weights: Tensors,
        statistics: Tensors,
        images: Tensor,
        passage: Passage = PLAIN,
    ) -> tuple[Tensor, Features]:
        """Levels are the ends of the first and of the last stage, and the images themselves."""
        filling = Filling(weights, statistics, False, passage)
        first, *_, last = network.stages(architecture, self.skeleton, images, filling)
        logits = blocks.head(last, filling)
        return logits, (network.summary(first), network.summary(last), network.texture(images))

    def folded(self, architecture: Genotype, weights: Tensors, statistics: Tensors) -> Tensors:
        return blocks.folded(weights, statistics)

    def supernet_layout(self) -> Layout:
        return supernet.supernet_layout(self.cell, self.skeleton)

    def supernet_forward(self, weights: Tensors, images: Tensor, mixing: Tensor) -> Tensor:
        return supernet.forward(self.cell, self.skeleton, weights, images, mixing)

    def partial_forward(self, weights: Tensors, images: Tensor, mixing: Tensor, parts: int) -> Tensor:
        return supernet.forward(self.cell, self.skeleton, weights, images, mixing, parts)

    def widened(self, flat: Tensor, before: int, after: int, key: int) -> Tensor:
        return supernet.widened(self.supernet_layout(), flat, before, after, key)

    def chosen_forward(
        self, weights: Tensors, images: Tensor, mixing: Tensor, chosen: Sequence[int]
    ) -> Tensor:
        return supernet.chosen_forward(self.cell, self.skeleton, weights, images, mixing, chosen)

    # What it costs and looks like

    def cost(self, architecture: Genotype) -> Cost:
        return cost(architecture, self.skeleton)

    @property
    def most_parameters(self) -> int:
        largest = max(self.operations, key=lambda operation: CONVOLUTIONS.get(operation, 0))
        return self.cost(Genotype((largest,) * len(self.cell.edges))).parameters

    def look(self, option: str) -> tuple[str, str]:
        return label(option), drawing.operation_class(option)

    def describe(self, architecture: Genotype) -> str:
        return drawing.described(architecture.operations, architecture.live_edges)

    def draw(
        self, architecture: Genotype, x: float, y: float, width: float, labels: bool = False, tip: str = ""
    ) -> Markup:
        live = architecture.live_edges
        return drawing.cell_graph(architecture.operations, live, x, y, width, labels, tip)

    def legend(self) -> list[tuple[str, str, Markup]]:
        return drawing.operation_legend(self.operations)
