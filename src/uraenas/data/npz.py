"""Datasets in one .npz file, read without pickle and within limits."""

import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from uraenas.base.errors import UraenasError
from uraenas.base.regular_files import open_regular
from uraenas.base.whole_files import whole_file
from uraenas.data.arrays import as_images, require_clear_range
from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.files import Damaged, blaming
from uraenas.data.splits import stratified_split

SPLIT_KEY = 8109  # a constant, so that every run on a file without a test part has the same test images
TEST_FRACTION = 0.2

SPELLINGS = (  # part → the keys of its images and labels
    {"train": ("x_train", "y_train"), "test": ("x_test", "y_test"), "validation": ("x_val", "y_val")},
    {
        "train": ("images", "labels"),
        "test": ("test_images", "test_labels"),
        "validation": ("val_images", "val_labels"),
    },
    {"train": ("X", "y"), "test": ("X_test", "y_test"), "validation": ("X_val", "y_val")},
)
UNNAMED = "arr_0"  # what numpy.savez calls an array without a name
MOST_BYTES = 8 << 30
MOST_EXPANSION = 200  # beyond SMALL_BYTES: photographs never pack as tightly as a zip bomb
SMALL_BYTES = 256 << 20
MEND = "Write it again with numpy.savez(path, x_train=…, y_train=…, x_test=…, y_test=…)."


def load_npz(
    path: str | os.PathLike[str],
    value_range: tuple[float, float] | None = None,
    channels: str = "auto",
    mend: str = MEND,
) -> Dataset:
    """The dataset in an .npz file with x_train, y_train, x_test, y_test, x_val, y_val; SPELLINGS has all keys.

    Without a test part, a fifth of each class becomes one. A validation part, if there is one, is held out. Labels
    are integers or strings; a key `classes`, if there is one, names the labels 0 … K-1. `mend` is what a message
    about a damaged file advises.
    """
    path = Path(path)
    known = {key for spelling in SPELLINGS for keys in spelling.values() for key in keys} | {"classes"}
    arrays, others = read_npz(path, known, mend)
    spelling = _spelling(path, arrays, others)
    coder = _LabelCoder(path, _vector(path, arrays[spelling["train"][1]]), arrays.get("classes"))
    parts = {
        part: _part(path, coder, arrays[images], arrays[labels], value_range, channels)
        for part, (images, labels) in spelling.items()
        if images in arrays
    }
    notes = [f"ignored in {path.name}: {', '.join(others[:8])}"] if others else []
    train, test = parts["train"], parts.get("test")
    if test is None:
        fractions = [1 - TEST_FRACTION, TEST_FRACTION]
        kept, tested = stratified_split(train.labels, fractions, SPLIT_KEY, coder.classes)
        train, test = train.take(kept), train.take(tested)
        notes.append(f"{path.name} has no test part: {len(test)} of its images, stratified, became one")
    padding, validation = min(train.images.shape[1:3]) // 8, parts.get("validation")
    return Dataset(path.stem, train, test, coder.classes, False, padding, tuple(notes), validation)


def _spelling(
    path: Path, arrays: Mapping[str, np.ndarray], others: Sequence[str]
) -> Mapping[str, tuple[str, str]]:
    """The one that a file keeps to."""
    spelling = next((one for one in SPELLINGS if all(key in arrays for key in one["train"])), None)
    if spelling is None:
        found = ", ".join(sorted([*arrays, *others])[:8]) or "nothing"
        raise UraenasError(
            f"{path} holds {found}; needed: x_train and y_train, or images and labels, or X and y"
        )
    keys = [key for pair in spelling.values() for key in pair]
    if strays := sorted(arrays.keys() - {*keys, "classes"}):
        raise UraenasError(
            f"{path} has {', '.join(strays)} beside {keys[0]}; a file keeps to one spelling: {', '.join(keys)}"
        )
    for images, labels in spelling.values():
        if (images in arrays) != (labels in arrays):
            raise UraenasError(f"{path}: {images} and {labels} must be there both or not at all")
    return spelling


def read_npz_images(path: Path) -> np.ndarray:
    """All images in an .npz file, of whatever part, [N, H, W, C]; labels need not be there."""
    keys = [images for spelling in SPELLINGS for images, _ in spelling.values()]
    arrays, others = read_npz(path, {*keys, UNNAMED})
    found = [as_images(arrays[key]) for key in (*keys, UNNAMED) if key in arrays]
    if not found:
        raise UraenasError(f"{path} holds {', '.join(others[:8]) or 'nothing'}; needed: images, x_train or X")
    if len({(part.shape[1:], part.dtype) for part in found}) > 1:
        raise UraenasError(f"{path} holds images of different forms; they must agree")
    return np.concatenate(found)


