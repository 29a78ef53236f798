"""One image file as pixels, whatever its format, size, colours and bit depth."""

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from uraenas.base.errors import UraenasError
from uraenas.base.regular_files import open_regular

OF_PHONES = frozenset((".heic", ".heif"))  # Pillow needs pillow-heif for these
ENDINGS = OF_PHONES | {
    *(".png", ".jpg", ".jpeg", ".jpe", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
}
HEIF = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypmsf1")  # how such files begin, after four bytes
# Pillow would start Ghostscript for some others.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MOST_PIXELS = 50_000_000  # a picture is in memory up to four times, at four bytes a pixel: less than 1 GB
LARGE, STRIP = 4_000_000, 1 << 20  # pixels
ONE_LARGE = Lock()  # of pictures that are large in memory one is decoded at a time, on any number of cores
MADE_GREY = "made grey"
UNREADABLE = "cannot be read as an image"
DEEPEST, WHITE = 65535, 255  # of 16 and of 8 bits
DIM = 4095  # cameras use 12 of 16 bits: such files come out nearly black
CHANNELS = (1, 3)  # that a file can become: grey, RGB
PHOTOMETRIC, WHITE_IS_ZERO = 262, 0  # a tag of TIFF, which Pillow obeys in 8 bits alone


@dataclass(frozen=True)
class Picture:
    """The first picture of a file, resized as a whole."""

    pixels: np.ndarray  # [height, width, 3], uint8
    size: tuple[int, int]  # width and height of the file's, upright
    frames: int = 1  # in the file
    dim: bool = False  # 16 bits, of which at most 12 are used

    @property
    def stretched(self) -> bool:
        height, width = self.pixels.shape[:2]
        return self.size[0] * height != self.size[1] * width

    @property
    def note(self) -> str:
        """What was done to it that whoever asks for a prediction should know."""
        height, width = self.pixels.shape[:2]
        notes = ["resized from {}×{}".format(*self.size)] if self.size != (width, height) else []
        notes += [f"first of {self.frames} frames"] if self.frames > 1 else []
        notes += ["uses at most 12 of its 16 bits"] if self.dim else []
        return "; ".join(notes)

    def note_in(self, channels: int) -> str:
        """The same, where it gets so many channels."""
        loses = channels == 1 and not (self.pixels == self.pixels[..., :1]).all()
        return "; ".join(filter(None, (self.note, MADE_GREY if loses else "")))

    def with_channels(self, channels: int) -> np.ndarray:
        """[height, width, channels], grey or RGB."""
        if channels not in CHANNELS:
            raise UraenasError(
                f"an image file cannot become {channels} channels; allowed: 1 (grey) or 3 (RGB)"
            )
        if channels == 3:
            return self.pixels
        return np.array(Image.fromarray(self.pixels).convert("L"))[..., None]


def read_pictures(files: Sequence[Path], size: tuple[int, int]) -> list[Picture | str]:
    """Every picture, decoded on all cores, or in a few words why there is none."""
    with bombs_are_errors(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda file: try_picture(file, size), files))


def read_picture(path: Path, size: tuple[int, int]) -> Picture:
    """The picture in a file, resized to this height and width; an error that names the file and the reason."""
    with bombs_are_errors():
        found = try_picture(path, size)
    if isinstance(found, str):
        raise UraenasError(f"{path} {UNREADABLE}: {found}")
    return found


def picture_of(body: bytes, size: tuple[int, int]) -> Picture:
    """The picture in these bytes, as `read_picture` has it for a file."""
    with bombs_are_errors():
        found = try_picture(io.BytesIO(body), size)
    if isinstance(found, str):
        raise UraenasError(f"this {UNREADABLE}: {found}")
    return found


def read_image(path: str | os.PathLike[str], size: int | tuple[int, int], channels: int) -> np.ndarray:
    """One image file as uint8 [height, width, channels], whatever its own size and colours."""
    return read_picture(Path(path), (size, size) if isinstance(size, int) else size).with_channels(channels)


@contextmanager
def bombs_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def try_picture(source: Path | io.BytesIO, size: tuple[int, int]) -> Picture | str:
    """The picture, or in a few words why there is none. To be called where bombs are errors."""
    height, width = size
    try:
        with _opened(source) as file, Image.open(file, formats=_formats(source, file)) as image:
            if image.width * image.height > MOST_PIXELS:
                return f"{image.width}×{image.height} pixels are more than {MOST_PIXELS}"
            own_size = image.size
            # A JPEG's second picture is a preview or a depth map, not another frame.
            frames = 1 if image.format in ("MPO", "JPEG") else getattr(image, "n_frames", 1)
            # A JPEG can be decoded at a fraction of its size: much faster, and still twice as fine as needed.
            image.draft(None, (2 * width, 2 * height))
            deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")
            # One that comes in several scans is held whole, however small it is wanted.
            held = own_size if image.info.get("progressive") else image.size
            large = held[0] * held[1] > LARGE
            with ONE_LARGE if large else nullcontext():
                lying = image.size
                ImageOps.exif_transpose(image, in_place=True)
                own_size = own_size if image.size == lying else own_size[::-1]
                upright, dim = _as_rgb(image, deep)
                resized = upright.resize((width, height), Image.Resampling.BILINEAR)
        return Picture(np.array(resized), own_size, frames, dim)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return f"more than {MOST_PIXELS} pixels"
    except FileNotFoundError:
        return "it does not exist"
    except UnidentifiedImageError:
        return "it is empty" if _is_empty(source) else "it has the form of none that is known"
    except UraenasError as error:
        return str(error).removeprefix(f"cannot read {source}: ")
    except Exception as error:  # Pillow's decoders raise a dozen kinds on hostile bytes
        return " ".join(str(error).split())[:100] or type(error).__name__


def _is_empty(source: Path | io.BytesIO) -> bool:
    return (source.stat().st_size if isinstance(source, Path) else source.getbuffer().nbytes) == 0


def _opened(source: Path | io.BytesIO) -> AbstractContextManager[BinaryIO]:
    return open_regular(source) if isinstance(source, Path) else nullcontext(source)


def _formats(source: Path | io.BytesIO, file: BinaryIO) -> tuple[str, ...]:
    """That of phones where a file's ending says so, or where it begins so, whatever its ending."""
    begins = file.read(12)[4:]
    file.seek(0)
    named = isinstance(source, Path) and source.suffix.lower() in OF_PHONES
    return _with_heif() if named or begins in HEIF else FORMATS


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
        dim = bool(0 < levels.max() <= DIM)
        if getattr(image, "tag_v2", {}).get(PHOTOMETRIC) == WHITE_IS_ZERO:
            levels = DEEPEST - levels
        grey = ((levels * WHITE + DEEPEST // 2) // DEEPEST).astype(np.uint8)
        return Image.fromarray(grey).convert("RGB"), dim
    if image.mode.startswith(("I", "F")):
        raise UraenasError("32-bit grey has no stated range; save it with 8 or 16 bits")
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        return _on_white(image), False
    return image if image.mode == "RGB" else image.convert("RGB"), False


def _on_white(image: Image.Image) -> Image.Image:
    """Transparent parts become white; a strip at a time, since a whole picture would be in memory four times."""
    whole = Image.new("RGB", image.size)
    rows = max(1, STRIP // image.width)
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        strip.info = image.info  # where the transparent colour of a palette is told
        clear = strip.convert("RGBA")
        white = Image.new("RGBA", clear.size, "white")
        whole.paste(Image.alpha_composite(white, clear).convert("RGB"), (0, top))
    return whole
