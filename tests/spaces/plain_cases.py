"""Tiny spaces, genotypes to try, and vectors unlike those of a fresh network."""

import itertools

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.spaces import CellSpace, Genotype, Layout, Shape, Space, Supernet

TINY = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 3))
EVERY = [Genotype(operations) for operations in itertools.product(TINY.operations, repeat=6)]
CONNECTED = [genotype for genotype in EVERY if genotype.connected]
SAMPLE = [
    *CONNECTED[200::2999],
    Genotype(("nor_conv_3x3",) * 6),
    Genotype(("none",) * 3 + ("skip_connect",) * 3),
]
FIVE = CellSpace(
    channels=3,
    cells=1,
    name="five",
    nodes=5,
    operations=("none", "skip_connect", "nor_conv_3x3", "avg_pool_3x3"),
    shape=Shape(8, 8, 2, 4),
)
FIVE_SAMPLE = [
    FIVE.architecture(indices)
    for indices in ((2, 1, 2, 3, 2, 0, 1, 2, 3, 2), (2,) * 10, (0, 2, 1, 0, 0, 3, 2, 2, 2, 0))
]
SPACES = {
    "tiny": TINY,
    "two cells, colour": CellSpace(channels=3, cells=2, shape=Shape(8, 8, 3, 5)),
    "odd and oblong": CellSpace(channels=2, cells=1, shape=Shape(7, 5, 2, 2)),
    "halved": CellSpace(channels=3, cells=1, halvings=1, shape=Shape(9, 16, 3, 2)),
    "halved three times": CellSpace(channels=2, cells=1, halvings=3, shape=Shape(33, 24, 1, 2)),
}


def perturbed(layout: Layout, key: int) -> Tensor:
    """A vector whose scales are not 1 and shifts not 0; what starts at 1 stays positive."""
    noise = 0.2 * draws.normal(draws.at(key, -1), layout.size, torch.float64)
    if not layout.entries:
        return noise
    ones = torch.cat([torch.full((entry.size,), entry.constant == 1) for entry in layout.entries])
    return torch.where(ones, noise.exp(), layout.initial(key).double() + noise)


def member_vectors(genotype: Genotype, space: CellSpace, key: int = 1) -> tuple[Tensor, Tensor]:
    """Weights and statistics of a member."""
    return (
        perturbed(space.weight_layout(genotype), key),
        perturbed(space.statistics_layout(genotype), key + 1000),
    )


def supernet_of(space: Space) -> Supernet:
    """A supernet with perturbed weights."""
    supernet = Supernet(space).double()
    with torch.no_grad():
        supernet.weights.copy_(perturbed(supernet.layout, 5))
    return supernet


def batch(space: CellSpace, key: int, count: int = 5) -> Tensor:
    """Images [count, C, H, W]."""
    shape = torch.Size((count, space.shape.channels, space.shape.height, space.shape.width))
    return draws.normal(draws.at(key, 0), shape.numel(), torch.float64).view(shape)
