"""The table of datasets, and the one door to all of them."""

import os
from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError, unknown, unknown_or_missing
from uraenas.data.cifar import CIFAR10, CIFAR100, Cifar, is_cifar_folder, load_cifar
from uraenas.data.dataset import Dataset
from uraenas.data.digits import digits
from uraenas.data.download import Progress, RemoteFile, download
from uraenas.data.folder import DEFAULT_SIZE, load_folder, read_folder
from uraenas.data.idx import FASHION_MNIST_CLASSES, MNIST_CLASSES, is_idx_folder, load_idx
from uraenas.data.npz import load_npz, read_npz_images, save_npz
from uraenas.data.settings import DataSettings, data_root
from uraenas.data.tables import TableSettings, breast_cancer, diabetes, is_table, load_table


@dataclass(frozen=True)
class Official:
    """A dataset that is published as files, and that lies as NAME.npz under the root once it was fetched."""

    files: tuple[RemoteFile, ...]
    # where the published files may lie under the root instead, the first for downloads
    places: tuple[str, ...]
    read: Callable[[Path], Dataset]
    flip: bool
    padding: int


def _cifar(kind: Cifar, number: int, checksum: str, size: int) -> Official:
    url = f"https://www.cs.toronto.edu/~kriz/cifar-{number}-python.tar.gz"
    places = (
        f"cifar-{number}-python.tar.gz",
        f"cifar-{number}-binary.tar.gz",
        *(layout.folder for layout in kind.layouts),
    )
    return Official((RemoteFile(url, checksum, size),), places, partial(load_cifar, kind=kind), True, 4)


def _idx(
    name: str, classes: tuple[str, ...], flip: bool, host: str, files: tuple[tuple[str, str, int], ...]
) -> Official:
    remote = tuple(RemoteFile(f"{host}/{file}", f"md5:{digest}", size) for file, digest, size in files)
    return Official(remote, (name,), partial(load_idx, name=name, classes=classes, flip=flip), flip, 2)


OFFICIAL: dict[str, Official] = {
    "cifar10": _cifar(CIFAR10, 10, "md5:c58f30108f718f92721af3b95e74349a", 170_498_071),
    "cifar100": _cifar(CIFAR100, 100, "md5:eb9058c3a382ffc7106e4002c42a8d85", 169_001_437),
    "mnist": _idx(
        "mnist",
        MNIST_CLASSES,
        False,
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        (
            ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
            ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28_881),
            ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1_648_877),
            ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4_542),
        ),
    ),
    "fashion-mnist": _idx(
        "fashion-mnist",
        FASHION_MNIST_CLASSES,
        True,
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        (
            ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
            ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        ),
    ),
}
EMBEDDED: dict[str, Callable[[TableSettings], Dataset]] = {  # nothing needs to be fetched for these
    "digits": lambda table: digits(),
    "diabetes": diabetes,
    "breast-cancer": breast_cancer,
}
TABLES = ("diabetes", "breast-cancer")  # of these, what has no images
DATASETS: Mapping[str, Any] = ChainMap[str, Any](OFFICIAL, EMBEDDED)  # both, with what is added to them
# Settings that one kind of data alone has a use for.
OF_ONE_KIND = {
    "folder": ("image_size",),
    ".npz": ("channels", "value_range"),
    "table": ("target", "predict", "leave_out", "weight", "pieces", "apart"),
}


def load_dataset(
    name: str | os.PathLike[str],
    root: str | os.PathLike[str] = "",
    image_size: int | None = None,
    channels: str = "auto",
    value_range: tuple[float, float] | None = None,
    skip_unreadable: bool = False,
    table: TableSettings | None = None,
) -> Dataset:
    """The dataset of this name, or of the table, .npz file, official archive or folder at this path.

    `root` is where named datasets lie. `image_size` and `skip_unreadable` matter to folders of images, `channels`
    and `value_range` to .npz files whose arrays do not speak for themselves, `table` to tables.
    """
    if name in EMBEDDED:
        return EMBEDDED[str(name)](table or TableSettings())
    if name in OFFICIAL:
        return _load_official(str(name), data_root(root))
    path = Path(name).expanduser()
    if path.is_dir():
        return _load_any_folder(path, image_size or DEFAULT_SIZE, skip_unreadable)
    if is_table(path):
        return load_table(path, table or TableSettings())
    if path.suffix == ".npz":
        return load_npz(path, value_range, channels)
    if path.name.endswith((".tar.gz", ".tgz", ".tar")):
        return load_cifar(path, CIFAR100 if "100" in path.name else CIFAR10)
    if path.exists():
        raise UraenasError(
            f"{path} is not a dataset; allowed: a table (.csv, .parquet), an .npz file, a CIFAR archive or a folder"
        )
    raise _missing(str(name), list(DATASETS))


