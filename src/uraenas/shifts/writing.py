"""All there is of processes: a suite is written in parallel, restartable, each file whole or not there."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

import numpy as np

from uraenas.base.cores import available_cores
from uraenas.base.errors import UraenasError
from uraenas.base.whole_files import remove_unfinished, whole_file
from uraenas.shifts.layout import map_array, part_name, remedy
from uraenas.shifts.manifest import Manifest, library_versions, sha256_of, write_array
from uraenas.shifts.table import RELEASE, SEVERITIES, corrupt, suited

PART_BLOCK = 1000  # images a worker holds at once

Progress = Callable[[str, int, int], None]  # what was finished, how many parts are done, of how many
Task = tuple[str, int]  # corruption, severity


class Made(NamedTuple):
    """A part that has just been written."""

    name: str
    severity: int
    md5: str


def write_suite(
    images: np.ndarray,
    labels: np.ndarray,
    out: Path | str,
    only: Sequence[str] | None = None,
    severities: Sequence[int] = SEVERITIES,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, str]:
    """Write the corruptions of these images to a folder, on all cores; returns the md5 of each of its files.

    What is there and whole is kept, so the same call goes on where a killed one stopped. Fewer than five
    severities are kept as parts (see `layout.py`) until the others join them.
    """
    names = tuple(dict.fromkeys(only)) if only else suited(RELEASE, images.shape[-1])
    wanted = sorted(set(severities))
    if len(images) == 0 or not wanted or labels.shape != (len(images),):
        raise UraenasError(
            f"a suite needs images, one label each, and a severity, not {len(images)} images, "
            f"labels {labels.shape} and severities {wanted}"
        )
    for name in names:  # a missing library or an unfit image is found now rather than after minutes of work
        for severity in wanted:
            corrupt(images[:1], name, severity, seed)
    writer = SuiteWriter(images, Path(out), seed)
    writer.write_labels(labels)
    writer.write_parts([(name, severity) for name in names for severity in wanted], workers, progress)
    return {name: entry["md5"] for name, entry in sorted(writer.manifest.files.items())}


class SuiteWriter:
    """A folder and its manifest, kept in step.

    A whole file is noted before it takes its name: one that is there and not noted is somebody else's. A part
    is noted after: one that is not noted is made again.
    """

    def __init__(self, images: np.ndarray, folder: Path, seed: int) -> None:
        self.images, self.folder, self.parts = images, folder, folder / "parts"
        self.libraries = library_versions()
        mine, found = Manifest(seed, sha256_of(images)), Manifest.load(folder)
        if found and (found.seed, found.images_sha256) != (mine.seed, mine.images_sha256):
            raise UraenasError(
                f"{folder} holds a suite of other images or another seed (there {found.seed}, here {seed}); "
                "choose another folder"
            )
        self.manifest = found or mine
        for place in (self.folder, self.parts):
            remove_unfinished(place)

    def write_labels(self, labels: np.ndarray) -> None:
        """The labels, once for each severity, as bytes where they fit: the release's type."""
        fit = labels.min() >= 0 and labels.max() < 256
        repeated = np.tile(labels.astype(np.uint8 if fit else np.int64), len(SEVERITIES))
        if not self._is_done("labels.npy"):
            self._write_whole("labels.npy", repeated.shape, repeated.dtype, iter([repeated]))
        elif not np.array_equal(map_array(self.folder / "labels.npy"), repeated):
            raise UraenasError(f"{self.folder} holds a suite with other labels; choose another folder")

    def write_parts(self, tasks: Sequence[Task], workers: int | None, progress: Progress | None) -> None:
        """Make the parts that are missing, and join those of a corruption as soon as all five are there."""
        names = dict.fromkeys(name for name, _ in tasks)
        unfinished = [name for name in names if not self._is_done(f"{name}.npy")]
        every = [part_name(name, severity) for name in unfinished for severity in SEVERITIES]
        ready = {part for part in every if self._has_part(part)}
        todo = [task for task in tasks if task[0] in unfinished and part_name(*task) not in ready]
        shared = self.parts / "images.npy"  # workers map this file instead of each being sent the images
        self.parts.mkdir(parents=True, exist_ok=True)
        for name in names:  # a kill may have come between the last part and its joining or removal
            self._join(name, ready) if name in unfinished else self._remove_parts(name)
        try:
            with whole_file(shared) as file:
                np.save(file, self.images)
            for done, made in enumerate(_make_parts(shared, todo, self.manifest.seed, workers), start=1):
                ready.add(part := part_name(made.name, made.severity))
                self.manifest.record(self.folder, part, made.md5, self.libraries)
                self._join(made.name, ready)
                if progress:
                    progress(f"{made.name} {made.severity}", len(tasks) - len(todo) + done, len(tasks))
        finally:
            shared.unlink(missing_ok=True)
        if not any(self.parts.iterdir()):
            self.parts.rmdir()

    def _is_done(self, name: str) -> bool:
        """Whether a whole file is there. One that is not as noted may be the user's: it is not written over."""
        path = self.folder / name
        if path.exists() and name not in self.manifest.files:
            raise UraenasError(f"{path} is there but was not made here; choose another folder")
        if path.exists() and not self.manifest.holds(self.folder, name):
            raise UraenasError(f"{path} has another checksum than manifest.json says; {remedy(path)}")
        return path.exists()

    def _has_part(self, part: str) -> bool:
        """Whether a part is whole and made by these very libraries: a file does not mix two versions."""
        noted = self.manifest.files.get(part)
        return (
            noted is not None
            and noted["libraries"] == self.libraries
            and self.manifest.holds(self.folder, part)
        )

    def _join(self, name: str, ready: set[str]) -> None:
        """One file of a corruption's five parts, which are then removed; nothing while one is missing."""
        parts = [part_name(name, severity) for severity in SEVERITIES]
        if not ready.issuperset(parts):
            return
        shape = (len(SEVERITIES) * len(self.images), *self.images.shape[1:])
        severities = (map_array(self.folder / part) for part in parts)
        self._write_whole(f"{name}.npy", shape, np.dtype(np.uint8), severities)
        self._remove_parts(name)

    def _remove_parts(self, name: str) -> None:
        parts = [part_name(name, severity) for severity in SEVERITIES]
        if noted := [part for part in parts if self.manifest.files.pop(part, None)]:
            self.manifest.save(self.folder)
        for part in noted:
            (self.folder / part).unlink(missing_ok=True)

    def _write_whole(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterator[np.ndarray]
    ) -> None:
        with whole_file(self.folder / name) as file:
            md5 = write_array(file, shape, dtype, blocks)
            self.manifest.record(self.folder, name, md5, self.libraries)


def _make_parts(images: Path, tasks: Sequence[Task], seed: int, workers: int | None) -> Iterator[Made]:
    """Make each part; yields them as they are finished."""
    workers = min(workers or available_cores(), len(tasks))
    if workers <= 1:
        yield from (_make_part(images, name, severity, seed) for name, severity in tasks)
        return
    # Forking a process that runs PyTorch's or OpenCV's threads can hang; a fresh interpreter cannot.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        futures = [pool.submit(_make_part, images, name, severity, seed) for name, severity in tasks]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise UraenasError(
            "a worker died, perhaps for want of memory; the same call goes on from here"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Let a worker go when its parent goes, also when that is killed, and say nothing at Ctrl-C."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=follow, daemon=True).start()


def _make_part(images_path: Path, name: str, severity: int, seed: int) -> Made:
    images = np.load(images_path, mmap_mode="r", allow_pickle=False)
    starts = range(0, len(images), PART_BLOCK)
    blocks = (corrupt(np.asarray(images[i : i + PART_BLOCK]), name, severity, seed, i) for i in starts)
    with whole_file(images_path.parent.parent / part_name(name, severity)) as file:
        md5 = write_array(file, images.shape, images.dtype, blocks)
    return Made(name, severity, md5)
