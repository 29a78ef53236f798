"""What an augmentation offers, and how a whole set is taken through it a part at a time."""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from uraenas.base import draws

MOST_VALUES = 2**23  # of the images that are changed at once: each copy in float32 takes 32 MB
WHITE = 255


class Augmentation(Protocol):
    """A frozen dataclass whose fields are the settings `train.<name>.…`."""

    @property
    def changes(self) -> bool:
        """Whether it does anything."""

    @property
    def mixes(self) -> bool:
        """Whether it mixes images, and with them their labels."""

    def __call__(self, images: Tensor, labels: Tensor, key: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        """Some of the images [N, H, W, C] changed, in uint8, with their labels.

        Labels are whole numbers [N]; where they are mixed, they are class probabilities [N, K]. What becomes of an
        image depends on the key, its number and the images, never on which others are in its part.
        """


def in_parts(
    augmentation: Augmentation, images: Tensor, labels: Tensor, key: Tensor
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """All images, in parts that take little memory: where the part lies, its images and its labels."""
    size = max(1, MOST_VALUES // images[0].numel())
    for start in range(0, len(images), size):
        part = slice(start, min(start + size, len(images)))
        yield part, *augmentation(images, labels, key, part)


def augmented(
    augmentation: Augmentation, images: Tensor, labels: Tensor, key: Tensor
) -> tuple[Tensor, Tensor]:
    """All images, and their labels."""
    parts = [(some, theirs) for _, some, theirs in in_parts(augmentation, images, labels, key)]
    return torch.cat([some for some, _ in parts]), torch.cat([theirs for _, theirs in parts])


def keys_of(key: Tensor, part: slice) -> Tensor:
    """A key for each image of a part, of its own."""
    return draws.at(key, torch.arange(part.start, part.stop, device=key.device))


def uniform(keys: Tensor, purpose: int, count: int) -> Tensor:
    """Uniform on (0, 1), for each key [n, count]."""
    return draws.uniform(draws.at(keys, purpose)[:, None], count)


def integers(keys: Tensor, purpose: int, count: int, below: int) -> Tensor:
    """Uniform on 0 … below-1, for each key [n, count]."""
    return draws.integers(draws.at(keys, purpose)[:, None], count, below)


def normal(keys: Tensor, purpose: int, count: int) -> Tensor:
    """Standard normal, for each key [n, count]."""
    return draws.normal(draws.at(keys, purpose)[:, None], count)


def planes_of(images: Tensor) -> Tensor:
    """Bytes [n, H, W, C] as float32 [n, C, H, W]."""
    return images.movedim(-1, 1).to(torch.float32, memory_format=torch.contiguous_format)


def bytes_of(planes: Tensor) -> Tensor:
    """The reverse."""
    return whole(planes).to(torch.uint8).movedim(1, -1)


def whole(planes: Tensor) -> Tensor:
    """Values as bytes could have them."""
    return planes.clamp(0, WHITE).round_()


def along(values: Tensor, ndim: int = 4) -> Tensor:
    """One number per image [n], to be multiplied with tensors of more dimensions."""
    return values.view(-1, *[1] * (ndim - 1))
