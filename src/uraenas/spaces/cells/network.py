"""The network of one genotype, as a function of named tensors.

Convolutions of one kernel size that leave one node read the same ReLU(x), so they are stored and run as one
convolution with more outputs, `<cell>.from<node>.conv<kernel>`, its outputs ordered by target node.
"""

from collections.abc import Iterator
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.spaces.cells import blocks
from uraenas.spaces.cells.blocks import Filling
from uraenas.spaces.cells.genotype import Genotype
from uraenas.spaces.cells.operations import CONVOLUTIONS, POOL, SKIP
from uraenas.spaces.cells.skeleton import Block, Skeleton
from uraenas.spaces.layout import Entry, Layout, convolution, norm, statistics
from uraenas.spaces.passage import Term

FAINT = 0.02  # of the training images' deviation: what differs by less looks blank


@cache
def convolutions_from(genotype: Genotype, node: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The live convolutions that leave a node: (kernel size, target nodes in order), one for each kernel size."""
    groups = []
    for operation, kernel in CONVOLUTIONS.items():
        targets = tuple(
            genotype.edges[e][1]
            for e in genotype.live_edges
            if genotype.edges[e][0] == node and genotype.operations[e] == operation
        )
        if targets:
            groups.append((kernel, targets))
    return tuple(groups)


@cache
def weight_layout(genotype: Genotype, skeleton: Skeleton) -> Layout:
    """Where the weights of one member lie."""
    entries: list[Entry] = blocks.stem_entries(skeleton)
    for block in skeleton.blocks():
        if block.reduces:
            entries += blocks.reduction_entries(block)
            continue
        for name, outputs, kernel in _stored_in(block, genotype):
            entries.append(convolution(name, outputs, block.channels, kernel))
            entries += norm(f"{name}.norm", outputs)
    return Layout((*entries, *blocks.head_entries(skeleton)))


@cache
def statistics_layout(genotype: Genotype, skeleton: Skeleton) -> Layout:
    """Where the batch-norm statistics of one member lie."""
    entries = blocks.skeleton_statistics(skeleton)
    cells = (block for block in skeleton.blocks() if not block.reduces)
    for name, outputs, _ in (one for block in cells for one in _stored_in(block, genotype)):
        entries += statistics(f"{name}.norm", outputs)
    return Layout(tuple(entries))


def _stored_in(cell: Block, genotype: Genotype) -> Iterator[tuple[str, int, int]]:
    """Name, outputs and kernel size of the convolutions that a cell is stored as."""
    for node in range(genotype.nodes - 1):
        for kernel, targets in convolutions_from(genotype, node):
            yield f"{cell.name}.from{node}.conv{kernel}", len(targets) * cell.channels, kernel


def forward(genotype: Genotype, skeleton: Skeleton, x: Tensor, filling: Filling) -> Tensor:
    """Logits [N, K] of images [N, C, H, W]."""
    *_, x = stages(genotype, skeleton, x, filling)
    return blocks.head(x, filling)


def stages(genotype: Genotype, skeleton: Skeleton, x: Tensor, filling: Filling) -> Iterator[Tensor]:
    """The maps [N, C, H, W] at the end of each stage."""
    x = blocks.stem(x, skeleton, filling)
    every = list(skeleton.blocks())
    for number, block in enumerate(every, start=1):
        depth = number / len(every)
        if block.reduces:
            yield x
            x = blocks.reduction(x, block.name, filling, depth)
        else:
            x = _cell(x, block.name, genotype, filling, depth)
    yield x


def summary(x: Tensor) -> Tensor:
    """Mean and deviation over pixels of each channel [N, 2 C]: what kind of map it is, wherever things lie in it."""
    variance, mean = torch.var_mean(x.float(), dim=(2, 3), correction=0)
    return torch.cat([mean, variance.sqrt()], dim=1)


def texture(images: Tensor) -> Tensor:
    """Of each channel [N, 3 C]: its mean, and the logarithms of its deviation, in all and in fine detail.

    They depend on no training. Blank images, noise and the like are told by them where networks have learned little.
    """
    x = images.float()
    variance, mean = torch.var_mean(x, dim=(2, 3), correction=0)
    detail = torch.var_mean(x - blocks.pool(x), dim=(2, 3), correction=0)[0]
    return torch.cat([mean, *((one.sqrt() + FAINT).log() for one in (variance, detail))], dim=1)


def _cell(x: Tensor, name: str, genotype: Genotype, filling: Filling, depth: float) -> Tensor:
    nodes: list[Tensor | None] = [x] + [None] * (genotype.nodes - 1)
    arriving = [genotype.edges[edge][1] for edge in genotype.live_edges]

    def add(source: int, target: int, value: Tensor, skips: bool = False) -> None:
        term = Term(f"{name}.{source}-{target}", depth, skips, arriving.count(target) == 1)
        value, present = filling.passage.term(term, value), nodes[target]
        nodes[target] = value if present is None else present + value

    for node in range(genotype.nodes - 1):
        source = nodes[node]
        if source is None:  # fed by nothing: all edges that leave it are dead
            continue
        groups = convolutions_from(genotype, node)
        rectified = F.relu(source) if groups else source
        for kernel, targets in groups:
            prefix = f"{name}.from{node}.conv{kernel}"
            y = blocks.convolved(rectified, prefix, filling)
            for target, value in zip(targets, y.chunk(len(targets), dim=1), strict=True):
                add(node, target, value)
        for edge in genotype.live_edges:
            start, target = genotype.edges[edge]
            if start == node and genotype.operations[edge] == SKIP:
                add(node, target, source, skips=True)
            elif start == node and genotype.operations[edge] == POOL:
                add(node, target, blocks.pool(source))
    output = nodes[-1]
    assert output is not None  # a stack takes connected genotypes only
    return output
