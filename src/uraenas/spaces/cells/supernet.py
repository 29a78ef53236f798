"""The network with all operations on every edge, mixed by weights on the simplex.

Edges that leave one node share ReLU(x) and its pooled copy, and their convolutions are one convolution with more
outputs. Batch norm in cells has no scale of its own; the mixing weight takes its place, so normalising and mixing are
one operation: θ · BN(y) is batch norm with scale θ.

With partial channels operations run on the first of `parts` equal parts of a node's channels, with as many of their
weights. The others pass by, unweighted, and channels are shuffled: the part that comes first in the next node has some
of every part.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base import draws
from uraenas.spaces.cells import blocks
from uraenas.spaces.cells.operations import POOL, SKIP, Cell
from uraenas.spaces.cells.skeleton import Skeleton
from uraenas.spaces.layout import Entry, Layout, Tensors, convolution


@cache
def supernet_layout(cell: Cell, skeleton: Skeleton) -> Layout:
    """Where the supernet's weights lie."""
    entries: list[Entry] = blocks.stem_entries(skeleton)
    for block in skeleton.blocks():
        if block.reduces:
            entries += blocks.reduction_entries(block)
            continue
        for node in range(cell.nodes - 1):
            for kernel in cell.convolutions.values():
                outputs = (cell.nodes - 1 - node) * block.channels
                name = f"{block.name}.from{node}.conv{kernel}"
                entries.append(convolution(name, outputs, block.channels, kernel))
    return Layout((*entries, *blocks.head_entries(skeleton)))


def forward(
    cell: Cell, skeleton: Skeleton, weights: Tensors, images: Tensor, mixing: Tensor, parts: int = 1
) -> Tensor:
    """Logits [N, K]; mixing is θ[E, O], one row per edge.

    Batch norm always uses the batch's statistics: the supernet is never used for prediction.
    """
    through = partial(_mixed_cell, cell, weights=weights, mixing=mixing, parts=parts)
    return _through(skeleton, weights, images, through)


def widened(layout: Layout, flat: Tensor, before: int, after: int, key: int) -> Tensor:
    """The flat weights for fewer parts: channels that operations did not have are copies of some that they had.

    A velocity is widened as weights are, by the same key.
    """
    flat = flat.clone()
    views = layout.views(flat)
    for position, entry in enumerate(layout.entries):
        if ".from" not in entry.name:
            continue
        channels = entry.shape[1]
        own = views[entry.name].view(-1, channels, *entry.shape[1:])  # of each edge
        old, new = channels // before, channels // after
        copied = draws.integers(draws.at(key, position), 2 * (new - old), old).view(2, -1)
        own[:, :old, old:new] = own[:, :old, copied[0]]
        own[:, old:new, :new] = own[:, copied[1], :new]
    return flat


def chosen_forward(
    cell: Cell, skeleton: Skeleton, weights: Tensors, images: Tensor, mixing: Tensor, chosen: Sequence[int]
) -> Tensor:
    """The same where all other options than the chosen have weight 0, and without running them."""
    through = partial(_chosen_cell, cell, weights=weights, mixing=mixing, chosen=chosen)
    logits = _through(skeleton, weights, images, through)
    return logits + 0 * mixing.sum()  # where no path leads to the output, θ has a slope all the same: 0


def _through(
    skeleton: Skeleton, weights: Tensors, images: Tensor, cell: Callable[[Tensor, str], Tensor]
) -> Tensor:
    filling = blocks.Filling(weights)
    x = blocks.stem(images, skeleton, filling)
    for block in skeleton.blocks():
        x = blocks.reduction(x, block.name, filling) if block.reduces else cell(x, block.name)
    return blocks.head(x, filling)


def _chosen_cell(
    cell: Cell, x: Tensor, name: str, weights: Tensors, mixing: Tensor, chosen: Sequence[int]
) -> Tensor:
    nodes = [x]
    for target in range(1, cell.nodes):
        terms = []
        for edge, (source, to) in enumerate(cell.edges):
            if to != target:
                continue
            operation, share = cell.operations[chosen[edge]], mixing[edge, chosen[edge]]
            if operation == SKIP:
                terms.append(share * nodes[source])
            elif operation == POOL:
                terms.append(share * blocks.pool(nodes[source]))
            elif operation in cell.convolutions:
                kernel = cell.convolutions[operation]
                weight = weights[f"{name}.from{source}.conv{kernel}.weight"]
                own = weight.chunk(cell.nodes - 1 - source)[target - source - 1]
                y = F.conv2d(F.relu(nodes[source]), own, padding=kernel // 2)
                scale = share.expand(x.shape[1]).contiguous()  # else its gradient is wrong (docs/gotchas.md)
                terms.append(F.batch_norm(y, None, None, scale, None, True, 0.0, blocks.EPSILON))
        nodes.append(sum(terms[1:], start=terms[0]) if terms else torch.zeros_like(x))
    return nodes[-1]


def _mixed_cell(cell: Cell, x: Tensor, name: str, weights: Tensors, mixing: Tensor, parts: int) -> Tensor:
    channels, operations = x.shape[1] // parts, cell.operations
    nodes: list[Tensor] = [x]
    arriving: list[list[Tensor]] = [[] for _ in range(cell.nodes)]
    for node in range(cell.nodes - 1):
        leaving = [e for e, (source, _) in enumerate(cell.edges) if source == node]
        source = nodes[node] if parts == 1 else nodes[node][:, :channels]
        rectified, mixed = F.relu(source), []
        pooled = blocks.pool(source) if POOL in operations else None
        for operation, kernel in cell.convolutions.items():
            weight = weights[f"{name}.from{node}.conv{kernel}.weight"]
            if parts > 1:
                of_edges = weight.view(len(leaving), -1, *weight.shape[1:])
                weight = of_edges[:, :channels, :channels].flatten(0, 1)
            y = F.conv2d(rectified, weight, padding=kernel // 2)
            column = mixing[:, operations.index(operation)]
            # Edge by edge, because a list as an index would be copied from the host.
            scale = torch.cat([column[edge].expand(channels) for edge in leaving])
            mixed.append(F.batch_norm(y, None, None, scale, None, True, 0.0, blocks.EPSILON))
        convolved = sum(mixed[1:], start=mixed[0]).chunk(len(leaving), dim=1) if mixed else ()
        for place, edge in enumerate(leaving):
            to = arriving[cell.edges[edge][1]]
            to += [convolved[place]] if mixed else []
            linear = mixing[edge, operations.index(SKIP)] * source if SKIP in operations else None
            if pooled is not None:
                share = mixing[edge, operations.index(POOL)]
                linear = share * pooled if linear is None else torch.addcmul(linear, share, pooled)
            to += [] if linear is None else [linear]
        terms = arriving[node + 1]
        total = sum(terms[1:], start=terms[0])
        if parts > 1:
            passing = sum((one[:, channels:] for one in nodes[1:]), start=nodes[0][:, channels:])
            total = torch.cat([total, passing], dim=1).unflatten(1, (parts, -1)).transpose(1, 2).flatten(1, 2)
        nodes.append(total)
    return nodes[-1]
