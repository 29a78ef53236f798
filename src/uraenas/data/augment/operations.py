"""Nine operations on images, after AugMix: four change their values, five move their pixels.

None of them is a corruption of CIFAR-10-C. Images are float32 [n, C, H, W] with whole values 0 … 255; an operation's
parameter is one number per image [n]. The first four are tables of 256 values per channel, the others affine maps, so
that images which undergo different operations still go through one look-up and one resampling together.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.data.augment.augmentation import WHITE, along, whole

LEVELS = WHITE + 1

OPERATIONS = (
    *("autocontrast", "equalize", "posterize", "solarize"),
    *("rotate", "shear_x", "shear_y", "translate_x", "translate_y"),
)


@dataclass(frozen=True)
class Ranges:
    """How far operations go: their parameters at full strength."""

    bits: tuple[int, int]  # at no strength, and at full strength; at least one is kept
    degrees: float
    slope: float
    shift: float  # of the height or width


def operate(images: Tensor, which: Tensor, strength: Tensor, sign: Tensor, ranges: Ranges) -> Tensor:
    """Image n under OPERATIONS[which[n]] with a strength from 0 to 1 and a sign; one further leaves it as it is."""
    height, width = images.shape[-2:]
    most, least = ranges.bits
    bits = (most - torch.floor((most - least) * strength)).clamp_min(1)
    threshold = LEVELS - torch.floor(LEVELS * strength)
    slope = sign * ranges.slope * strength
    curves = (
        stretched(images),
        equalized(images),
        posterized(images, bits),
        solarized(images, threshold),
    )
    maps = (
        rotation(sign * ranges.degrees * strength, (height, width)),
        affine(right_y=slope),
        affine(down_x=slope),
        affine(right=sign * torch.floor(ranges.shift * width * strength)),
        affine(down=sign * torch.floor(ranges.shift * height * strength)),
    )
    curve, way = _unchanged(images), affine(right=torch.zeros_like(strength))
    for number, one in enumerate(curves):
        curve = torch.where(along(which == number, 3), one, curve)
    for number, one in enumerate(maps, len(curves)):
        way = torch.where(along(which == number, 3), one, way)
    return warp(look_up(images, curve), way)


# Curves [n, C, 256]: what becomes of each value, as Pillow's ImageOps has it


def look_up(images: Tensor, curve: Tensor) -> Tensor:
    """Every value replaced by what its channel's curve says."""
    return curve.gather(2, images.flatten(2).long()).view_as(images)


def _unchanged(images: Tensor) -> Tensor:
    return torch.arange(LEVELS, dtype=torch.float32, device=images.device).expand(*images.shape[:2], -1)


def stretched(images: Tensor) -> Tensor:
    """autocontrast: each channel from 0 to 255."""
    low, high = (limit[..., None].double() for limit in torch.aminmax(images.flatten(2), dim=2))
    scale = torch.full_like(low, WHITE) / (high - low).clamp_min(1)  # a number by a tensor is rounded twice
    value = torch.arange(LEVELS, dtype=torch.float64, device=images.device)
    wide = torch.trunc(value * scale + -low * scale).clamp(0, WHITE)
    return torch.where(high > low, wide, value).float()


def equalized(images: Tensor) -> Tensor:
    """equalize: each channel with a histogram as flat as can be."""
    values = images.flatten(2).long()
    one = torch.ones((), dtype=torch.int64, device=images.device)
    shape = (*images.shape[:2], LEVELS)
    counts = torch.zeros(shape, dtype=torch.int64, device=images.device)
    counts.scatter_add_(2, values, one.expand_as(values))
    brightest = counts.gather(2, values.amax(dim=2, keepdim=True))
    step = (values.shape[2] - brightest) // WHITE
    darker = counts.cumsum(dim=2) - counts
    flat = ((step // 2 + darker) // step.clamp_min(1)).clamp_max(WHITE)
    return torch.where(step > 0, flat.float(), _unchanged(images))


def posterized(images: Tensor, bits: Tensor) -> Tensor:
    """posterize: the highest bits of each value alone, 1 … 8 of them."""
    coarse = along(torch.exp2(8 - bits.round()).round(), 3)
    return torch.floor(_unchanged(images) / coarse) * coarse


def solarized(images: Tensor, threshold: Tensor) -> Tensor:
    """solarize: values from the threshold on are inverted."""
    value = _unchanged(images)
    return torch.where(value < along(threshold, 3), value, WHITE - value)


# Affine maps [n, 2, 3]: from a place in the new image, in pixels from the upper left corner, to one in the old


def warp(images: Tensor, maps: Tensor) -> Tensor:
    """Images seen through these maps, bilinear, with black all around."""
    height, width = images.shape[-2:]
    x, y = places(height, width, images.device)
    right, down = (
        along(row[:, 0], 3) * x + along(row[:, 1], 3) * y[:, None] + along(row[:, 2], 3)
        for row in maps.unbind(1)
    )
    grid = torch.stack([right * (2 / width) - 1, down * (2 / height) - 1], dim=-1)
    return whole(F.grid_sample(images, grid, align_corners=False))


def places(height: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where the middles of the pixels lie, x [W] and y [H]."""
    return torch.arange(width, device=device) + 0.5, torch.arange(height, device=device) + 0.5


def affine(
    right_y: Tensor | None = None,
    down_x: Tensor | None = None,
    right: Tensor | None = None,
    down: Tensor | None = None,
) -> Tensor:
    """To the left, or up, by so much for each pixel of the other direction (shears), or by so many (translations)."""
    given = next(values for values in (right_y, down_x, right, down) if values is not None)
    one, zero = torch.ones_like(given), torch.zeros_like(given)
    rows = [one, _or(right_y, zero), _or(right, zero), _or(down_x, zero), one, _or(down, zero)]
    return torch.stack(rows, dim=1).view(-1, 2, 3)


def _or(values: Tensor | None, zero: Tensor) -> Tensor:
    return zero if values is None else values


def rotation(degrees: Tensor, size: tuple[int, int] | torch.Size) -> Tensor:
    """rotate: about the centre, anticlockwise."""
    height, width = size
    cosine, sine = torch.cos(torch.deg2rad(degrees)), torch.sin(torch.deg2rad(degrees))
    x, y = width / 2, height / 2  # the centre, which stays
    rows = [cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y]
    return torch.stack(rows, dim=1).view(-1, 2, 3)
