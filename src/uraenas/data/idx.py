"""MNIST, Fashion-MNIST and whatever else comes as idx files, plain or gzipped."""

import math
import os
from pathlib import Path

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.files import Damaged, blaming, get_again, open_limited

MNIST_CLASSES = tuple("0123456789")
FASHION_MNIST_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
UNSIGNED_BYTES = 8  # the idx code of the only type that image files use
MOST_BYTES = 1 << 30
FILES = {  # by part: how the names of its images begin, and of its labels
    "train": ("train-images", "train-labels"),
    "test": ("t10k-images", "t10k-labels"),
}


def load_idx(
    folder: str | os.PathLike[str],
    name: str = "mnist",
    classes: tuple[str, ...] = MNIST_CLASSES,
    flip: bool = False,
) -> Dataset:
    """The dataset in a folder with train-images-idx3-ubyte and its three companions, each plain or .gz."""
    folder = Path(folder)
    mend = get_again(name)
    parts = {}
    for part, (images, labels) in FILES.items():
        pictures = read_idx(_find(folder, images, 3, mend), 3, mend)[..., None]
        answers = read_idx(_find(folder, labels, 1, mend), 1, mend).astype(np.int64)
        if len(pictures) != len(answers):
            raise UraenasError(
                f"{folder}: {images} has {len(pictures)} images, {labels} {len(answers)} labels. {mend}"
            )
        parts[part] = LabelledImages(pictures, answers)
    return Dataset(name, parts["train"], parts["test"], classes, flip=flip, padding=2)


def is_idx_folder(folder: Path) -> bool:
    """Whether the training images of an idx dataset lie here."""
    return any(path.is_file() for path in _spellings(folder, FILES["train"][0], 3))


def read_idx(path: Path, axes: int, mend: str = "") -> np.ndarray:
    """The unsigned bytes of an idx file with this many axes."""
    with blaming(path, mend):
        with open_limited(path, MOST_BYTES) as file:
            data = file.read()
        return parse_idx(data, axes)


def parse_idx(data: bytes, axes: int) -> np.ndarray:
    """The array in an idx file's bytes: two zeros, a type, the number of axes, their sizes, the values."""
    if len(data) < 4 + 4 * axes or data[:4] != bytes((0, 0, UNSIGNED_BYTES, axes)):
        raise Damaged(f"it does not begin like an idx file of unsigned bytes with {axes} axes")
    shape = tuple(np.frombuffer(data, ">u4", axes, offset=4).tolist())
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * axes)
    if math.prod(shape) != len(values) or len(values) == 0:
        raise Damaged(f"its header promises {shape}, but {len(values)} values follow")
    return values.reshape(shape).copy()  # the copy may be written to


def _spellings(folder: Path, beginning: str, axes: int) -> list[Path]:
    return [
        folder / f"{beginning}{separator}idx{axes}-ubyte{ending}"
        for separator in "-."
        for ending in ("", ".gz")
    ]


def _find(folder: Path, beginning: str, axes: int, mend: str) -> Path:
    found = next((path for path in _spellings(folder, beginning, axes) if path.is_file()), None)
    if found is None:
        raise UraenasError(f"{folder} lacks {beginning}-idx{axes}-ubyte (or .gz). {mend}")
    return found