def save_npz(path: Path, dataset: Dataset) -> None:
    """Writes what `load_npz` reads; the file appears whole or not at all."""
    parts = {"train": dataset.train, "test": dataset.test, "validation": dataset.validation}
    arrays: dict[str, Any] = {}
    for part, (images, labels) in SPELLINGS[0].items():
        if (own := parts[part]) is not None:
            arrays |= {images: own.images, labels: own.labels}
    with whole_file(path) as file:
        np.savez(file, **arrays, classes=np.array(dataset.classes))


def read_npz(path: Path, keys: set[str], mend: str = MEND) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays under these keys, and the names of the others, which are not read."""
    with blaming(path, mend), open_regular(path) as file, zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        wanted = {key: info for key, info in members.items() if key in keys}
        _refuse_bombs(path, wanted)
        arrays = {key: _read_npy(key, archive.read(info)) for key, info in wanted.items()}
        return arrays, sorted(set(members) - set(wanted))


def _refuse_bombs(path: Path, members: Mapping[str, zipfile.ZipInfo]) -> None:
    unpacked = sum(info.file_size for info in members.values())
    packed = path.stat().st_size
    if unpacked > MOST_BYTES or (unpacked > SMALL_BYTES and unpacked > MOST_EXPANSION * packed):
        raise UraenasError(
            f"{path} would grow from {packed} to {unpacked} bytes; allowed: {MOST_BYTES} bytes in all, and "
            f"{MOST_EXPANSION} times its own size. Write it with numpy.savez, or make it smaller."
        )


def _read_npy(name: str, data: bytes) -> np.ndarray:
    """One array. The header is checked against the data before anything is allocated by its word."""
    stream = BytesIO(data)
    version = npy.read_magic(stream)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise Damaged(f"{name} is in npy version {version}; allowed: 1.0 and 2.0")
    shape, _, dtype = readers[version](stream)
    if dtype.kind not in "buifUS":
        raise Damaged(f"{name} holds {dtype} values; allowed: numbers and, for labels, strings")
    if (
        dtype.itemsize == 0
        or min(shape, default=0) < 0
        or math.prod(shape) * dtype.itemsize != len(data) - stream.tell()
    ):
        raise Damaged(f"{name} is truncated: its header promises {shape} {dtype}")
    stream.seek(0)
    return npy.read_array(stream, allow_pickle=False)


def _vector(path: Path, labels: np.ndarray) -> np.ndarray:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iuUS":
        raise UraenasError(
            f"{path}: labels of shape {labels.shape} {labels.dtype} are not allowed; "
            "allowed: one integer or string per image"
        )
    return labels.astype(str) if labels.dtype.kind == "S" else labels


class _LabelCoder:
    """Labels as the file has them → 0 … K-1."""

    def __init__(self, path: Path, train_labels: np.ndarray, classes: np.ndarray | None) -> None:
        self.path = path
        self.values = np.unique(train_labels)
        if classes is None:
            self.classes = tuple(str(value) for value in self.values)
            return
        if classes.ndim != 1 or classes.dtype.kind not in "US" or train_labels.dtype.kind not in "iu":
            raise UraenasError(f"{path}: `classes` must be names, and the labels integers that point at them")
        self.classes = tuple(str(name) for name in classes.astype(str))
        self.values = np.arange(len(self.classes), dtype=np.int64)

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        strangers = labels[~np.isin(labels, self.values)]
        if len(strangers):
            raise UraenasError(
                f"{self.path}: label {strangers[0]!s} is not among its {len(self.classes)} classes"
            )
        return np.searchsorted(self.values, labels).astype(np.int64)


def _part(
    path: Path,
    coder: _LabelCoder,
    images: np.ndarray,
    labels: np.ndarray,
    value_range: tuple[float, float] | None,
    channels: str,
) -> LabelledImages:
    vector = _vector(path, labels)
    if len(vector) != len(images):
        raise UraenasError(f"{path}: {len(images)} images and {len(vector)} labels do not match")
    found = as_images(images, value_range, channels)
    require_clear_range(found, value_range)
    return LabelledImages(found, coder(vector))
