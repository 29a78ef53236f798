"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from uraenas.base.errors import UraenasError
from uraenas.base.regular_files import require_regular


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name only when all of it is on the disk; nothing stays behind otherwise.

    A link, a folder or a device that has the name is refused, not replaced.
    """
    require_regular(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    name = unfinished(path)
    try:
        with writing(path):
            with open(name, "xb") as file:
                yield file
                flush_to_disk(file)
            rename_for_good(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def unfinished(path: Path) -> Path:
    """The name that something has until it is whole; a name may be as long as the system allows."""
    return path.with_name(f".{path.name[:50]}.{secrets.token_hex(4)}.tmp")


def remove_unfinished(folder: Path, *, below: bool = False) -> None:
    """Remove what a kill or a power cut left half-written in a folder, and in those below it."""
    for path in (folder.rglob if below else folder.glob)(".*.tmp"):
        if not path.is_dir():
            path.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A full disk or a read-only folder is told in one line."""
    try:
        yield
    except OSError as error:
        raise UraenasError(f"cannot write {path}: {error.strerror or error}") from error


def flush_to_disk(file: BinaryIO) -> None:
    """What was written survives a power cut."""
    file.flush()
    os.fsync(file.fileno())


def rename_for_good(source: Path, target: Path) -> None:
    """The new name survives a power cut."""
    os.replace(source, target)
    flush_folder(target.parent)


def flush_folder(path: Path) -> None:
    """The names in a folder survive a power cut, where the system can flush folders."""
    try:
        folder = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Windows does not open folders
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
