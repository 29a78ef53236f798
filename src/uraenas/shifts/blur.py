"""The blurs of the table. Widths are in pixels for any image size; zooms are ratios and follow the size."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from uraenas.shifts.draws import Draws
from uraenas.shifts.pixels import gaussian, to_bytes, to_unit
from uraenas.shifts.requires import opencv


def gaussian_blur(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Smoothing with a Gaussian of c pixels."""
    return to_bytes(gaussian(to_unit(images), (0.4, 0.6, 0.7, 0.8, 1.0)[severity - 1]))


def defocus_blur(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Each point becomes a small disk (radius, softening of its edge)."""
    radius, softening = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))[severity - 1]
    cv2 = opencv("defocus_blur")
    offsets = np.arange(-8, 9)
    disk = (offsets[:, None] ** 2 + offsets**2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(disk / disk.sum(), (3, 3), softening)
    values = to_unit(images)
    blurred = [cv2.filter2D(image, -1, kernel).reshape(image.shape) for image in values]
    return to_bytes(np.stack(blurred))


def glass_blur(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Pixels take the place of a near neighbour, between two light Gaussians (σ, rounds).

    The authors' swap only ever copies from pixels that come later in its loop, so one round is one gather:
    out[h, w] = in[h + dy, w + dx] with dx, dy in {−1, 0}, for h, w ≥ 2.
    """
    sigma, rounds = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))[severity - 1]
    count, height, width, _ = images.shape
    shuffled = (gaussian(to_unit(images), sigma) * 255).astype(np.uint8)
    size = (rounds, 2, max(height - 2, 0), max(width - 2, 0))
    offsets = np.stack([g.integers(-1, 1, size, dtype=np.int8) for g in draws.for_batch(count)], axis=2)
    which = np.arange(count)[:, None, None]
    for columns, rows in offsets:
        source = rows + np.arange(2, height)[:, None], columns + np.arange(2, width)
        shuffled[:, 2:, 2:] = shuffled[which, *source]
    return to_bytes(gaussian(to_unit(shuffled), sigma))


def motion_blur(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """A one-sided streak (radius, σ) at an angle of U(−45°, 45°)."""
    radius, sigma = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))[severity - 1]
    angles = [generator.uniform(-45, 45) for generator in draws.for_batch(len(images))]
    return motion_blurred(images, radius, sigma, angles)


def zoom_blur(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """The mean of the image and its enlargements by 1, 1.01, 1.02 …"""
    zooms = np.arange(1, (1.06, 1.11, 1.16, 1.21, 1.26)[severity - 1], 0.01)
    values = to_planes(to_unit(images)).astype(np.float32)  # the release sums in float32
    total = np.zeros_like(values)
    for zoom in zooms:
        total += zoomed(values, float(zoom))
    return to_bytes(from_planes((values + total) / (len(zooms) + 1), images.shape[-1]))


def motion_blurred(images: np.ndarray, radius: int, sigma: float, angles: Sequence[float]) -> np.ndarray:
    """Byte images as ImageMagick 6 (16 bits per channel) blurs them along one angle each, in degrees.

    k_i ∝ exp(−i² / 2σ²) for i = 0 … 2·radius; tap i lies at (y + ⌈i·sin − ½⌉, x + ⌈i·cos − ½⌉), clamped to
    the edge; q = ⌊257·Σ k·p + ½⌋ and out = ⌊q / 257⌋.
    """
    height, width = images.shape[1:3]
    taps = np.arange(2 * radius + 1)
    weights = np.exp(-(taps**2) / (2 * sigma**2))
    weights /= weights.sum()
    margin = len(taps)
    padded = np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)), mode="edge").astype(
        np.float64
    )
    blurred = np.zeros(images.shape)
    for image, total, angle in zip(padded, blurred, np.radians(angles), strict=True):
        downs = margin + np.ceil(taps * np.sin(angle) - 0.5).astype(int)
        rights = margin + np.ceil(taps * np.cos(angle) - 0.5).astype(int)
        for weight, down, right in zip(weights.tolist(), downs.tolist(), rights.tolist(), strict=True):
            total += weight * image[down : down + height, right : right + width]
    return (np.floor(257 * blurred + 0.5) // 257).astype(np.uint8)


def zoomed(planes: np.ndarray, zoom: float) -> np.ndarray:
    """The centre of planes [H, W, K], enlarged to full size: `scipy.ndimage.zoom` of order 1, batchwise.

    Products and sums are in scipy's order and in float64, so float32 results are the same to the last bit.
    """
    tops, bottoms, top_weights, bottom_weights = _zoom_taps(planes.shape[0], zoom)
    left, right, left_weights, right_weights = _zoom_taps(planes.shape[1], zoom)
    left_weights, right_weights = left_weights[:, None], right_weights[:, None]
    result = np.empty_like(planes)
    for row in range(len(planes)):  # a row of the whole batch at a time stays within a core's cache
        upper = planes[tops[row]] * top_weights[row]
        lower = planes[bottoms[row]] * bottom_weights[row]
        total = upper[left] * left_weights
        total += upper[right] * right_weights
        total += lower[left] * left_weights
        total += lower[right] * right_weights
        result[row] = total
    return result


def to_planes(images: np.ndarray) -> np.ndarray:
    """Images [N, H, W, C] as planes [H, W, N·C]: picking rows and columns then moves long runs of memory."""
    return images.transpose(1, 2, 0, 3).reshape(*images.shape[1:3], -1)


def from_planes(planes: np.ndarray, channels: int) -> np.ndarray:
    """Planes [H, W, N·C] as images [N, H, W, C]."""
    return planes.reshape(*planes.shape[:2], -1, channels).transpose(2, 0, 1, 3)


@lru_cache(maxsize=256)
def _zoom_taps(length: int, zoom: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each output position along one axis: the two input positions around it and their weights."""
    crop = math.ceil(length / zoom)
    enlarged = round(crop * zoom)
    step = (crop - 1) / (enlarged - 1) if enlarged > 1 else 1.0
    positions = step * (np.arange(length) + (enlarged - length) // 2)
    before = np.minimum(np.floor(positions).astype(int), crop - 1)
    after = np.minimum(before + 1, crop - 1)
    weight_after = positions - before
    start = (length - crop) // 2
    return start + before, start + after, 1 - weight_after, weight_after
