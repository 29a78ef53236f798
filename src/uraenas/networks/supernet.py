"""The network with all operations on every edge, mixed by weights on the simplex.

Edges that leave one node share ReLU(x) and its pooled copy, and their convolutions are one convolution with more
outputs. Batch norm in cells has no scale of its own; the mixing weight takes its place, so normalising and mixing are
one operation: θ · BN(y) is batch norm with scale θ.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uraenas.networks import skeleton as parts
from uraenas.networks.layout import Entry, Layout, aligned, convolution
from uraenas.spaces import CONVOLUTIONS, EDGES, NODES, OPERATIONS, Skeleton

SKIP, POOL = OPERATIONS.index("skip_connect"), OPERATIONS.index("avg_pool_3x3")


@cache
def supernet_layout(skeleton: Skeleton) -> Layout:
    """Where the supernet's weights lie."""
    entries: list[Entry] = parts.stem_entries(skeleton)
    for block in skeleton.blocks():
        if block.reduces:
            entries += parts.reduction_entries(block)
            continue
        for node in range(NODES - 1):
            for kernel in CONVOLUTIONS.values():
                outputs = (NODES - 1 - node) * block.channels
                name = f"{block.name}.from{node}.conv{kernel}"
                entries.append(convolution(name, outputs, block.channels, kernel))
    return Layout((*entries, *parts.head_entries(skeleton)))


class Supernet(nn.Module):
    """All architectures at once. `forward(images, mixing)`; mixing is θ[E, O], one row per edge, rows summing to 1."""

    def __init__(self, skeleton: Skeleton) -> None:
        super().__init__()
        self.skeleton = skeleton
        self.layout = supernet_layout(skeleton)
        self.weights = nn.Parameter(torch.zeros(self.layout.size))

    def initialise(self, key: int) -> None:
        with torch.no_grad():
            self.weights.copy_(self.layout.initial(key))

    def forward(self, images: Tensor, mixing: Tensor, frozen: bool = False) -> Tensor:
        """Logits [N, K]; with `frozen` weights no gradient is computed for them.

        Batch norm always uses the batch's statistics: the supernet is never used for prediction.
        """
        weights = aligned(self.layout.views(self.weights.detach() if frozen else self.weights))
        mixing = mixing.to(self.weights.dtype)
        x = parts.stem(images, weights, None, True)
        for block in self.skeleton.blocks():
            if block.reduces:
                x = parts.reduction(x, block.name, weights, None, True)
            else:
                x = _mixed_cell(x, block.name, weights, mixing)
        return parts.head(x, weights, None, True)


def _mixed_cell(x: Tensor, name: str, weights: dict[str, Tensor], mixing: Tensor) -> Tensor:
    channels = x.shape[1]
    nodes: list[Tensor] = [x]
    arriving: list[list[Tensor]] = [[] for _ in range(NODES)]
    for node in range(NODES - 1):
        edges = [e for e, (source, _) in enumerate(EDGES) if source == node]
        source = nodes[node]
        rectified, pooled = F.relu(source), parts.pool(source)
        mixed = []
        for operation, kernel in CONVOLUTIONS.items():
            y = F.conv2d(rectified, weights[f"{name}.from{node}.conv{kernel}.weight"], padding=kernel // 2)
            column = mixing[:, OPERATIONS.index(operation)]
            # Edge by edge, because a list as an index would be copied from the host.
            scale = torch.cat([column[edge].expand(channels) for edge in edges])
            mixed.append(F.batch_norm(y, None, None, scale, None, True, 0.0, parts.EPSILON))
        for edge, term in zip(edges, sum(mixed[1:], start=mixed[0]).chunk(len(edges), dim=1), strict=True):
            linear = torch.addcmul(mixing[edge, SKIP] * source, mixing[edge, POOL], pooled)
            arriving[EDGES[edge][1]] += [term, linear]
        nodes.append(sum(arriving[node + 1][1:], start=arriving[node + 1][0]))
    return nodes[-1]
