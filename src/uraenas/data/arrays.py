"""Image arrays of any usual form, told apart or refused, never guessed."""

from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError, unknown

MOST_CHANNELS = 4
CHANNEL_ORDERS = ("auto", "first", "last")


def as_images(
    array: Any,
    value_range: tuple[float, float] | None = None,
    channels: str = "auto",
    shape: tuple[int, ...] | None = None,
) -> np.ndarray:
    """N images as N×H×W×C, in uint8 or in float32 from 0 to 1.

    Accepted are N×H×W (grey), N×H×W×C and N×C×H×W with 1 to 4 channels. Which axis holds the channels shows
    in the shape; where both could, `channels` ("first" or "last") must say. Rows N×D are images where `shape`,
    H×W or H×W×C, says so. Without `value_range`, uint8 stays as it is, booleans become 0 and 1, and floats must
    lie within 0 … 1. With it, values must lie within the stated range, which is mapped to 0 … 1; integers within
    (0, 255) become uint8.
    """
    if np.ma.is_masked(array):
        raise UraenasError("images have masked values; fill them, or leave those images out")
    try:
        array = np.asarray(array)
    except ValueError as error:
        raise UraenasError("images of different sizes are not allowed; resize them to one size") from error
    if array.dtype.kind not in "buif":
        raise UraenasError(f"images of type {array.dtype} are not allowed; allowed: uint8 or float")
    if shape is not None and array.ndim == 2:
        if array.shape[1] != np.prod(shape):
            form = "×".join(map(str, shape))
            raise UraenasError(f"rows of {array.shape[1]} values are no images of {form}; see image_shape")
        array = array.reshape(len(array), *shape)
    if array.ndim not in (3, 4):
        rows = " (rows of pixels: give image_shape; rows of a table: use UraeNASClassifier)"
        raise UraenasError(
            f"images of shape {array.shape} are not allowed; allowed: N×H×W, N×H×W×C or N×C×H×W"
            f"{rows if array.ndim == 2 else ''}"
        )
    if array.size == 0:
        raise UraenasError(f"there are no images: the array is {array.shape}")
    return _in_range(_channels_last(array, channels), value_range)


def require_form(images: np.ndarray) -> None:
    """Refuse what is not as `as_images` has it."""
    if images.ndim != 4 or images.dtype not in (np.uint8, np.float32):
        raise UraenasError(f"images must be N×H×W×C in uint8 or float32, not {images.shape} {images.dtype}")


def require_finite(images: np.ndarray) -> None:
    """Refuse floats that are no numbers."""
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise UraenasError("images contain NaN or infinite values; replace these, or leave such images out")


def require_clear_range(images: np.ndarray, value_range: tuple[float, float] | None) -> None:
    """Refuse a set of images of bytes that are 0 and 1 alone: as floats, or in a file, 1 would be white."""
    if value_range is None and images.dtype == np.uint8 and (images.min(), images.max()) == (0, 1):
        raise UraenasError(
            "uint8 images with values 0 and 1 alone are ambiguous; state their range with value_range, (0, 1) or "
            "(0, 255) (on the command line: data.value_range=0,1)"
        )


def _channels_last(array: np.ndarray, channels: str) -> np.ndarray:
    if channels not in CHANNEL_ORDERS:
        raise unknown("order of channels", channels, CHANNEL_ORDERS)
    if array.ndim == 3:
        if array.shape[2] <= MOST_CHANNELS:
            raise UraenasError(
                f"{array.shape} looks like one H×W×C image, not like N×H×W grey ones; "
                "give a batch of one as image[None]"
            )
        return array[..., None]
    first, last = (array.shape[axis] <= MOST_CHANNELS for axis in (1, 3))
    order = channels
    if order == "auto":
        if first == last:
            reason = "either axis 1 or axis 3" if first else "neither axis 1 nor axis 3"
            mend = (
                'say which with channels="first" or channels="last"' if first else "allowed: 1 to 4 channels"
            )
            raise UraenasError(f"in images of shape {array.shape}, {reason} can hold the channels; {mend}")
        order = "first" if first else "last"
    count = array.shape[1 if order == "first" else 3]
    if count > MOST_CHANNELS:
        raise UraenasError(f'channels="{order}" makes {count} channels of {array.shape}; allowed: 1 to 4')
    return np.moveaxis(array, 1, 3) if order == "first" else array


def _in_range(images: np.ndarray, value_range: tuple[float, float] | None) -> np.ndarray:
    if value_range is None and images.dtype == np.uint8:
        return np.ascontiguousarray(images)
    require_finite(images)
    smallest, largest = images.min(), images.max()
    if value_range is None:
        if images.dtype.kind in "iu" or smallest < 0 or largest > 1:
            raise UraenasError(
                f"{images.dtype} images with values from {smallest:g} to {largest:g} are ambiguous; state "
                "their range with value_range, such as (0, 255) (on the command line: data.value_range=0,255), or "
                "give uint8 or floats from 0 to 1"
            )
        return np.ascontiguousarray(images, dtype=np.float32)
    low, high = _checked_range(value_range)
    if smallest < low or largest > high:
        raise UraenasError(
            f"values from {smallest:g} to {largest:g} do not lie within value_range=({low:g}, {high:g})"
        )
    if images.dtype.kind in "iu" and (low, high) == (0, 255):
        return np.ascontiguousarray(images, dtype=np.uint8)
    scaled = (images.astype(np.float64) - low) / (high - low)
    return np.ascontiguousarray(np.clip(scaled, 0, 1), dtype=np.float32)  # the division may round past 1


def _checked_range(value_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(limit) for limit in value_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise UraenasError(f"value_range = {value_range!r} is not allowed; allowed: (low, high), low < high")
    return low, high
