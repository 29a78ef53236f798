"""CIFAR-10 and CIFAR-100 from their official files, in the python and in the binary layout."""

import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.closed_pickle import read_pickle
from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.files import CHUNK, Damaged, blaming, get_again, open_limited

PIXELS = 3 * 32 * 32
MOST_BYTES = 1 << 30  # the official archives unpack to less than a fifth of this
MOST_MEMBERS = 1000

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR100_NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
    lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
    pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal
    shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
    telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(_CIFAR100_NAMES.split())


@dataclass(frozen=True)
class Layout:
    """The files of one official archive."""

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    binary: bool

    @property
    def files(self) -> tuple[str, ...]:
        """All names that are read; the rest of the archive is left alone."""
        return (*self.train, *self.test)


@dataclass(frozen=True)
class Cifar:
    """One of the two datasets."""

    name: str
    classes: tuple[str, ...]
    label_key: str  # in the python layout
    label_bytes: int  # before each image of the binary layout; the last of them is the label
    layouts: tuple[Layout, ...]
    images_per_train_file: int
    images_per_test_file: int = 10_000


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
CIFAR10 = Cifar(
    name="cifar10",
    classes=CIFAR10_CLASSES,
    label_key="labels",
    label_bytes=1,
    layouts=(
        Layout("cifar-10-batches-py", _BATCHES, ("test_batch",), binary=False),
        Layout(
            "cifar-10-batches-bin", tuple(f"{one}.bin" for one in _BATCHES), ("test_batch.bin",), binary=True
        ),
    ),
    images_per_train_file=10_000,
)
CIFAR100 = Cifar(
    name="cifar100",
    classes=CIFAR100_CLASSES,
    label_key="fine_labels",
    label_bytes=2,
    layouts=(
        Layout("cifar-100-python", ("train",), ("test",), binary=False),
        Layout("cifar-100-binary", ("train.bin",), ("test.bin",), binary=True),
    ),
    images_per_train_file=50_000,
)


def load_cifar(path: str | os.PathLike[str], kind: Cifar = CIFAR10) -> Dataset:
    """The dataset in an official archive (.tar.gz, or .tar) or in a folder with its unpacked files."""
    path = Path(path)
    with blaming(path, get_again(kind.name)):
        layout, contents = (_from_folder if path.is_dir() else _from_archive)(path, kind)
        train = _read_files(path, kind, layout, contents, training=True)
        test = _read_files(path, kind, layout, contents, training=False)
    return Dataset(kind.name, train, test, kind.classes, flip=True, padding=4)


def is_cifar_folder(path: Path, kind: Cifar) -> bool:
    """Whether any official file of this dataset lies in the folder or in its official sub-folder.

    CIFAR-100's plain names, `train` and `test`, count only inside a folder of the official name: other
    folders have them too.
    """
    for layout in kind.layouts:
        names = [name for name in layout.files if name not in ("train", "test") or path.name == layout.folder]
        if any((path / name).is_file() for name in names) or (path / layout.folder).is_dir():
            return True
    return False


def _from_folder(path: Path, kind: Cifar) -> tuple[Layout, dict[str, bytes]]:
    best: tuple[Path, Layout, list[str]] | None = None
    for layout in kind.layouts:
        for folder in (path, path / layout.folder):
            missing = [name for name in layout.files if not (folder / name).is_file()]
            if best is None or len(missing) < len(best[2]):
                best = folder, layout, missing
    assert best is not None
    folder, layout, missing = best
    _require_all(path, kind, missing)
    contents = {}
    for name in layout.files:
        with open_limited(folder / name, MOST_BYTES) as file:
            contents[name] = file.read()
    return layout, contents


def _from_archive(path: Path, kind: Cifar) -> tuple[Layout, dict[str, bytes]]:
    """The known members, straight into memory: no name in the archive ever becomes a path on the disk."""
    wanted = {f"{layout.folder}/{name}": layout for layout in kind.layouts for name in layout.files}
    found: dict[Layout, dict[str, bytes]] = {layout: {} for layout in kind.layouts}
    with (
        open_limited(path, MOST_BYTES) as stream,
        tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as archive,
    ):
        for count, member in enumerate(archive):
            if count == MOST_MEMBERS:
                raise UraenasError(f"{path} has more than {MOST_MEMBERS} members. {get_again(kind.name)}")
            name = str(PurePosixPath(member.name))
            if name not in wanted or not member.isreg() or member.size > MOST_BYTES:
                continue
            file = archive.extractfile(member)
            assert file is not None  # it is for regular files
            found[wanted[name]][PurePosixPath(name).name] = file.read()
        while stream.read(CHUNK):
            pass  # tar ends before gzip's checksum, which is compared only when all is read
    layout = max(found, key=lambda candidate: len(found[candidate]))
    _require_all(path, kind, [name for name in layout.files if name not in found[layout]])
    return layout, found[layout]


def _require_all(path: Path, kind: Cifar, missing: Sequence[str]) -> None:
    if missing:
        raise UraenasError(f"{path} lacks {', '.join(missing)} of {kind.name}. {get_again(kind.name)}")


def _read_files(
    path: Path, kind: Cifar, layout: Layout, contents: dict[str, bytes], training: bool
) -> LabelledImages:
    read = read_binary if layout.binary else read_python
    expected = kind.images_per_train_file if training else kind.images_per_test_file
    parts = []
    for name in layout.train if training else layout.test:
        with blaming(f"{path}: {name}", get_again(kind.name)):
            images, labels = read(contents.pop(name), kind)  # popped: its memory is free for the next
            if len(images) != expected:
                raise Damaged(f"it holds {len(images)} images instead of {expected}")
        parts.append((images, labels))
    images, labels = (np.concatenate(both) for both in zip(*parts, strict=True))
    return LabelledImages(images, labels)


def read_binary(data: bytes, kind: Cifar) -> tuple[np.ndarray, np.ndarray]:
    """The images [N, 32, 32, 3] and labels [N] of a file in the binary layout."""
    record = kind.label_bytes + PIXELS
    if len(data) == 0 or len(data) % record:
        raise Damaged(f"its {len(data)} bytes are not a whole number of records of {record}: it is truncated")
    rows = np.frombuffer(data, np.uint8).reshape(-1, record)
    return _as_pictures(rows[:, kind.label_bytes :]), _checked_labels(rows[:, kind.label_bytes - 1], kind)


def read_python(data: bytes, kind: Cifar) -> tuple[np.ndarray, np.ndarray]:
    """The images [N, 32, 32, 3] and labels [N] of a file in the python layout."""
    content = read_pickle(data)
    pixels, labels = content.get("data"), content.get(kind.label_key)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise Damaged(f"its `data` is not a uint8 array of N×{PIXELS}")
    if isinstance(labels, list) and all(type(label) is int and 0 <= label < 256 for label in labels):
        labels = np.array(labels, np.uint8)
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu" or labels.shape != (len(pixels),):
        raise Damaged(f"its `{kind.label_key}` are not {len(pixels)} integers")
    return _as_pictures(pixels), _checked_labels(labels, kind)


def _as_pictures(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _checked_labels(labels: np.ndarray, kind: Cifar) -> np.ndarray:
    if len(labels) and (labels.min() < 0 or labels.max() >= len(kind.classes)):
        raise Damaged(
            f"its labels reach from {labels.min()} to {labels.max()}; allowed: 0 … {len(kind.classes) - 1}"
        )
    return labels.astype(np.int64)
