"""A folder of images with one sub-folder per class."""

import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from PIL import Image, ImageOps

from uraenas.base.errors import UraenasError
from uraenas.base.regular_files import open_regular
from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.splits import stratified_split

SPLIT_KEY = 8110  # a constant, so that every run on a folder without a test part has the same test images
TEST_FRACTION = 0.2
DEFAULT_SIZE = 32
ENDINGS = frozenset(
    (".png", ".jpg", ".jpeg", ".jpe", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)
FORMATS = (
    "PNG",
    "JPEG",
    "BMP",
    "GIF",
    "WEBP",
    "TIFF",
    "PPM",
)  # Pillow would start Ghostscript for some others
MOST_PIXELS = 50_000_000  # a picture is in memory up to four times, at four bytes a pixel: less than 1 GB
LARGE, STRIP = 4_000_000, 1 << 20  # pixels
ONE_LARGE = Lock()  # of large pictures one is decoded at a time, whatever the number of cores
NAMED_FILES = 5


@dataclass(frozen=True)
class _Picture:
    pixels: np.ndarray  # [size, size, 3]
    stretched: bool


def load_folder(path: str | os.PathLike[str], image_size: int = DEFAULT_SIZE) -> Dataset:
    """The dataset in `path/CLASS/…`, or in `path/train/CLASS/…` and `path/test/CLASS/…`.

    Every image is resized as a whole to `image_size` × `image_size`. The dataset is RGB, or grey where every
    pixel of every image is. Without a test part, a fifth of each class becomes one. A file with the ending of
    an image that cannot be read is an error; other files are left out and counted in the notes.
    """
    path = Path(path)
    divided = _is_divided(path)
    train_files, classes, ignored = _find_images(path / "train" if divided else path)
    notes = []
    if divided:
        test_files, _, ignored_in_test = _find_images(path / "test", classes)
        ignored += ignored_in_test
    else:
        test_files = []
    labels = np.array([classes.index(name) for name, _ in (*train_files, *test_files)], np.int64)
    pictures = _read_all([file for _, file in (*train_files, *test_files)], image_size)
    stretched = sum(picture.stretched for picture in pictures)
    if stretched:
        notes.append(f"{stretched} of {len(pictures)} images are not square and were stretched to be so")
    notes += notes_on_left_out(ignored)
    names = tuple(str(file.relative_to(path)) for _, file in (*train_files, *test_files))
    everything = LabelledImages(_stacked([picture.pixels for picture in pictures]), labels, names=names)
    if divided:
        order = np.arange(len(labels))
        train, test = order[: len(train_files)], order[len(train_files) :]
    else:
        train, test = stratified_split(labels, [1 - TEST_FRACTION, TEST_FRACTION], SPLIT_KEY, classes)
        notes.append(f"{path.name} has no test part: {len(test)} of its images, stratified, became one")
    return Dataset(
        path.resolve().name,
        everything.take(train),
        everything.take(test),
        tuple(classes),
        flip=False,  # a mirrored letter or a left hand is another thing: only the user knows
        padding=image_size // 8,
        notes=tuple(notes),
    )


def read_image(path: str | os.PathLike[str], size: int | tuple[int, int], channels: int) -> np.ndarray:
    """One image file as uint8 [height, width, channels], whatever its own size and colours."""
    if channels not in (1, 3):
        raise UraenasError(f"an image file cannot become {channels} channels; allowed: 1 (grey) or 3 (RGB)")
    height, width = (size, size) if isinstance(size, int) else size
    with _bombs_are_errors():
        picture = _read(Path(path), height, width)
    if isinstance(picture, str):
        raise UraenasError(f"{path} cannot be read as an image: {picture}")
    if channels == 3:
        return picture.pixels
    return np.array(Image.fromarray(picture.pixels).convert("L"))[..., None]


def images_below(folder: Path) -> tuple[list[Path], list[Path]]:
    """All files with the ending of an image, and all others; hidden ones are neither."""
    files = sorted(_files_below(folder))
    images = [file for file in files if file.suffix.lower() in ENDINGS]
    return images, [file for file in files if file.suffix.lower() not in ENDINGS]


def notes_on_left_out(files: int) -> list[str]:
    """What a user should know of files that are no images."""
    those = "1 file" if files == 1 else f"{files} files"
    return [f"{those} without the ending of an image left out"] if files else []


def no_image_in(where: str, others: Sequence[Path]) -> UraenasError:
    """The error for a place where all files, if there are any, have other endings."""
    if not others:
        return UraenasError(f"{where} holds no files")
    known = " ".join(sorted(ENDINGS))
    return UraenasError(
        f"{where} holds {len(others)} files, such as {others[0].name}, but no image; known: {known}"
    )


def _is_divided(path: Path) -> bool:
    """Whether there is a train and a test part. A class may be called `train`; a part has sub-folders."""
    if not path.is_dir():
        raise UraenasError(f"{path} is not a folder")
    train, test = (any(_folders(path / part)) for part in ("train", "test"))
    if train and not test:
        raise UraenasError(f"{path} has a train part with classes but no test part: add {path / 'test'}")
    return train and test


def _folders(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(item for item in path.iterdir() if item.is_dir() and not item.name.startswith("."))


def _find_images(
    path: Path, allowed: Sequence[str] | None = None
) -> tuple[list[tuple[str, Path]], list[str], int]:
    """All (class, image file), the classes, and how many other files there are."""
    folders = list(_folders(path))
    if not folders:
        raise UraenasError(f"{path} has no sub-folders; needed: one per class, with its images in it")
    found, ignored = [], 0
    for folder in folders:
        if allowed is not None and folder.name not in allowed:
            raise UraenasError(
                f"{folder} is a class that the training part lacks; allowed: {', '.join(allowed)}"
            )
        images, others = images_below(folder)
        if not images:
            raise no_image_in(str(folder), others)
        ignored += len(others)
        found += [(folder.name, image) for image in images]
    return found, [folder.name for folder in folders], ignored


def _files_below(folder: Path) -> Iterator[Path]:
    """All files but hidden ones. Links are followed, each folder once, so that a circle of links ends."""
    seen = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _read_all(files: list[Path], size: int) -> list[_Picture]:
    """Every picture in turn, decoded on all cores; one error names those that cannot be read."""
    with _bombs_are_errors(), ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda file: _read(file, size, size), files))
    bad = [
        f"{file} ({result})" for file, result in zip(files, results, strict=True) if isinstance(result, str)
    ]
    if bad:
        more = f" and {len(bad) - NAMED_FILES} more" if len(bad) > NAMED_FILES else ""
        raise UraenasError(
            f"{len(bad)} of {len(files)} images cannot be read: {', '.join(bad[:NAMED_FILES])}{more}. "
            "Mend or remove them: nothing is left out silently."
        )
    return [result for result in results if isinstance(result, _Picture)]


