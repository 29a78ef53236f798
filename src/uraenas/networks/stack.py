"""M networks, each with its own genotype, run as one module. M = 1 is the plain network.

Convolutions of one kernel size that leave one node read the same ReLU(x), so they are stored and run as one
convolution with more outputs, `<cell>.from<node>.conv<kernel>`, its outputs ordered by target node.
"""

from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uraenas.errors import UraenasError
from uraenas.networks import skeleton as parts
from uraenas.networks.layout import Entry, Layout, aligned, convolution, norm, statistics
from uraenas.spaces import CONVOLUTIONS, EDGES, NODES, Genotype, Skeleton


@cache
def convolutions_from(genotype: Genotype, node: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The live convolutions that leave a node: (kernel size, target nodes in order), one for each kernel size."""
    groups = []
    for operation, kernel in CONVOLUTIONS.items():
        edges = [
            e for e in genotype.live_edges if EDGES[e][0] == node and genotype.operations[e] == operation
        ]
        if edges:
            groups.append((kernel, tuple(EDGES[e][1] for e in edges)))
    return tuple(groups)


@cache
def weight_layout(genotype: Genotype, skeleton: Skeleton) -> Layout:
    """Where the weights of one member lie."""
    entries: list[Entry] = parts.stem_entries(skeleton)
    for block in skeleton.blocks():
        if block.reduces:
            entries += parts.reduction_entries(block)
            continue
        for node in range(NODES - 1):
            for kernel, targets in convolutions_from(genotype, node):
                name, outputs = f"{block.name}.from{node}.conv{kernel}", len(targets) * block.channels
                entries.append(convolution(name, outputs, block.channels, kernel))
                entries += norm(f"{name}.norm", outputs)
    return Layout((*entries, *parts.head_entries(skeleton)))


@cache
def statistics_layout(genotype: Genotype, skeleton: Skeleton) -> Layout:
    """Where the batch-norm statistics of one member lie."""
    entries = parts.skeleton_statistics(skeleton)
    for block in skeleton.blocks():
        if not block.reduces:
            for node in range(NODES - 1):
                for kernel, targets in convolutions_from(genotype, node):
                    name = f"{block.name}.from{node}.conv{kernel}.norm"
                    entries += statistics(name, len(targets) * block.channels)
    return Layout(tuple(entries))


class Stack(nn.Module):
    """M members in one module: one flat weight vector, one forward, one backward.

    Shapes: M members, N images of a batch, K classes.
    """

    def __init__(self, genotypes: Sequence[Genotype], skeleton: Skeleton) -> None:
        super().__init__()
        for genotype in genotypes:
            if not genotype.connected:
                raise UraenasError(f"genotype {genotype} cuts the input off from the output")
        self.genotypes = tuple(genotypes)
        self.skeleton = skeleton
        self.weight_layouts = [weight_layout(genotype, skeleton) for genotype in genotypes]
        self.statistics_layouts = [statistics_layout(genotype, skeleton) for genotype in genotypes]
        self.weight_sizes = [layout.size for layout in self.weight_layouts]
        self.statistics_sizes = [layout.size for layout in self.statistics_layouts]
        self.weights = nn.Parameter(torch.zeros(sum(self.weight_sizes)))
        self.statistics: Tensor
        self.register_buffer(
            "statistics", torch.cat([layout.initial() for layout in self.statistics_layouts])
        )

    def __len__(self) -> int:
        return len(self.genotypes)

    def initialise(self, keys: Sequence[int]) -> None:
        """Draw fresh weights, each member's from its own key."""
        for m, (layout, key) in enumerate(zip(self.weight_layouts, keys, strict=True)):
            self.put(m, layout.initial(key), self.statistics_layouts[m].initial())

    def put(self, m: int, weights: Tensor, statistics: Tensor) -> None:
        """Make these flat vectors the weights and statistics of member m."""
        with torch.no_grad():
            self.weights.split(self.weight_sizes)[m].copy_(weights)
            self.statistics.split(self.statistics_sizes)[m].copy_(statistics)

    def take(self, m: int) -> tuple[Tensor, Tensor]:
        """A copy of member m's flat weights and statistics."""
        weights = self.weights.detach().split(self.weight_sizes)[m].clone()
        return weights, self.statistics.split(self.statistics_sizes)[m].clone()

    def forward(self, images: Tensor) -> Tensor:
        """Logits [M, N, K] of images [N, C, H, W], or [M, N, C, H, W] where each member has its own."""
        shared = images.dim() == 4
        weights, statistics = (
            self.weights.split(self.weight_sizes),
            self.statistics.split(self.statistics_sizes),
        )
        logits = [
            self._member(m, images if shared else images[m], weights[m], statistics[m])
            for m in range(len(self))
        ]
        return torch.stack(logits)

    def _member(self, m: int, x: Tensor, flat_weights: Tensor, flat_statistics: Tensor) -> Tensor:
        weights = aligned(self.weight_layouts[m].views(flat_weights))
        running = self.statistics_layouts[m].views(flat_statistics)
        x = parts.stem(x, weights, running, self.training)
        for block in self.skeleton.blocks():
            if block.reduces:
                x = parts.reduction(x, block.name, weights, running, self.training)
            else:
                x = _cell(x, block.name, self.genotypes[m], weights, running, self.training)
        return parts.head(x, weights, running, self.training)


def _cell(x: Tensor, name: str, genotype: Genotype, weights: dict, running: dict, training: bool) -> Tensor:
    nodes: list[Tensor | None] = [x] + [None] * (NODES - 1)

    def add(target: int, term: Tensor) -> None:
        present = nodes[target]
        nodes[target] = term if present is None else present + term

    for node in range(NODES - 1):
        source = nodes[node]
        if source is None:  # fed by nothing: all edges that leave it are dead
            continue
        groups = convolutions_from(genotype, node)
        rectified = F.relu(source) if groups else source
        for kernel, targets in groups:
            prefix = f"{name}.from{node}.conv{kernel}"
            y = F.conv2d(rectified, weights[f"{prefix}.weight"], padding=kernel // 2)
            y = parts.batch_norm(y, f"{prefix}.norm", weights, running, training)
            for target, term in zip(targets, y.chunk(len(targets), dim=1), strict=True):
                add(target, term)
        for edge in genotype.live_edges:
            if EDGES[edge][0] == node and genotype.operations[edge] == "skip_connect":
                add(EDGES[edge][1], source)
            elif EDGES[edge][0] == node and genotype.operations[edge] == "avg_pool_3x3":
                add(EDGES[edge][1], parts.pool(source))
    output = nodes[NODES - 1]
    assert output is not None  # the stack takes connected genotypes only
    return output
