"""The table of shifts, the suites made of them, and the one function that applies a shift."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from uraenas.base.errors import UraenasError, unknown
from uraenas.shifts import blur, digital, noise, other, weather
from uraenas.shifts.draws import Draws

SEVERITIES = (1, 2, 3, 4, 5)
BLOCK_VALUES = 2**18  # worked on at once: float64 copies of a block stay within a core's cache


@dataclass(frozen=True)
class Shift:
    """One corruption: bytes [N, H, W, C], a severity and the images' draws in, bytes of that shape out."""

    name: str
    family: Literal["noise", "blur", "weather", "digital", "other"]
    extra: bool  # one of the four that benchmarks leave out of the mean over 15
    random: bool  # False: the draws are never looked at, and the same image always gives the same result
    apply: Callable[[np.ndarray, int, Draws], np.ndarray]
    grey: bool = True  # whether it means anything for images without colour


SHIFTS: dict[str, Shift] = {
    shift.name: shift
    for shift in (
        Shift("gaussian_noise", "noise", False, True, noise.gaussian_noise),
        Shift("shot_noise", "noise", False, True, noise.shot_noise),
        Shift("impulse_noise", "noise", False, True, noise.impulse_noise),
        Shift("defocus_blur", "blur", False, False, blur.defocus_blur),
        Shift("glass_blur", "blur", False, True, blur.glass_blur),
        Shift("motion_blur", "blur", False, True, blur.motion_blur),
        Shift("zoom_blur", "blur", False, False, blur.zoom_blur),
        Shift("snow", "weather", False, True, weather.snow),
        Shift("frost", "weather", False, True, weather.frost),
        Shift("fog", "weather", False, True, weather.fog),
        Shift("brightness", "weather", False, False, weather.brightness),
        Shift("contrast", "digital", False, False, digital.contrast),
        Shift("elastic_transform", "digital", False, True, digital.elastic_transform),
        Shift("pixelate", "digital", False, False, digital.pixelate),
        Shift("jpeg_compression", "digital", False, False, digital.jpeg_compression),
        Shift("speckle_noise", "noise", True, True, noise.speckle_noise),
        Shift("gaussian_blur", "blur", True, False, blur.gaussian_blur),
        Shift("spatter", "weather", True, True, weather.spatter),
        Shift("saturate", "digital", True, False, digital.saturate, grey=False),
        Shift("waves", "other", False, True, other.waves),
        Shift("vignette", "other", False, False, other.vignette),
        Shift("side_light", "other", False, True, other.side_light),
        Shift("hue", "other", False, True, other.hue, grey=False),
        Shift("ghost", "other", False, True, other.ghost),
        Shift("interlace", "other", False, True, other.interlace),
    )
}

# What CIFAR-10-C consists of.
RELEASE = tuple(name for name, shift in SHIFTS.items() if shift.family != "other")

SUITES: dict[str, tuple[str, ...]] = {
    "basic": ("gaussian_noise", "gaussian_blur", "brightness", "contrast"),
    "other": tuple(name for name in SHIFTS if name not in RELEASE),
    "cifar10-c": RELEASE,
    "cifar10-c-15": tuple(name for name in RELEASE if not SHIFTS[name].extra),
}


def suited(names: Iterable[str], channels: int) -> tuple[str, ...]:
    """Those of the shifts that images of so many channels can have."""
    return tuple(name for name in names if channels > 1 or SHIFTS[name].grey)


def corrupt(
    images: np.ndarray, shift_name: str, severity: int, seed: int, first_index: int = 0
) -> np.ndarray:
    """The images [N, H, W, C] under a shift; the n-th is image `first_index + n` of its dataset."""
    if shift_name not in SHIFTS:
        raise unknown("corruption", shift_name, SHIFTS)
    if severity not in SEVERITIES:
        raise UraenasError(f"severity must be 1, 2, 3, 4 or 5, not {severity}")
    if (
        images.dtype != np.uint8
        or images.ndim != 4
        or images.shape[-1] not in (1, 3)
        or 0 in images.shape[1:]
    ):
        raise UraenasError(
            f"corruptions need uint8 images of shape N×H×W×1 or N×H×W×3, not {images.shape} {images.dtype}"
        )
    corrupted = np.empty_like(images)
    block = max(1, BLOCK_VALUES // images[0].size) if len(images) else 1
    for start in range(0, len(images), block):
        draws = Draws(seed, shift_name, severity, first_index + start)
        corrupted[start : start + block] = SHIFTS[shift_name].apply(
            images[start : start + block], severity, draws
        )
    return corrupted
