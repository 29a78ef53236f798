"""What the corruptions share: bytes and unit values, Gaussian smoothing, grey and HSV.

Float64 and the order of operations are kept as the release had them, since results are truncated to bytes.
"""

import numpy as np


def to_unit(images: np.ndarray) -> np.ndarray:
    """Bytes as float64 in [0, 1]."""
    return images / 255.0


def to_bytes(values: np.ndarray) -> np.ndarray:
    """Values clipped to [0, 1], times 255, truncated (not rounded) to bytes, as in the release."""
    return (np.clip(values, 0, 1) * 255).astype(np.uint8)


def gaussian(values: np.ndarray, sigma: float, mode: str = "nearest", truncate: float = 4.0) -> np.ndarray:
    """Each image [N, H, W, ...] smoothed over H and W alone, as scikit-image's `gaussian` does."""
    sigmas = (0.0, sigma, sigma) + (0.0,) * (values.ndim - 3)
    from scipy import ndimage  # takes as long to import as all of this package

    return ndimage.gaussian_filter(values, sigmas, mode=mode, truncate=truncate)


def luminance(values: np.ndarray) -> np.ndarray:
    """The grey value of colours, in the last axis: 0.299 R + 0.587 G + 0.114 B. Grey stays as it is."""
    if values.shape[-1] == 1:
        return values
    return values[..., :1] * 0.299 + values[..., 1:2] * 0.587 + values[..., 2:3] * 0.114


def colour_for(images: np.ndarray, red_green_blue: tuple[int, int, int]) -> np.ndarray:
    """A colour given in bytes, as unit values in the images' channels: its luminance for grey ones."""
    colour = np.array(red_green_blue, np.float32) / 255
    return colour if images.shape[-1] == 3 else luminance(colour)


def to_hsv(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hue, saturation and value, each in [0, 1] and without channels; grey has hue and saturation 0."""
    red, green, blue = np.ascontiguousarray(np.moveaxis(rgb, -1, 0))
    value = np.maximum(np.maximum(red, green), blue)
    spread = value - np.minimum(np.minimum(red, green), blue)
    divisor = np.where(spread == 0, 1, spread)  # grey: every numerator below is 0 as well
    sextant = np.select(
        [blue == value, green == value],
        [4 + (red - green) / divisor, 2 + (blue - red) / divisor],
        (green - blue) / divisor,
    )
    hue = np.where(spread == 0, 0, (sextant / 6) % 1)
    saturation = spread / np.where(value == 0, 1, value)
    return hue, saturation, value


def to_rgb(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The colours of hue, saturation and value, channels last."""
    sextant = np.floor(hue * 6)
    within = hue * 6 - sextant
    low = value * (1 - saturation)
    falling = value * (1 - within * saturation)
    rising = value * (1 - (1 - within) * saturation)
    which = sextant.astype(np.uint8) % 6
    red = np.choose(which, [value, falling, low, low, rising, value])
    green = np.choose(which, [rising, value, value, falling, low, low])
    blue = np.choose(which, [low, low, rising, value, value, falling])
    return np.stack([red, green, blue], axis=-1)
