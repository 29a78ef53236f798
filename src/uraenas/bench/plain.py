"""The plain way, to compare with, free of our code: textbook networks one by one, eager float32, a DataLoader.

Written the way most people would, on purpose. The tests hold the fast networks against it.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from uraenas.spaces.cells import NASBENCH201, Genotype, Skeleton, edges

NODES = 4
EDGES, OPERATIONS = edges(NODES), NASBENCH201


class ReluConvNorm(nn.Sequential):
    """ReLU, convolution, batch norm."""

    def __init__(
        self, channels_in: int, channels: int, kernel: int, stride: int = 1, affine: bool = True
    ) -> None:
        convolution = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False)
        super().__init__(nn.ReLU(), convolution, nn.BatchNorm2d(channels, affine=affine))


class Zero(nn.Module):
    """The operation `none`."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def operation(name: str, channels: int, affine: bool) -> nn.Module:
    """One operation of the NAS-Bench-201 cell."""
    if name.startswith("nor_conv"):
        return ReluConvNorm(channels, channels, 3 if name.endswith("3x3") else 1, affine=affine)
    if name == "avg_pool_3x3":
        return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    return nn.Identity() if name == "skip_connect" else Zero()


class Cell(nn.Module):
    """One operation on every live edge."""

    def __init__(self, genotype: Genotype, channels: int) -> None:
        super().__init__()
        self.edges = nn.ModuleDict(
            {str(edge): operation(genotype.operations[edge], channels, True) for edge in genotype.live_edges}
        )

    def forward(self, x: Tensor) -> Tensor:
        nodes: list[Tensor] = [x]
        for node in range(1, NODES):
            arriving = [
                self.edges[str(edge)](nodes[source])
                for edge, (source, target) in enumerate(EDGES)
                if target == node and str(edge) in self.edges
            ]
            nodes.append(sum(arriving[1:], start=arriving[0]) if arriving else torch.zeros_like(x))
        return nodes[-1]


class MixedCell(nn.Module):
    """All operations on every edge, weighted by the mixing."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branches = nn.ModuleDict(
            {
                f"{edge} {name}": operation(name, channels, False)
                for edge in range(len(EDGES))
                for name in OPERATIONS
            }
        )

    def forward(self, x: Tensor, mixing: Tensor) -> Tensor:
        nodes: list[Tensor] = [x]
        for node in range(1, NODES):
            total = torch.zeros_like(x)
            for edge, (source, target) in enumerate(EDGES):
                if target == node:
                    for weight, name in zip(mixing[edge], OPERATIONS, strict=True):
                        total = total + weight * self.branches[f"{edge} {name}"](nodes[source])
            nodes.append(total)
        return nodes[-1]


class Reduction(nn.Module):
    """The residual block of stride 2."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.first = ReluConvNorm(channels_in, channels, 3, stride=2)
        self.second = ReluConvNorm(channels, channels, 3)
        self.pool = nn.AvgPool2d(2, 2, ceil_mode=True)
        self.shortcut = nn.Conv2d(channels_in, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) + self.shortcut(self.pool(x))


class PlainNetwork(nn.Module):
    """A network of one genotype, or the supernet where the genotype is None."""

    def __init__(self, genotype: Genotype | None, skeleton: Skeleton) -> None:
        super().__init__()
        self.stem = nn.Sequential()
        for step in skeleton.stem():
            convolution = nn.Conv2d(step.channels_in, skeleton.channels, 3, step.stride, 1, bias=False)
            before = [nn.ReLU()] if len(self.stem) else []
            self.stem.extend([*before, convolution, nn.BatchNorm2d(skeleton.channels)])
        self.blocks = nn.ModuleList()
        for block in skeleton.blocks():
            if block.reduces:
                self.blocks.append(Reduction(block.channels_in, block.channels))
            else:
                self.blocks.append(Cell(genotype, block.channels) if genotype else MixedCell(block.channels))
        self.norm = nn.BatchNorm2d(skeleton.features)
        self.classifier = nn.Linear(skeleton.features, skeleton.classes)

    def forward(self, x: Tensor, mixing: Tensor | None = None) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x, mixing) if isinstance(block, MixedCell) else block(x)
        return self.classifier(F.relu(self.norm(x)).mean(dim=(2, 3)))


class AugmentedImages(Dataset):
    """Crops and flips one image at a time, as a DataLoader's dataset usually does."""

    def __init__(self, images: Tensor, labels: Tensor, padding: int) -> None:
        self.images, self.labels, self.padding = images, labels, padding

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = F.pad(self.images[index].float().div(255), [self.padding] * 4)
        top, left = torch.randint(0, 2 * self.padding + 1, (2,)).tolist()
        height, width = self.images.shape[2:]
        image = image[:, top : top + height, left : left + width]
        return (image.flip(2) if torch.rand(()) < 0.5 else image) - 0.5, self.labels[index]


def endless_batches(
    images: Tensor, labels: Tensor, batch: int, padding: int, device: torch.device
) -> Iterator:
    """Shuffled, augmented batches on the device, epoch after epoch."""
    loader = DataLoader(
        AugmentedImages(images, labels, padding),
        batch,
        shuffle=True,
        drop_last=True,
        pin_memory=device.type == "cuda",
    )
    while True:
        for x, y in loader:
            yield x.to(device, non_blocking=True), y.to(device, non_blocking=True)
