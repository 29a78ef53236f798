"""The supernet as a program: one network with every operation on every edge, and slopes for the mixing weights."""

import torch
from torch import Tensor

from uraenas.engine.kernels.cells.program import Program
from uraenas.engine.kernels.cells.wiring import wiring_of_supernet
from uraenas.spaces.cells import Cell, Skeleton
from uraenas.spaces.cells.operations import POOL, SKIP


class SupernetProgram(Program):
    """What `spaces.Supernet` computes. θ is given, and its slope returned, as [E, O].

    The factor of a convolution is its norm's scale, so θ is spread over the scales that follow the supernet's weights
    in `extended`, and its slope is the sum of theirs. Where θ is `hard`, what has the weight 0 does not run, and has
    the slope 0.
    """

    def __init__(
        self,
        cell: Cell,
        skeleton: Skeleton,
        batch: int,
        device: torch.device | str,
        dtype: torch.dtype,
        hard: bool = False,
    ) -> None:
        wiring = wiring_of_supernet(cell, skeleton)
        # Running means stay 0. Sums for a variance are taken around them; they say nothing about the next step where
        # one option is drawn at a time: a cell of skips multiplies its input by four, one without has it normed.
        super().__init__([wiring], skeleton, batch, device, dtype, momentum=0.0, skips=hard)
        self.cell = cell
        self.extended = torch.zeros(wiring.weights.size, device=self.device)
        self.statistics = wiring.statistics.initial().to(self.device)
        places = wiring.weights.views(torch.arange(wiring.weights.size))
        self.scales = {
            cell.operations.index(operation): _scale_places(places, cell, skeleton, kernel).to(self.device)
            for operation, kernel in cell.convolutions.items()
        }
        # Passages stand by source node; where the edges, which stand by target, are among them:
        count = len(cell.edges)
        by_source = sorted(range(count), key=lambda e: cell.edges[e])
        self.passage_of_edge = torch.tensor([by_source.index(e) for e in range(count)], device=self.device)

    def run(self, flat_weights: Tensor, mixing: Tensor) -> Tensor:
        """Logits [1, N, K] of the images in the buffer."""
        self.extended[: len(flat_weights)].copy_(flat_weights.detach())
        theta = mixing.detach().to(self.extended.dtype)
        for operation, places in self.scales.items():
            self.extended[places] = theta[:, operation, None].expand(places.shape)
        count = len(self.cell.edges)
        for kind, name in enumerate((SKIP, POOL, *self.cell.convolutions)):
            if name in self.cell.operations:
                own = self.mixing[1 + kind * count : 1 + (kind + 1) * count]
                own.copy_(theta[:, self.cell.operations.index(name)])
        return self.forward(self.extended, self.statistics, True)

    def mixing_gradient(self, logits_gradient: Tensor) -> Tensor:
        """The slope of θ [E, O], in float64; the weights get none."""
        gradient = self.backward(logits_gradient, frozen=True)
        shape = len(self.cell.edges), len(self.cell.operations)
        slopes = torch.zeros(shape, dtype=torch.float64, device=self.device)
        for operation, places in self.scales.items():
            slopes[:, operation] = gradient[places].double().sum(dim=1)
        by_cell = (self.skeleton.cells, len(self.cell.edges), -1, 2)
        sums = torch.cat([buffers.passage_sums.view(by_cell) for buffers in self.stages])
        passages = sums.double().sum(dim=(0, 2)).index_select(0, self.passage_of_edge)
        for kind, name in enumerate((SKIP, POOL)):
            if name in self.cell.operations:
                slopes[:, self.cell.operations.index(name)] = passages[:, kind]
        return slopes


def _scale_places(places: dict[str, Tensor], cell: Cell, skeleton: Skeleton, kernel: int) -> Tensor:
    """Where the scales of one kind of convolution lie, for all cells: [E, numbers]."""
    found: list[list[Tensor]] = [[] for _ in cell.edges]
    for block in skeleton.blocks():
        if block.reduces:
            continue
        for node in range(cell.nodes - 1):
            edges = [e for e, (source, _) in enumerate(cell.edges) if source == node]
            scale = places[f"{block.name}.from{node}.conv{kernel}.norm.scale"]
            for edge, part in zip(edges, scale.chunk(len(edges)), strict=True):
                found[edge].append(part)
    return torch.stack([torch.cat(parts) for parts in found])
