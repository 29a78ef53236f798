"""Random filters, colour curves and smooth displacements, after PRIME (Modas and others, 2022)."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base.errors import require_range
from uraenas.data.augment.augmentation import (
    WHITE,
    along,
    bytes_of,
    integers,
    keys_of,
    normal,
    planes_of,
    uniform,
    whole,
)
from uraenas.data.augment.chains import mixed
from uraenas.data.augment.operations import LEVELS, look_up, places

TAPS = 5  # of the larger filter; the smaller has two less
CURVE_WAVES, FIELD_WAVES = 8, 4  # the highest frequencies, in half-waves
# Standard deviations at strength 1: of a filter's noise as a whole, of a curve, and of a place as a share of the size.
MOST_NOISE, MOST_CURVE, MOST_SHIFT = 2.0, 0.2, 0.05


@dataclass(frozen=True)
class Primitives:
    """Random filters, colour curves and smooth displacements, mixed as in AugMix (after PRIME)."""

    strength: float = 1.0  # 0 changes nothing

    changes, mixes = True, False

    def __post_init__(self) -> None:
        require_range("strength", self.strength, 0, 10)

    def __call__(self, images: Tensor, labels: Tensor, key: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        return bytes_of(mixed(planes_of(images[part]), keys_of(key, part), self._operation)), labels[part]

    def _operation(self, images: Tensor, keys: Tensor) -> Tensor:
        """One of the three for each image: the strength of the others is 0, at which they change nothing."""
        which = integers(keys, 0, 1, 3)[:, 0]
        strength = self.strength * uniform(keys, 1, 1)[:, 0]
        of_curve, of_filter, of_field = (torch.where(which == kind, strength, 0.0) for kind in range(3))
        curved = recolour(images, keys, MOST_CURVE * of_curve)
        return whole(displace(convolve(curved, keys, MOST_NOISE * of_filter), keys, MOST_SHIFT * of_field))


def recolour(images: Tensor, keys: Tensor, deviation: Tensor) -> Tensor:
    """Each channel through a curve of its own that keeps black and white.

    x + σ·√(2/K)·Σ_k z_k·sin(πkx), z ~ N(0, 1), for x from 0 to 1.
    """
    count, channels = images.shape[:2]
    z = normal(keys, 2, channels * CURVE_WAVES).view(count, channels, CURVE_WAVES, 1)
    value = torch.arange(LEVELS, dtype=torch.float32, device=images.device)
    waves = sum(
        z[:, :, k] * torch.sin((k + 1) * math.pi / WHITE * value) for k in range(CURVE_WAVES)
    ) * math.sqrt(2 / CURVE_WAVES)
    return look_up(images, whole(value + WHITE * along(deviation, 3) * waves))


def convolve(images: Tensor, keys: Tensor, deviation: Tensor) -> Tensor:
    """Filtered by the identity and noise, of 3×3 or 5×5 pixels; the noise adds up to 0, so that brightness stays."""
    size = TAPS - 2 * integers(keys, 3, 1, 2)  # [n, 1]
    offset = torch.arange(TAPS, device=images.device) - TAPS // 2
    ring = torch.maximum(offset.abs()[:, None], offset.abs()).flatten()
    inside = (ring <= size // 2).float()  # [n, taps]
    noise = normal(keys, 4, TAPS**2) * inside
    noise = (noise - inside * noise.sum(dim=1, keepdim=True) / size**2) / size * deviation[:, None]
    taps = noise + (ring == 0)
    height, width = images.shape[-2:]
    border = TAPS // 2
    padded = F.pad(images, (border,) * 4, mode="replicate")
    filtered = torch.zeros_like(images)
    for tap in range(TAPS**2):  # a convolution's own routine may round as it likes
        y, x = divmod(tap, TAPS)
        filtered.addcmul_(along(taps[:, tap]), padded[..., y : y + height, x : x + width])
    return filtered


def displace(images: Tensor, keys: Tensor, deviation: Tensor) -> Tensor:
    """Every place moved by a smooth field that is 0 at the edges.

    σ·Σ_ij z_ij·sin(πix)·sin(πjy) / √(i² + j²), scaled to a mean square of σ², for x and y from 0 to 1.
    """
    count, (height, width) = len(images), images.shape[-2:]
    wave = torch.arange(1, FIELD_WAVES + 1, dtype=torch.float32, device=images.device)
    share = 1 / (wave**2 + wave[:, None] ** 2)
    z = normal(keys, 5, 2 * FIELD_WAVES**2).view(count, 2, FIELD_WAVES, FIELD_WAVES)
    z = z * torch.sqrt(share * 4 / share.sum()) * along(deviation)
    x, y = places(height, width, images.device)
    across = torch.sin(math.pi * wave[:, None] * x / width)
    down = torch.sin(math.pi * wave[:, None] * y / height)
    rows: Tensor = sum(z[..., j, None] * across[j] for j in range(FIELD_WAVES))  # type: ignore[assignment]
    field: Tensor = sum(rows[:, :, i, None] * down[i, :, None] for i in range(FIELD_WAVES))  # type: ignore[assignment]
    right, lower = x / width + field[:, 0], y[:, None] / height + field[:, 1]
    grid = torch.stack([2 * right - 1, 2 * lower - 1], dim=-1)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)
