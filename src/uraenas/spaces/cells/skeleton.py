"""What surrounds the cell: stem, three stages of cells with residual blocks between them, classifier."""

from collections.abc import Iterator
from dataclasses import dataclass

from uraenas.spaces.cells.genotype import Genotype
from uraenas.spaces.cells.operations import CONVOLUTIONS
from uraenas.spaces.space import Cost

STAGES = 3


@dataclass(frozen=True)
class Block:
    """A cell, or the residual block that halves the map and doubles the channels."""

    name: str
    reduces: bool
    channels_in: int
    channels: int
    height: int
    width: int


@dataclass(frozen=True)
class Skeleton:
    """What all networks of a cell space share: how wide and deep they are, and what goes in and comes out."""

    channels: int = 16
    cells: int = 5  # per stage
    height: int = 32
    width: int = 32
    image_channels: int = 3
    classes: int = 10

    def blocks(self) -> Iterator[Block]:
        """The blocks from input to output, each with the size of its output."""
        channels, height, width = self.channels, self.height, self.width
        for stage in range(STAGES):
            if stage > 0:
                height, width = -(-height // 2), -(-width // 2)
                yield Block(f"reduce{stage}", True, channels, channels * 2, height, width)
                channels *= 2
            for cell in range(self.cells):
                yield Block(f"cell{stage * self.cells + cell}", False, channels, channels, height, width)

    @property
    def features(self) -> int:
        """Channels that reach the classifier."""
        return self.channels * 2 ** (STAGES - 1)


def cost(genotype: Genotype, skeleton: Skeleton) -> Cost:
    """Parameters and multiply-adds of the network that this genotype and skeleton make."""
    kernels = [CONVOLUTIONS.get(genotype.operations[edge], 0) ** 2 for edge in genotype.live_edges]
    convolutions, taps = sum(kernel > 0 for kernel in kernels), sum(kernels)

    stem = 9 * skeleton.image_channels * skeleton.channels
    parameters = stem + 2 * skeleton.channels  # batch norm has a scale and a shift per channel
    multiply_adds = stem * skeleton.height * skeleton.width
    for block in skeleton.blocks():
        if block.reduces:
            weights = (
                9 * block.channels_in * block.channels
                + 9 * block.channels**2
                + block.channels_in * block.channels
            )
            norms = 2
        else:
            weights, norms = taps * block.channels**2, convolutions
        parameters += weights + 2 * norms * block.channels
        multiply_adds += weights * block.height * block.width
    head = skeleton.features * skeleton.classes
    return Cost(parameters + 2 * skeleton.features + head + skeleton.classes, multiply_adds + head)
