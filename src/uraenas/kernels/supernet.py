"""The supernet as a program: one network with every operation on every edge, and slopes for the mixing weights."""

import torch
from torch import Tensor

from uraenas.kernels.program import Program
from uraenas.kernels.stack import check
from uraenas.kernels.wiring import wiring_of_supernet
from uraenas.networks.supernet import POOL, SKIP
from uraenas.spaces import CONVOLUTIONS, EDGES, NODES, OPERATIONS, Skeleton


class SupernetProgram(Program):
    """What `networks.Supernet` computes. θ is given, and its slope returned, as [E, O].

    The factor of a convolution is its norm's scale, so θ is spread over the scales that follow the supernet's weights
    in `extended`, and its slope is the sum of theirs.
    """

    def __init__(
        self,
        skeleton: Skeleton,
        batch: int,
        device: torch.device | str = "cuda",
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        check(skeleton)
        wiring = wiring_of_supernet(skeleton)
        super().__init__([wiring], skeleton, batch, device, dtype)
        self.extended = torch.zeros(wiring.weights.size, device=self.device)
        self.statistics = wiring.statistics.initial().to(self.device)
        places = wiring.weights.views(torch.arange(wiring.weights.size))
        self.scales = {
            OPERATIONS.index(operation): _scale_places(places, skeleton, kernel).to(self.device)
            for operation, kernel in CONVOLUTIONS.items()
        }
        # Passages stand by source node; where the edges, which stand by target, are among them:
        by_source = sorted(range(len(EDGES)), key=lambda e: EDGES[e])
        self.passage_of_edge = torch.tensor(
            [by_source.index(e) for e in range(len(EDGES))], device=self.device
        )

    def run(self, flat_weights: Tensor, mixing: Tensor) -> Tensor:
        """Logits [1, N, K] of the images in the buffer."""
        self.extended[: len(flat_weights)].copy_(flat_weights.detach())
        theta = mixing.detach().to(self.extended.dtype)
        for operation, places in self.scales.items():
            self.extended[places] = theta[:, operation, None].expand(places.shape)
        self.mixing[1:] = torch.cat([theta[:, SKIP], theta[:, POOL]])
        return self.forward(self.extended, self.statistics, True)

    def mixing_gradient(self, logits_gradient: Tensor) -> Tensor:
        """The slope of θ [E, O], in float64; the weights get none."""
        gradient = self.backward(logits_gradient, frozen=True)
        slopes = torch.zeros(len(EDGES), len(OPERATIONS), dtype=torch.float64, device=self.device)
        for operation, places in self.scales.items():
            slopes[:, operation] = gradient[places].double().sum(dim=1)
        shape = (self.skeleton.cells, len(EDGES), -1, 2)
        sums = torch.cat([buffers.passage_sums.view(shape) for buffers in self.stages])
        passages = sums.double().sum(dim=(0, 2)).index_select(0, self.passage_of_edge)
        slopes[:, SKIP], slopes[:, POOL] = passages[:, 0], passages[:, 1]
        return slopes


def _scale_places(places: dict[str, Tensor], skeleton: Skeleton, kernel: int) -> Tensor:
    """Where the scales of one kind of convolution lie, for all cells: [E, numbers]."""
    found: list[list[Tensor]] = [[] for _ in EDGES]
    for block in skeleton.blocks():
        if block.reduces:
            continue
        for node in range(NODES - 1):
            edges = [e for e, (source, _) in enumerate(EDGES) if source == node]
            scale = places[f"{block.name}.from{node}.conv{kernel}.norm.scale"]
            for edge, part in zip(edges, scale.chunk(len(edges)), strict=True):
                found[edge].append(part)
    return torch.stack([torch.cat(parts) for parts in found])
