"""The digital corruptions of the table. Pillow and OpenCV are called as the release did."""

from collections.abc import Callable
from io import BytesIO

import numpy as np
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.shifts.draws import Draws
from uraenas.shifts.pixels import gaussian, to_bytes, to_hsv, to_rgb, to_unit
from uraenas.shifts.requires import opencv


def contrast(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """(x − μ)·c + μ, with the mean μ of each image's channels."""
    factor = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    values = to_unit(images)
    means = values.mean(axis=(1, 2), keepdims=True)
    return to_bytes((values - means) * factor + means)


def saturate(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """HSV with the saturation times c₀ plus c₁. Grey images have no saturation to change."""
    if images.shape[-1] == 1:
        raise UraenasError("saturate needs colour images (3 channels); these are grey: leave it out")
    factor, lift = ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))[severity - 1]
    hue, saturation, value = to_hsv(to_unit(images))
    return to_bytes(to_rgb(hue, np.clip(saturation * factor + lift, 0, 1), value))


def elastic_transform(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """A random affine map, then a smooth random displacement; all lengths are shares of the shorter side."""
    reach, smoothness, jitter = (
        (0.00, 0.00, 0.08),
        (0.05, 0.20, 0.07),
        (0.08, 0.06, 0.06),
        (0.10, 0.04, 0.05),
        (0.10, 0.03, 0.03),
    )[severity - 1]
    height, width = images.shape[1:3]
    side = min(height, width)
    jitters, noise = [], []
    for generator in draws.for_batch(len(images)):
        jitters.append(generator.uniform(-jitter * side, jitter * side, (3, 2)))
        noise.append(generator.uniform(-1, 1, (2, height, width)))
    warped = _affine(images.astype(np.float32) / 255, np.stack(jitters).astype(np.float32))
    if reach == 0:
        return to_bytes(warped)
    fields = np.concatenate(noise)  # [2N, H, W]: right and down of the first image, then of the next
    fields = (gaussian(fields, smoothness * side, "reflect", 3.0) * (reach * side)).astype(np.float32)
    return to_bytes(_displaced(warped, fields.reshape(-1, 2, height, width)))


def pixelate(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Fewer pixels, then as many as before, with box filters."""
    share = (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1]
    height, width = images.shape[1:3]
    smaller = max(1, int(width * share)), max(1, int(height * share))

    def coarse(picture: Image.Image) -> Image.Image:
        box = Image.Resampling.BOX
        return picture.resize(smaller, box).resize((width, height), box)

    return _with_pillow(images, coarse)


def jpeg_compression(images: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """JPEG at quality c, colour at half resolution; the bytes depend on the libjpeg inside Pillow."""
    quality = (80, 65, 58, 50, 40)[severity - 1]

    def compressed(picture: Image.Image) -> Image.Image:
        file = BytesIO()
        picture.save(file, "JPEG", quality=quality)
        return Image.open(file)

    return _with_pillow(images, compressed)


def _with_pillow(images: np.ndarray, change: Callable[[Image.Image], Image.Image]) -> np.ndarray:
    grey = images.shape[-1] == 1
    changed = np.empty_like(images)
    for position, image in enumerate(images):
        picture = Image.fromarray(np.ascontiguousarray(image[..., 0] if grey else image))
        changed[position] = np.asarray(change(picture)).reshape(image.shape)
    return changed


def _affine(values: np.ndarray, jitters: np.ndarray) -> np.ndarray:
    """Each image under the affine map that moves three points around its centre by jitters [N, 3, (x, y)]."""
    cv2 = opencv("elastic_transform")
    height, width = values.shape[1:3]
    centre, arm = np.array([width // 2, height // 2], np.float32), min(height, width) // 3
    points = centre + arm * np.array([[1, 1], [1, -1], [-1, -1]], np.float32)
    warped = np.empty_like(values)
    for position, (image, jitter) in enumerate(zip(values, jitters, strict=True)):
        matrix = cv2.getAffineTransform(points, points + jitter)
        moved = cv2.warpAffine(image, matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101)
        warped[position] = moved.reshape(image.shape)
    return warped


def _displaced(values: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Each image read at its pixels plus a field [N, (right, down), H, W], bilinear, mirrored at the edge."""
    from scipy import ndimage  # takes as long to import as all of this package

    rows, columns = np.indices(values.shape[1:3])
    moved = np.empty_like(values)
    for image, (right, down), result in zip(values, fields, moved, strict=True):
        where = rows + down, columns + right
        for channel in range(values.shape[-1]):
            result[..., channel] = ndimage.map_coordinates(
                image[..., channel], where, order=1, mode="reflect"
            )
    return moved
