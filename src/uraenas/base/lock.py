"""One process at a time in a directory. Knows nothing of runs, so it is here."""

import fcntl
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from uraenas.base.errors import UraenasError
from uraenas.base.regular_files import append_to_regular
from uraenas.base.whole_files import flush_to_disk, remove_unfinished

OURS = b"process "


@contextmanager
def hold(folder: Path) -> Iterator[Callable[[], None]]:
    """Hold a directory while working in it; another process is told who does. What a killed one left is removed.

    Gives a function that refuses to go on where the directory is no longer the one that is held.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = append_to_regular(folder / "lock")
    except OSError as error:
        raise UraenasError(f"cannot use {folder}: {error.strerror or error}") from error
    with file:
        try:
            # The system frees it when its holder dies.
            lock(file, folder / "lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read(200).decode(errors="replace").strip() or "another process"
            raise UraenasError(
                f"{folder} is in use by {holder}; wait for it or choose another directory (--out)"
            ) from error
        file.seek(0)
        if (found := file.read(200)) and not found.startswith(OURS):
            raise UraenasError(
                f"{folder / 'lock'} is a file of another kind; choose another directory (--out)"
            )
        file.truncate(0)
        file.write(OURS + f"{os.getpid()} on {platform.node()}\n".encode())
        flush_to_disk(file)
        remove_unfinished(folder, below=True)
        held = os.fstat(file.fileno())

        def require_here() -> None:
            try:
                if os.path.samestat(held, os.stat(folder / "lock")):
                    return
            except OSError:
                pass
            raise UraenasError(
                f"{folder} was moved or removed while it was worked in, or its lock was; the same command goes on "
                "where it lies now (--out)"
            )

        yield require_here


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a directory, made where it is not there, without leaving a file in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UraenasError(f"cannot use {folder}: {error.strerror or error}") from error
    try:
        lock(handle, folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UraenasError(
            f"another process is writing to {folder}; wait for it, or choose another"
        ) from error
    finally:
        os.close(handle)


def lock(file: BinaryIO | int, path: Path, how: int) -> None:
    """Lock an open file; BlockingIOError where another holds it. Where there are no locks, it is told in one line."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        raise
    except OSError as error:
        raise UraenasError(
            f"cannot lock {path}: {error.strerror or error}; its file system cannot keep two commands apart, so choose "
            "a directory on another"
        ) from error