@contextmanager
def _bombs_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _read(path: Path, height: int, width: int) -> _Picture | str:
    """The picture, or in a few words why there is none."""
    try:
        with open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                return f"{image.width}×{image.height} pixels are more than {MOST_PIXELS}"
            stretched = image.width * height != image.height * width
            large = image.width * image.height > LARGE
            # A JPEG can be decoded at a fraction of its size: much faster, and still twice as fine as needed.
            image.draft(None, (2 * width, 2 * height))
            with ONE_LARGE if large else nullcontext():
                ImageOps.exif_transpose(image, in_place=True)
                resized = _as_rgb(image).resize((width, height), Image.Resampling.BILINEAR)
        return _Picture(np.array(resized), stretched)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return f"more than {MOST_PIXELS} pixels"
    except Exception as error:  # Pillow's decoders raise a dozen kinds on hostile bytes
        return " ".join(str(error).split())[:100] or type(error).__name__


def _as_rgb(image: Image.Image) -> Image.Image:
    """Eight bits, three colours; transparent parts become white, of an animation the first picture stays."""
    if image.mode.startswith(("I", "F")):  # a camera may use 12 of 16 bits, and would come out nearly black
        bits = "16-bit" if image.mode.startswith("I;16") else "16- or 32-bit"
        raise UraenasError(f"{bits} grey has no stated range; save it with 8 bits")
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        return _on_white(image)
    return image if image.mode == "RGB" else image.convert("RGB")


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


def _stacked(pictures: list[np.ndarray]) -> np.ndarray:
    images = np.stack(pictures)
    grey = (images[..., :1] == images).all()
    return images[..., :1].copy() if grey else images
