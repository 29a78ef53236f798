"""The network with all operations on every edge, mixed by weights on the simplex.

Edges that leave one node share ReLU(x) and its pooled copy, and their convolutions are one convolution with more
outputs. Batch norm in cells has no scale of its own; the mixing weight takes its place, so normalising and mixing are
one operation: θ · BN(y) is batch norm with scale θ.

With partial channels operations run on the first of `parts` equal parts of a node's channels, with as many of their
weights. The others pass by, unweighted, and channels are shuffled: the part that comes first in the next node has some
of every part.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base import draws
from uraenas.spaces.cells import blocks
from uraenas.spaces.cells.operations import NONE, POOL, SKIP, Cell
from uraenas.spaces.cells.skeleton import Block, Skeleton
from uraenas.spaces.layout import Entry, Layout, Tensors, convolution

Shares = dict[str, tuple[Tensor, ...]]  # operation → its mixing weight on each edge


@cache
def supernet_layout(cell: Cell, skeleton: Skeleton) -> Layout:
    """Where the supernet's weights lie."""
    entries: list[Entry] = blocks.stem_entries(skeleton)
    for block in skeleton.blocks():
        if block.reduces:
            entries += blocks.reduction_entries(block)
            continue
        for name, outputs, kernel in stored_in(block, cell):
            entries.append(convolution(name, outputs, block.channels, kernel))
    return Layout((*entries, *blocks.head_entries(skeleton)))


def stored_in(block: Block, cell: Cell) -> Iterator[tuple[str, int, int]]:
    """Name, outputs and kernel size of the convolutions that a cell is stored as."""
    for node in range(cell.nodes - 1):
        outputs = (cell.nodes - 1 - node) * block.channels
        for kernel in cell.convolutions.values():
            yield f"{block.name}.from{node}.conv{kernel}", outputs, kernel


def forward(
    cell: Cell, skeleton: Skeleton, weights: Tensors, images: Tensor, mixing: Tensor, parts: int = 1
) -> Tensor:
    """Logits [N, K]; mixing is θ[E, O], one row per edge.

    Batch norm always uses the batch's statistics: the supernet is never used for prediction.
    """
    through = partial(_mixed_cell, cell, weights=weights, shares=_shares(cell, mixing), parts=parts)
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
    operations = [cell.operations[index] for index in chosen]
    through = partial(_chosen_cell, cell, weights=weights, shares=_shares(cell, mixing), chosen=operations)
    logits = _through(skeleton, weights, images, through)
    return logits + 0 * mixing.sum()  # where no path leads to the output, θ has a slope all the same: 0


def _shares(cell: Cell, mixing: Tensor) -> Shares:
    return {name: own.unbind() for name, own in zip(cell.operations, mixing.unbind(dim=1), strict=True)}


def _through(
    skeleton: Skeleton, weights: Tensors, images: Tensor, cell: Callable[[Tensor, str], Tensor]
) -> Tensor:
    filling = blocks.Filling(weights)
    x = blocks.stem(images, skeleton, filling)
    for block in skeleton.blocks():
        x = blocks.reduction(x, block.name, filling) if block.reduces else cell(x, block.name)
    return blocks.head(x, filling)


def _mixed_cell(cell: Cell, x: Tensor, name: str, weights: Tensors, shares: Shares, parts: int) -> Tensor:
    """A node is the sum of what its edges bring, from one node after another; with parts, beside what passes by."""
    channels = x.shape[1] // parts
    nodes: list[Tensor] = [x]
    arriving: list[list[Tensor]] = [[] for _ in range(cell.nodes)]
    for node in range(cell.nodes - 1):
        source = nodes[node][:, :channels]
        leaving = [edge for edge, (start, _) in enumerate(cell.edges) if start == node]
        convolved = _convolved(cell, source, f"{name}.from{node}", weights, shares, leaving)
        pooled = blocks.pool(source) if POOL in shares else None
        for place, edge in enumerate(leaving):
            _, target = cell.edges[edge]
            arriving[target] += convolved[place : place + 1]
            arriving[target] += _passed_on(source, pooled, shares, edge)
        total = _sum(arriving[node + 1])
        nodes.append(total if parts == 1 else _shuffled(total, nodes))
    return nodes[-1]


def _convolved(
    cell: Cell, source: Tensor, name: str, weights: Tensors, shares: Shares, leaving: Sequence[int]
) -> Sequence[Tensor]:
    """What convolutions bring to each edge that leaves a node, all kernels in one; nothing where there are none."""
    channels, rectified = source.shape[1], F.relu(source)
    mixed = []
    for operation, kernel in cell.convolutions.items():
        stored = weights[f"{name}.conv{kernel}.weight"]
        of_edges = stored.view(len(leaving), -1, *stored.shape[1:])
        weight = of_edges[:, :channels, :channels].flatten(0, 1)
        scale = torch.cat([shares[operation][edge].expand(channels) for edge in leaving])
        mixed.append(_normed(F.conv2d(rectified, weight, padding=kernel // 2), scale))
    return _sum(mixed).chunk(len(leaving), dim=1) if mixed else ()


def _passed_on(source: Tensor, pooled: Tensor | None, shares: Shares, edge: int) -> list[Tensor]:
    """What an edge brings without a convolution: skip and pool as one term, or none."""
    skipped = shares[SKIP][edge] * source if SKIP in shares else None
    if pooled is None:
        return [] if skipped is None else [skipped]
    share = shares[POOL][edge]
    return [share * pooled if skipped is None else torch.addcmul(skipped, share, pooled)]


def _shuffled(total: Tensor, nodes: Sequence[Tensor]) -> Tensor:
    """The channels that operations gave and, summed over the nodes before, those that passed by: from each in turn."""
    channels = total.shape[1]
    passing = _sum([node[:, channels:] for node in nodes])
    both = torch.cat([total, passing], dim=1)
    return both.unflatten(1, (-1, channels)).transpose(1, 2).flatten(1, 2)


def _chosen_cell(
    cell: Cell, x: Tensor, name: str, weights: Tensors, shares: Shares, chosen: Sequence[str]
) -> Tensor:
    """A node is the sum of what its edges bring, each by its chosen operation."""
    nodes = [x]
    for target in range(1, cell.nodes):
        terms = [
            _chosen_term(cell, edge, nodes[source], chosen[edge], name, weights, shares)
            for edge, (source, to) in enumerate(cell.edges)
            if to == target and chosen[edge] != NONE
        ]
        nodes.append(_sum(terms) if terms else torch.zeros_like(x))
    return nodes[-1]


def _chosen_term(
    cell: Cell, edge: int, x: Tensor, operation: str, name: str, weights: Tensors, shares: Shares
) -> Tensor:
    share = shares[operation][edge]
    if operation == SKIP:
        return share * x
    if operation == POOL:
        return share * blocks.pool(x)
    (source, target), kernel = cell.edges[edge], cell.convolutions[operation]
    of_edges = weights[f"{name}.from{source}.conv{kernel}.weight"].chunk(cell.nodes - 1 - source)
    y = F.conv2d(F.relu(x), of_edges[target - source - 1], padding=kernel // 2)
    return _normed(y, share.expand(x.shape[1]).contiguous())  # else its gradient is wrong (docs/gotchas.md)


def _normed(x: Tensor, scale: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, scale, None, True, 0.0, blocks.EPSILON)


def _sum(terms: Sequence[Tensor]) -> Tensor:
    return sum(terms[1:], start=terms[0])
