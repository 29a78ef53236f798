"""Six distortions that CIFAR-10-C does not have: for choices that its test images must not decide."""

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.shifts.draws import Draws
from uraenas.shifts.pixels import to_bytes, to_hsv, to_rgb, to_unit


def waves(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """A sine wave of two to eight periods on top, in a random direction."""
    height = (0.06, 0.1, 0.15, 0.2, 0.25)[severity - 1]
    y, x = _grid(images)
    added = np.empty((len(images), *x.shape, 1))
    for n, random in enumerate(draws.for_batch(len(images))):
        angle, periods, phase = random.uniform(0, np.pi), random.uniform(2, 8), random.uniform(0, 2 * np.pi)
        along = np.cos(angle) * x + np.sin(angle) * y
        added[n, ..., 0] = np.sin(np.pi * periods * along + phase)
    return to_bytes(to_unit(images) + height * added)


def vignette(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Darker towards the corners, with the square of the distance."""
    loss = (0.3, 0.45, 0.6, 0.75, 0.9)[severity - 1]
    y, x = _grid(images)
    return to_bytes(to_unit(images) * (1 - loss * (x**2 + y**2) / 2)[..., None])


def side_light(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Brighter on one side, darker on the other, in a random direction."""
    slope = (0.2, 0.35, 0.5, 0.65, 0.8)[severity - 1]
    y, x = _grid(images)
    angles = np.array([random.uniform(0, 2 * np.pi) for random in draws.for_batch(len(images))])
    light = np.cos(angles)[:, None, None] * x + np.sin(angles)[:, None, None] * y
    return to_bytes(to_unit(images) * (1 + slope * light)[..., None])


def hue(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """All hues turned, one way or the other. Grey images have none."""
    if images.shape[-1] == 1:
        raise UraenasError("hue needs colour images (3 channels); these are grey: leave it out")
    turn = (0.04, 0.08, 0.14, 0.22, 0.35)[severity - 1]
    signs = np.array([random.choice((-1, 1)) for random in draws.for_batch(len(images))])
    colour, saturation, value = to_hsv(to_unit(images))
    return to_bytes(to_rgb((colour + turn * signs[:, None, None]) % 1, saturation, value))


def ghost(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """A second exposure, moved by an eighth to a quarter of the image."""
    share = (0.15, 0.22, 0.3, 0.38, 0.45)[severity - 1]
    height, width = images.shape[1:3]
    second = np.empty_like(images)
    for n, random in enumerate(draws.for_batch(len(images))):
        far = [
            int(random.choice((-1, 1))) * max(1, round(random.uniform(1 / 8, 1 / 4) * side))
            for side in (height, width)
        ]
        second[n] = np.roll(images[n], far, axis=(0, 1))
    return to_bytes((1 - share) * to_unit(images) + share * to_unit(second))


def interlace(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Every second row moved to one side, as in a film of something fast."""
    far = (0.03, 0.06, 0.09, 0.12, 0.16)[severity - 1]
    pixels = max(1, round(far * images.shape[2]))
    moved = images.copy()
    for n, random in enumerate(draws.for_batch(len(images))):
        moved[n, 1::2] = np.roll(images[n, 1::2], int(random.choice((-1, 1))) * pixels, axis=1)
    return moved


def _grid(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates from -1 to 1, down and to the right."""
    height, width = images.shape[1:3]
    y, x = np.mgrid[:height, :width].astype(float)
    return 2 * y / max(1, height - 1) - 1, 2 * x / max(1, width - 1) - 1
