"""A tiny skeleton, genotypes to try, and vectors unlike those of a fresh network."""

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.networks import Layout, statistics_layout, weight_layout
from uraenas.spaces import Genotype, Skeleton, all_genotypes

TINY = Skeleton(channels=4, cells=1, height=8, width=8, image_channels=1, classes=3)
CONNECTED = [genotype for genotype in all_genotypes() if genotype.connected]
SAMPLE = [
    *CONNECTED[200::2999],
    Genotype(("nor_conv_3x3",) * 6),
    Genotype(("none",) * 3 + ("skip_connect",) * 3),
]
SKELETONS = {
    "tiny": TINY,
    "two cells, colour": Skeleton(channels=3, cells=2, height=8, width=8, image_channels=3, classes=5),
    "odd and oblong": Skeleton(channels=2, cells=1, height=7, width=5, image_channels=2, classes=2),
}


def perturbed(layout: Layout, key: int) -> Tensor:
    """A vector whose scales are not 1 and shifts not 0; what starts at 1 stays positive."""
    noise = 0.2 * draws.normal(draws.at(key, -1), layout.size, torch.float64)
    ones = torch.cat([torch.full((entry.size,), entry.constant == 1) for entry in layout.entries])
    return torch.where(ones, noise.exp(), layout.initial(key).double() + noise)


def member_vectors(genotype: Genotype, skeleton: Skeleton, key: int = 1) -> tuple[Tensor, Tensor]:
    """Weights and statistics of a member."""
    return (
        perturbed(weight_layout(genotype, skeleton), key),
        perturbed(statistics_layout(genotype, skeleton), key + 1000),
    )


def batch(skeleton: Skeleton, key: int, count: int = 5) -> Tensor:
    """Images [count, C, H, W]."""
    shape = (count, skeleton.image_channels, skeleton.height, skeleton.width)
    return draws.normal(draws.at(key, 0), shape[0] * shape[1] * shape[2] * shape[3], torch.float64).view(
        shape
    )
