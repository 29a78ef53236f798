"""What a plan is made of: rows of whole numbers, which kernels read, and spans of them, which are launched together.

All maps of one stage have one size and lie in one arena [maps, N, H, W, C]; a map is named by its number there. Row e
of `edges` is a convolution with its norm, and writes map e. Rows that are launched together stand together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

IMAGE_CHANNELS = 4  # images are stored with channels up to this, so that a pixel is one aligned word
PACKED_UNIT = 64  # offsets into packed weights and partial sums are counted in this many numbers

NOTHING, NORMED = 0, 1  # what arrives at a node, beside SKIP and POOL

Term = tuple[int, int, int]  # kind, map, and the place of its factor in the program's `mixing` (0: one)


@dataclass
class Edge:
    """One convolution of one member. Offsets of weight … variance are into the flat vectors."""

    input: int  # map that is convolved
    # map that is written; the backward pass turns it into the gradient of the convolution's output
    output: int
    gradient: int  # map with the gradient of the convolution's output
    arriving: int  # map with the gradient of the node that the edge leads to
    packed: int
    partial: int
    taps: int
    weight: int
    scale: int = -1
    shift: int = -1
    mean: int = -1
    variance: int = -1
    factor: int = 0  # place in the program's `mixing`; where that is 0, the convolution need not run


@dataclass
class Sum:
    """A node of one member. The factor of a normed term is part of its norm, and here tells whether it ran."""

    output: int
    terms: list[Term]


@dataclass
class Source:
    """The gradient of one node: convolutions that leave it (edges first … first + count), skips and pools."""

    input: int
    output: int
    first: int
    count: int
    shortcut: int  # edge of the residual block's shortcut, where the node feeds one
    terms: list[Term]


@dataclass
class Passage:
    """An edge of a supernet's cell: the maps whose products, pixel by pixel, are the slopes of its skip and pool."""

    input: int
    arriving: int  # map with the gradient of the node that the edge leads to
    skip: int  # places of their factors in `mixing`
    pool: int


@dataclass
class Pack:
    """How one convolution's weight lies in the flat vector, in packed form, and as partial sums of its gradient."""

    weight: int
    packed: int
    partial: int
    outputs: int
    inputs: int
    padded_inputs: int
    taps: int
    pooled: int  # a 1×1 convolution of a 2×2 average is stored as a 2×2 convolution with equal taps
    splits: int
    group: int
    span: int
    factor: int = 0  # as its edge has it


@dataclass(frozen=True)
class Span:
    """Rows first … first + count of a table."""

    first: int
    count: int

    @classmethod
    def since(cls, first: int, rows: Sequence[Any]) -> "Span":
        """From this row to the last that there is by now."""
        return cls(first, len(rows) - first)


@dataclass
class Cell:
    """The launches of one cell: rows by node, and edges by the node they arrive at."""

    leaving: list[Span] = field(default_factory=list)  # edges, by source node
    sums: list[Span] = field(default_factory=list)  # by target node, from 1
    sources: list[Span] = field(default_factory=list)  # by source node
    arriving: list[Span] = field(default_factory=list)  # rows of `order`, by target node, from 1
    edges: Span = Span(0, 0)
    passages: Span = Span(0, 0)


@dataclass
class Stage:
    """One stage: the stem or residual block that feeds it, and its cells."""

    channels: int
    height: int
    width: int
    members: int
    edges: list[Edge] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    order: list[int] = field(default_factory=list)  # edges by the node they arrive at
    cells: list[Cell] = field(default_factory=list)
    # stem: one convolution; residual block: first, second, shortcut
    entry: Cell = field(default_factory=Cell)
    maps: int = 0
    inputs: list[int] = field(default_factory=list)  # maps that feed the first cell, by member
    outputs: list[int] = field(default_factory=list)  # maps that leave the last cell, by member
    output_gradients: list[int] = field(default_factory=list)


@dataclass
class Plan:
    """Everything that the kernels are told about a stack."""

    stages: list[Stage]
    packs: list[Pack]
    packed_size: int
    partial_size: int
    # offset of the head's scale, shift, matrix and bias (they are adjacent), by member
    head_weights: list[int]
    head_statistics: list[int]  # offset of the head's running mean and variance, by member
