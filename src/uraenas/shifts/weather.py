"""The weathers of the table: snow, frost, fog, brightness and spatter, for colour and grey images of any size."""

from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.shifts.blur import from_planes, motion_blurred, to_planes, zoomed
from uraenas.shifts.draws import Draws
from uraenas.shifts.pixels import colour_for, gaussian, luminance, to_bytes, to_hsv, to_rgb, to_unit
from uraenas.shifts.requires import FROST_REMEDY, frost_texture_paths, opencv

WATER, MUD = (175, 238, 238), (63, 42, 20)


def brightness(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """HSV with c added to the value; for grey images the value is the image itself."""
    lift = (0.05, 0.10, 0.15, 0.20, 0.30)[severity - 1]
    values = to_unit(images)
    if images.shape[-1] == 1:
        return to_bytes(values + lift)
    hue, saturation, value = to_hsv(values)
    return to_bytes(to_rgb(hue, saturation, np.clip(value + lift, 0, 1)))


def snow(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Flakes of enlarged, cut and streaked noise, sized in pixels, laid twice over a paler image."""
    mean, deviation, zoom, cut, radius, sigma, keep = (
        (0.10, 0.2, 1.00, 0.60, 8, 3.0, 0.95),
        (0.10, 0.2, 1.00, 0.50, 10, 4.0, 0.90),
        (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.90),
        (0.25, 0.3, 2.25, 0.60, 12, 6.0, 0.85),
        (0.30, 0.3, 1.25, 0.65, 14, 12.0, 0.80),
    )[severity - 1]
    noise, angles = [], []
    for generator in draws.for_batch(len(images)):
        noise.append(generator.normal(mean, deviation, (*images.shape[1:3], 1)))
        angles.append(generator.uniform(-135, -45))
    flakes = from_planes(zoomed(to_planes(np.stack(noise)), zoom), channels=1)
    flakes = to_bytes(np.where(flakes < cut, 0, flakes))
    layer = to_unit(motion_blurred(flakes, radius, sigma, angles))
    values = images.astype(np.float32) / 255
    pale = np.maximum(values, luminance(values) * 1.5 + 0.5)
    return to_bytes(keep * values + (1 - keep) * pale + layer + layer[:, ::-1, ::-1])


def frost(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """A random crop of one of five photographs of frost, added to a darker image.

    Photographs are scaled by 0.2 for a longer side of 32 and in proportion for others, so that crystals keep
    their share of the image.
    """
    keep, added = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[severity - 1]
    height, width, channels = images.shape[1:]
    textures = _frost_textures(0.2 * max(height, width) / 32, channels)
    crops = []
    for generator in draws.for_batch(len(images)):
        texture = textures[generator.integers(len(textures))]
        top = generator.integers(texture.shape[0] - height)
        left = generator.integers(texture.shape[1] - width)
        crops.append(texture[top : top + height, left : left + width])
    return np.clip(keep * images + added * np.stack(crops), 0, 255).astype(np.uint8)


def fog(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """(x + c·P)·max / (max + c): a plasma fractal P over the image, whose maximum stays where it was.

    The fractal's side is the smallest power of two that covers the image, which takes its top left part.
    """
    amount, decay = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))[severity - 1]
    height, width = images.shape[1:3]
    size = 2 ** max(1, int(max(height, width) - 1).bit_length())
    uniform = np.stack([g.uniform(-1, 1, size * size - 1) for g in draws.for_batch(len(images))])
    plasma = plasma_fractal(uniform, size, decay)[:, :height, :width, None]
    values = to_unit(images)
    brightest = values.max(axis=(1, 2, 3), keepdims=True)
    return to_bytes((values + amount * plasma) * brightest / (brightest + amount))


def spatter(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Drops of water (severities 1 to 3) or mud (4, 5), sized in pixels; grey images take their luminance."""
    mean, deviation, sigma, cut, strength = (
        (0.62, 0.1, 0.7, 0.70, 0.5),
        (0.65, 0.1, 0.8, 0.70, 0.5),
        (0.65, 0.3, 1.0, 0.69, 0.5),
        (0.65, 0.1, 0.7, 0.69, 0.6),
        (0.65, 0.1, 0.5, 0.68, 0.6),
    )[severity - 1]
    noise = [
        generator.normal(mean, deviation, images.shape[1:3]) for generator in draws.for_batch(len(images))
    ]
    liquid = gaussian(np.stack(noise), sigma)
    liquid[liquid < cut] = 0
    values = images.astype(np.float32) / 255
    if severity <= 3:
        water = strength * _water(liquid, opencv("spatter"))[..., None]
        return to_bytes(values + water * colour_for(images, WATER))
    mud = gaussian((liquid > cut).astype(np.float32), strength)[..., None]
    mud[mud < 0.8] = 0
    return to_bytes(values * (1 - mud) + mud * colour_for(images, MUD))


def plasma_fractal(uniform: np.ndarray, size: int, decay: float) -> np.ndarray:
    """Height maps [N, size, size] in [0, 1] by diamond-square on a torus, from size² − 1 draws in [−1, 1].

    Halving the grid, each new point is the mean of its four neighbours plus w²·U(−1, 1), where w is 100 at
    first and is divided by `decay` with each halving.
    """
    heights = np.zeros((len(uniform), size, size))
    taken = 0

    def wobble(neighbour_sum: np.ndarray) -> np.ndarray:
        nonlocal taken
        count = neighbour_sum[0].size
        draw = uniform[:, taken : taken + count].reshape(neighbour_sum.shape)
        taken += count
        return neighbour_sum / 4 + width * width * draw

    step, width = size, 100.0
    while step >= 2:
        half = step // 2
        corners = heights[:, ::step, ::step]
        above = corners + np.roll(corners, -1, axis=1)
        heights[:, half::step, half::step] = wobble(above + np.roll(above, -1, axis=2))
        centres = heights[:, half::step, half::step]
        beside = corners + np.roll(corners, -1, axis=2) + centres + np.roll(centres, 1, axis=1)
        heights[:, ::step, half::step] = wobble(beside)
        below = corners + np.roll(corners, -1, axis=1) + centres + np.roll(centres, 1, axis=2)
        heights[:, half::step, ::step] = wobble(below)
        step, width = half, width / decay
    heights -= heights.min(axis=(1, 2), keepdims=True)
    return heights / heights.max(axis=(1, 2), keepdims=True)


@lru_cache(maxsize=8)
def _frost_textures(scale: float, channels: int) -> list[np.ndarray]:
    """The five photographs, scaled once per process; reading them for each image takes most of the time."""
    cv2 = opencv("frost")
    textures = []
    for path in frost_texture_paths():
        photograph = cv2.imread(str(path))
        if photograph is None:
            raise UraenasError(f"frost texture {path.name} cannot be read: {FROST_REMEDY} --force-reinstall")
        smaller = cv2.resize(photograph, (0, 0), fx=scale, fy=scale)[..., ::-1]  # OpenCV reads blue first
        textures.append(luminance(smaller) if channels == 1 else smaller)
    return textures


def _water(liquid: np.ndarray, cv2: ModuleType) -> np.ndarray:
    """How much water lies on each pixel, at most 1 per image."""
    # Values above 1 wrap around, as they did in the release; the cast through int says so on every machine.
    liquid = (liquid * 255).astype(np.int64).astype(np.uint8)
    amount = np.stack(list(_lit_drops(liquid, cv2)))
    most = amount.max(axis=(1, 2), keepdims=True)
    return amount / np.where(most == 0, 1, most)


def _lit_drops(liquid: np.ndarray, cv2: ModuleType) -> Iterator[np.ndarray]:
    """Each layer of drops, lit from one side by the slope of the distance to the drops' edges."""
    slope = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], np.float32)
    for layer in liquid:
        distance = cv2.distanceTransform(255 - cv2.Canny(layer, 50, 150), cv2.DIST_L2, 5)
        distance = cv2.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8)
        light = cv2.filter2D(cv2.equalizeHist(distance), cv2.CV_8U, slope)
        yield layer * cv2.blur(light, (3, 3)).astype(np.float32)
