"""A suite on disk in the release's layout: write it, check it, stream it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.shifts.layout import RELEASE_MD5, Part, loose_parts, map_array, read_rows, remedy
from uraenas.shifts.manifest import Manifest, md5_of
from uraenas.shifts.table import SEVERITIES, SHIFTS
from uraenas.shifts.writing import Progress, write_suite

__all__ = ["FileState", "Progress", "Suite", "check_suite", "open_suite", "write_suite"]

FileState = Literal["identical", "regenerated", "unknown"]


@dataclass(frozen=True)
class Suite:
    """Streams (corruption, severity, images [N, H, W, C]) read from disk; the labels belong to each."""

    labels: np.ndarray  # [N], int64
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[tuple[str, int, np.ndarray]]:
        for part in self.parts:
            yield part.corruption, part.severity, read_rows(part.path, part.start, len(self.labels))


def open_suite(folder: Path | str) -> Suite:
    """The suite in a folder, ours or the official one, after a look at every file's shape and type."""
    folder = Path(folder)
    labels = _labels(folder)
    whole = {name: path for name in SHIFTS if (path := folder / f"{name}.npy").exists()}
    parts = [Part(n, s, path, (s - 1) * len(labels)) for n, path in whole.items() for s in SEVERITIES]
    parts += [part for part in loose_parts(folder) if part.corruption not in whole]
    if not parts:
        raise _empty(folder)
    for path in dict.fromkeys(part.path for part in parts):
        _check_images(path, len(labels) if path.parent.name == "parts" else len(labels) * len(SEVERITIES))
    return Suite(labels, tuple(parts))


def check_suite(folder: Path | str) -> dict[str, FileState]:
    """For each file of a suite: identical to the release, regenerated (as our manifest says), or unknown."""
    folder = Path(folder)
    manifest = Manifest.load(folder)
    paths = [path for name in ("labels", *SHIFTS) if (path := folder / f"{name}.npy").exists()]
    paths += [part.path for part in loose_parts(folder)]
    if not paths:
        raise _empty(folder)
    for path in paths:
        map_array(path)  # finds a truncated file in no time
    with ThreadPoolExecutor() as pool:  # hashing lets go of Python's lock
        checksums = list(pool.map(md5_of, paths))
    return {
        path.relative_to(folder).as_posix(): _state(path, checksum, folder, manifest)
        for path, checksum in zip(paths, checksums, strict=True)
    }


def _state(path: Path, checksum: str, folder: Path, manifest: Manifest | None) -> FileState:
    name = path.relative_to(folder).as_posix()
    if RELEASE_MD5.get(name) == checksum:
        return "identical"
    if manifest is None or name not in manifest.files:
        return "unknown"
    if manifest.files[name]["md5"] != checksum:
        raise UraenasError(f"{path} has another checksum than manifest.json says; {remedy(path)}")
    return "regenerated"


def _labels(folder: Path) -> np.ndarray:
    path = folder / "labels.npy"
    labels = map_array(path)
    count = len(labels) // len(SEVERITIES) if labels.ndim == 1 else 0
    fit = count > 0 and np.issubdtype(labels.dtype, np.integer)
    if not fit or not np.array_equal(labels, np.tile(labels[:count], len(SEVERITIES))):
        raise UraenasError(f"{path} must hold N labels five times over, not {labels.dtype} {labels.shape}")
    return np.array(labels[:count], np.int64)


def _check_images(path: Path, count: int) -> None:
    images = map_array(path)
    if images.dtype != np.uint8 or images.ndim != 4 or len(images) != count:
        raise UraenasError(f"{path} must be uint8 {count}×H×W×C, not {images.dtype} {images.shape}")


def _empty(folder: Path) -> UraenasError:
    return UraenasError(f"{folder} holds no corruptions; `uraenas corrupt DATASET --out {folder}` makes them")
