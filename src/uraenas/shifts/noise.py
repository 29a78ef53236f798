"""The noises of the table, drawn for each channel value on its own; any image size, colour or grey."""

import numpy as np

from uraenas.shifts.draws import Draws
from uraenas.shifts.pixels import to_bytes, to_unit


def gaussian_noise(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """x + N(0, c)."""
    deviation = (0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1]
    return to_bytes(to_unit(images) + deviation * _normal(images, draws))


def shot_noise(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Poisson(x·c) / c: c photons make white."""
    photons = (500, 250, 100, 75, 50)[severity - 1]
    expected = to_unit(images) * photons
    pairs = zip(draws.for_batch(len(images)), expected, strict=True)
    return to_bytes(np.stack([generator.poisson(image) for generator, image in pairs]) / photons)


def impulse_noise(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Salt and pepper: each channel value becomes 0 or 1 with probability c/2 each."""
    amount = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    uniform = np.stack([g.random(images.shape[1:]) for g in draws.for_batch(len(images))])
    values = np.where(uniform < amount, 1.0, to_unit(images))
    return to_bytes(np.where(uniform < amount / 2, 0.0, values))


def speckle_noise(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """x + x·N(0, c)."""
    deviation = (0.06, 0.10, 0.12, 0.16, 0.20)[severity - 1]
    values = to_unit(images)
    return to_bytes(values + values * (deviation * _normal(images, draws)))


def _normal(images: np.ndarray, draws: Draws) -> np.ndarray:
    return np.stack([g.standard_normal(images.shape[1:]) for g in draws.for_batch(len(images))])
