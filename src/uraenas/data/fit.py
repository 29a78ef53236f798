"""Images of one dataset in the form that another's network takes, for out-of-distribution tests."""

import numpy as np
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data.arrays import require_form

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601, as Pillow converts to grey


def fit_images(images: np.ndarray, height: int, width: int, channels: int) -> np.ndarray:
    """The images [N, H, W, C] as [N, height, width, channels], of the same type, by one plain rule.

    An image larger than the frame is shrunk with antialiasing, its proportions kept, until it fits. A smaller
    one is enlarged by the greatest whole factor that fits, each pixel repeated. The rest of the frame is
    black, the image in its middle. Grey becomes colour by repetition, colour becomes grey by luma.
    """
    require_form(images)
    images = _with_channels(images, channels)
    scale = min(height / images.shape[1], width / images.shape[2])
    if scale < 1:
        images = _shrunk(images, max(1, int(images.shape[1] * scale)), max(1, int(images.shape[2] * scale)))
    elif scale >= 2:
        images = images.repeat(int(scale), axis=1).repeat(int(scale), axis=2)
    free_rows, free_columns = height - images.shape[1], width - images.shape[2]
    rows = (free_rows // 2, free_rows - free_rows // 2)
    columns = (free_columns // 2, free_columns - free_columns // 2)
    return np.pad(images, ((0, 0), rows, columns, (0, 0)))


def in_units_of(images: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Images as bytes, or as floats in 0 … 1, whichever this type asks for."""
    if images.dtype == kind:
        return images
    if kind == np.uint8:
        return np.rint(images * 255).clip(0, 255).astype(np.uint8)
    return images.astype(np.float32) / 255


def _with_channels(images: np.ndarray, channels: int) -> np.ndarray:
    have = images.shape[3]
    if have == channels:
        return images
    if have == 1:
        return np.repeat(images, channels, axis=3)
    if have == 3 and channels == 1:
        grey = (images.astype(np.float32) @ LUMA)[..., None]
        return np.rint(grey).astype(np.uint8) if images.dtype == np.uint8 else grey
    raise UraenasError(f"images with {have} channels cannot become {channels}; allowed: 1 → any, 3 → 1")


def _shrunk(images: np.ndarray, height: int, width: int) -> np.ndarray:
    small = np.empty((len(images), height, width, images.shape[3]), np.float32)
    for number, image in enumerate(images):
        for channel in range(images.shape[3]):
            plane = Image.fromarray(np.ascontiguousarray(image[..., channel], dtype=np.float32))
            small[number, ..., channel] = np.asarray(plane.resize((width, height), Image.Resampling.BILINEAR))
    return np.rint(small).clip(0, 255).astype(np.uint8) if images.dtype == np.uint8 else small
