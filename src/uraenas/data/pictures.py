"""One image file as pixels, whatever its format, size, colours and bit depth."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from uraenas.base.errors import UraenasError

OF_PHONES = frozenset((".heic", ".heif"))  # Pillow needs pillow-heif for these
ENDINGS = OF_PHONES | {
    *(".png", ".jpg", ".jpeg", ".jpe", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
}
FORMATS = (
    "PNG",
    "JPEG",
    "BMP",
    "GIF",
    "WEBP",
    "TIFF",
    "PPM",
)  # Pillow would start Ghostscript for some others
MOST_PIXELS = 89_478_485  # Pillow's own limit for a picture that is no decompression bomb
DEEPEST, WHITE = 65535, 255  # of 16 and of 8 bits
DIM = 4095  # cameras use 12 of 16 bits: such files come out nearly black


@dataclass(frozen=True)
class Picture:
    """The first picture of a file, resized as a whole."""

    pixels: np.ndarray  # [height, width, 3], uint8
    size: tuple[int, int]  # width and height of the file
    frames: int = 1  # in the file
    dim: bool = False  # 16 bits, of which at most 12 are used

    @property
    def stretched(self) -> bool:
        height, width = self.pixels.shape[:2]
        return self.size[0] * height != self.size[1] * width

    def with_channels(self, channels: int) -> np.ndarray:
        """[height, width, channels], grey or RGB."""
        if channels not in (1, 3):
            raise UraenasError(
                f"an image file cannot become {channels} channels; allowed: 1 (grey) or 3 (RGB)"
            )
        if channels == 3:
            return self.pixels
        return np.array(Image.fromarray(self.pixels).convert("L"))[..., None]


def read_picture(path: Path, size: tuple[int, int]) -> Picture:
    """The picture in a file, resized to this height and width; an error that names the file and the reason."""
    with bombs_are_errors():
        found = try_picture(path, size)
    if isinstance(found, str):
        raise UraenasError(f"{path} cannot be read as an image: {found}")
    return found


def read_image(path: str | os.PathLike[str], size: int | tuple[int, int], channels: int) -> np.ndarray:
    """One image file as uint8 [height, width, channels], whatever its own size and colours."""
    return read_picture(Path(path), (size, size) if isinstance(size, int) else size).with_channels(channels)


@contextmanager
def bombs_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def try_picture(path: Path, size: tuple[int, int]) -> Picture | str:
    """The picture, or in a few words why there is none. To be called where bombs are errors."""
    height, width = size
    try:
        formats = _with_heif() if path.suffix.lower() in OF_PHONES else FORMATS
        with Image.open(path, formats=formats) as image:
            if image.width * image.height > MOST_PIXELS:
                return f"{image.width}×{image.height} pixels are more than {MOST_PIXELS}"
            own_size = image.size
            # A JPEG's second picture is a preview or a depth map, not another frame.
            frames = 1 if image.format in ("MPO", "JPEG") else getattr(image, "n_frames", 1)
            # A JPEG can be decoded at a fraction of its size: much faster, and still twice as fine as needed.
            image.draft(None, (2 * width, 2 * height))
            deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")
            upright, dim = _as_rgb(ImageOps.exif_transpose(image), deep)
        resized = upright.resize((width, height), Image.Resampling.BILINEAR)
        return Picture(np.array(resized), own_size, frames, dim)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return f"more than {MOST_PIXELS} pixels"
    except FileNotFoundError:
        return "it does not exist"
    except Exception as error:  # Pillow's decoders raise a dozen kinds on hostile bytes
        return " ".join(str(error).split())[:100] or type(error).__name__


def _with_heif() -> tuple[str, ...]:
    """The formats that Pillow knows once it was taught that of phones, for which the package must be installed."""
    try:
        import pillow_heif
    except ImportError as error:
        raise UraenasError("HEIC needs pillow-heif; install it with: pip install 'uraenas[heic]'") from error
    pillow_heif.register_heif_opener()
    return (*FORMATS, "HEIF")


def _as_rgb(image: Image.Image, deep: bool) -> tuple[Image.Image, bool]:
    """Eight bits, three colours, and whether it is dim; transparent parts become white. Deep: grey of 16 bits."""
    if deep:
        levels = np.asarray(image).astype(np.uint32)
        grey = ((levels * WHITE + DEEPEST // 2) // DEEPEST).astype(np.uint8)
        return Image.fromarray(grey).convert("RGB"), bool(0 < levels.max() <= DIM)
    if image.mode.startswith(("I", "F")):
        raise UraenasError("32-bit grey has no stated range; save it with 8 or 16 bits")
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB"), False
    return image.convert("RGB"), False