def _missing(name: str, allowed: list[str]) -> UraenasError:
    """That there is no such dataset, nor a folder."""
    folders = [entry.name for entry in Path().iterdir() if entry.is_dir() and entry.name[0] != "."]
    return unknown_or_missing("dataset", name, allowed, folders)


def load_images(
    name: str | os.PathLike[str],
    root: str | os.PathLike[str],
    size: tuple[int, int],
    skip_unreadable: bool,
) -> tuple[str, np.ndarray]:
    """Name and all images [N, H, W, C] of a dataset, of an .npz file, or of a folder with classes or without.

    Labels are not needed. Files in a folder are resized as a whole to this height and width, as for predictions.
    """
    path = Path(name).expanduser()
    if name not in DATASETS and path.is_dir() and not _is_official_folder(path):
        return path.resolve().name, read_folder(path, size, skip_unreadable)
    if name not in DATASETS and path.suffix == ".npz":
        return path.stem, read_npz_images(path)
    if is_table(path) or name in TABLES:
        raise UraenasError(f"{name} is a table; allowed: images, as a dataset, an .npz file or a folder")
    if name not in DATASETS and not path.exists():
        raise _missing(str(name), [one for one in DATASETS if one not in TABLES])
    dataset = load_dataset(name, root)
    return dataset.name, np.concatenate([part.images for part in dataset.parts.values()])


def load_from_settings(settings: DataSettings) -> Dataset:
    """The dataset that the settings name, with their say on flips and padding."""
    dataset = load_dataset(
        settings.name,
        settings.root,
        settings.image_size,
        settings.channels,
        settings.value_limits(),
        settings.skip_unreadable,
        settings.table,
    )
    idle = [f"without effect on {dataset.name}: data.{key}" for key in _idle(settings, dataset)]
    return replace(
        dataset,
        notes=(*dataset.notes, *idle),
        flip=dataset.flip if settings.flip == "auto" else settings.flip == "on",
        padding=dataset.padding if settings.padding < 0 or dataset.columns is not None else settings.padding,
    )


def _idle(settings: DataSettings, dataset: Dataset) -> list[str]:
    """What was set and is of no use to data of this kind."""
    path, usual = Path(settings.name).expanduser(), DataSettings()
    of_files = "" if settings.name in DATASETS else "folder" if path.is_dir() else path.suffix
    kind = of_files if dataset.columns is None else "table"
    others = [key for one, keys in OF_ONE_KIND.items() if one != kind for key in keys]
    return [key for key in others if getattr(settings, key) != getattr(usual, key)]


def fetch_dataset(
    name: str,
    root: str | os.PathLike[str] = "",
    source: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Puts a dataset under the root as NAME.npz, from its official host or from files at hand (`source`).

    What is there already and whole is kept. Downloaded files are removed once the .npz file is on the disk.
    """
    if name in EMBEDDED:
        raise UraenasError(f"{name} is embedded; there is nothing to fetch")
    if name not in OFFICIAL:
        raise unknown("dataset to fetch", name, OFFICIAL)
    official, folder = OFFICIAL[name], data_root(root)
    target = folder / f"{name}.npz"
    if source is not None:
        save_npz(target, official.read(Path(source)))
        return target
    if target.exists():
        with suppress(UraenasError):  # what is damaged is fetched again
            _load_official(name, folder)
            return target
    landing = folder / official.places[0]  # one archive, or a folder of files
    files = [
        download(remote, landing if landing.name == remote.name else landing / remote.name, progress)
        for remote in official.files
    ]
    save_npz(target, official.read(landing))
    for file in files:
        file.unlink()
    if landing.is_dir() and not any(landing.iterdir()):
        landing.rmdir()
    return target


def _load_official(name: str, root: Path) -> Dataset:
    official = OFFICIAL[name]
    if (root / f"{name}.npz").exists():
        dataset = load_npz(root / f"{name}.npz", mend=f"Fetch it again with: uraenas data {name}")
        return replace(dataset, flip=official.flip, padding=official.padding, notes=())
    for place in official.places:
        if (root / place).exists():
            return official.read(root / place)
    raise UraenasError(
        f"{name} is not in {root}. Get it with: uraenas data {name}, "
        f"or from files you have with: uraenas data {name} --from PATH"
    )


def _is_official_folder(path: Path) -> bool:
    return is_cifar_folder(path, CIFAR10) or is_cifar_folder(path, CIFAR100) or is_idx_folder(path)


def _load_any_folder(path: Path, image_size: int, skip_unreadable: bool) -> Dataset:
    for kind in (CIFAR10, CIFAR100):
        if is_cifar_folder(path, kind):
            return load_cifar(path, kind)
    if is_idx_folder(path):
        return load_idx(path, name=path.resolve().name)
    return load_folder(path, image_size, skip_unreadable)
