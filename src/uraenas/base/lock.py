"""One process at a time in a directory. Knows nothing of runs, so it is here."""

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from uraenas.base.errors import UraenasError


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold a directory while working in it; another process is told who does. What a killed one left is removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("a+")
    except OSError as error:
        raise UraenasError(f"cannot use {folder}: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system frees it when its holder dies
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise UraenasError(
                f"{folder} is in use by {holder}; wait for it or choose another directory (--out)"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n")
        file.flush()
        for unfinished in folder.rglob(".*.tmp"):
            if not unfinished.is_dir():
                unfinished.unlink(missing_ok=True)
        yield
