"""Images of one dataset in the form that another's network takes, for out-of-distribution tests."""

import numpy as np
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data.arrays import require_form

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601, as Pillow converts to grey


def fit_images(images: np.ndarray, height: int, width: int, channels: int) -> np.ndarray:
    """The images [N, H, W, C] as [N, height, width, channels], of the same type, as files are read for predictions.

    Each is resized as a whole: a frame, or pixels that are repeated, would give away where an image comes from. Grey
    becomes colour by repetition, colour becomes grey by luma.
    """
    require_form(images)
    return _with_channels(_resized(images, height, width), channels)


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


def _resized(images: np.ndarray, height: int, width: int) -> np.ndarray:
    if images.shape[1:3] == (height, width):
        return images
    found = np.empty((len(images), height, width, images.shape[3]), images.dtype)
    for number, image in enumerate(images):
        for channel in range(images.shape[3]):
            plane = Image.fromarray(np.ascontiguousarray(image[..., channel]))
            found[number, ..., channel] = plane.resize((width, height), Image.Resampling.BILINEAR)
    return found
