"""Augmentations that mix two images, and their labels as much."""

from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import require_range
from uraenas.data.augment.augmentation import along, bytes_of, keys_of, planes_of
from uraenas.data.augment.cutting import box

LEAST, MOST = 0.01, 100  # of the strength


@dataclass(frozen=True)
class Mixup:
    """Mixup: an image and another, averaged."""

    strength: float = 0.2  # shares are drawn from Beta(strength, strength): the larger, the more alike

    changes, mixes = True, True

    def __post_init__(self) -> None:
        require_range("strength", self.strength, LEAST, MOST)

    def __call__(self, images: Tensor, labels: Tensor, key: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        partner, share = _pairs(key, len(images), self.strength, part)
        own, other = planes_of(images[part]), planes_of(images[partner])
        return bytes_of(other + along(share) * (own - other)), _blend(labels, part, partner, share)


@dataclass(frozen=True)
class CutMix:
    """CutMix: an image with a box from another, whose label counts as much as its pixels."""

    strength: float = 1.0  # areas are drawn from Beta(strength, strength): the larger, the more alike

    changes, mixes = True, True

    def __post_init__(self) -> None:
        require_range("strength", self.strength, LEAST, MOST)

    def __call__(self, images: Tensor, labels: Tensor, key: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        partner, share = _pairs(key, len(images), self.strength, part)
        height, width = images.shape[1:3]
        side = torch.sqrt(1 - share)
        sides = torch.round(side * height), torch.round(side * width)
        inside = box(keys_of(draws.at(key, 3), part), *sides, (height, width))
        kept = 1 - inside.flatten(1).sum(dim=1) / (height * width)
        pasted = torch.where(inside[..., None], images[partner], images[part])
        return pasted, _blend(labels, part, partner, kept)


def _pairs(key: Tensor, count: int, strength: float, part: slice) -> tuple[Tensor, Tensor]:
    """The other image of each, and how much each counts beside it."""
    shape = torch.full((count,), strength, dtype=torch.float64, device=key.device)
    own, other = (draws.log_gamma(draws.at(key, side), shape)[part] for side in range(2))
    partner = draws.integers(draws.at(key, 2), count, count)[part]
    return partner, torch.sigmoid(own - other).float()


def _blend(labels: Tensor, part: slice, partner: Tensor, share: Tensor) -> Tensor:
    share = share.to(labels.dtype)[:, None]
    return share * labels[part] + (1 - share) * labels[partner]
