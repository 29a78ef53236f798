"""Squares that are cut out, and boxes: where they lie in an image."""

from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.base.errors import require_range
from uraenas.data.augment.augmentation import keys_of, uniform


@dataclass(frozen=True)
class Cutout:
    """Cutout: a black square at a random place, which may reach over the edge."""

    strength: float = 0.5  # the square's side, relative to the image's shorter one; 0 changes nothing

    changes, mixes = True, False

    def __post_init__(self) -> None:
        require_range("strength", self.strength, 0, 2)

    def __call__(self, images: Tensor, labels: Tensor, key: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        some = images[part]
        size = some.shape[1:3]
        side = torch.full((len(some),), round(self.strength * min(size)), device=images.device)
        return some * ~box(keys_of(key, part), side, side, size)[..., None], labels[part]


def box(keys: Tensor, height: Tensor, width: Tensor, size: tuple[int, int] | torch.Size) -> Tensor:
    """Which pixels lie in a box of whole height and width [n] about a random pixel [n, H, W]."""
    place = uniform(keys, 0, 2)
    rows, columns = (
        _range(place[:, axis], extent, size[axis]) for axis, extent in enumerate((height, width))
    )
    return rows[:, :, None] & columns[:, None, :]


def _range(place: Tensor, extent: Tensor, size: int) -> Tensor:
    """Which of `size` pixels are among `extent` about a place from 0 to 1 [n, size]."""
    first = torch.floor(place * size) - torch.div(extent, 2, rounding_mode="floor")
    pixel = torch.arange(size, device=place.device)
    return (pixel >= first[:, None]) & (pixel < (first + extent)[:, None])
