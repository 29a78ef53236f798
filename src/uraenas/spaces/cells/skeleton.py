"""What surrounds the cell: stem, three stages of cells with residual blocks between them, classifier."""

from collections.abc import Iterator
from dataclasses import dataclass

from uraenas.spaces.cells.genotype import Genotype
from uraenas.spaces.cells.operations import CONVOLUTIONS
from uraenas.spaces.space import Cost

STAGES = 3
LONGEST = 48  # the longer side of maps that cells work on, where the stem's halvings are chosen by it


@dataclass(frozen=True)
class StemConvolution:
    """A 3×3 convolution of the stem, with the size of its output."""

    name: str
    channels_in: int
    stride: int
    height: int
    width: int


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
    halvings: int = 0  # how often the stem halves images

    def stem(self) -> Iterator[StemConvolution]:
        """The stem's convolutions. One has stride 1; to halve images, there is one of stride 2 for each halving."""
        channels, height, width = self.image_channels, self.height, self.width
        for number in range(max(1, self.halvings)):
            if self.halvings:
                height, width = -(-height // 2), -(-width // 2)
            yield StemConvolution(f"stem{number or ''}", channels, 2 if self.halvings else 1, height, width)
            channels = self.channels

    def blocks(self) -> Iterator[Block]:
        """The blocks from input to output, each with the size of its output."""
        *_, last = self.stem()
        channels, height, width = self.channels, last.height, last.width
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


def halvings_for(height: int, width: int) -> int:
    """How often images of this size are halved until neither side is longer than LONGEST."""
    halvings = 0
    while max(height, width) > LONGEST:
        height, width, halvings = -(-height // 2), -(-width // 2), halvings + 1
    return halvings


def cost(genotype: Genotype, skeleton: Skeleton) -> Cost:
    """Parameters and multiply-adds of the network that this genotype and skeleton make."""
    kernels = [CONVOLUTIONS.get(genotype.operations[edge], 0) ** 2 for edge in genotype.live_edges]
    convolutions, taps = sum(kernel > 0 for kernel in kernels), sum(kernels)

    parameters = multiply_adds = 0
    for step in skeleton.stem():
        weights = 9 * step.channels_in * skeleton.channels
        parameters += weights + 2 * skeleton.channels  # batch norm has a scale and a shift per channel
        multiply_adds += weights * step.height * step.width
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
