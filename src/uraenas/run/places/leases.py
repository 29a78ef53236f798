"""Who may write for a unit: a lease has a number, and only the newest counts.

A worker that was given up for dead may live on and write over its successor. So whoever writes holds the lease's file
shared and compares numbers; whoever gives a new lease holds it alone. A check and the write that follows are thus never
parted by a new lease. The file is locked, not replaced: locks are on what a name stands for, not on the name.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from uraenas.base.errors import UraenasError
from uraenas.base.whole_files import remove_unfinished, writing
from uraenas.run.directory import Run

PATIENCE = 30.0  # seconds that a writer may take; one that is stopped in the midst must be ended by hand


class Superseded(BaseException):
    """The work was given to another. Not an Exception: nothing may take it for an error to mend and write on."""


def issue(run: Run, keys: Iterable[str], worker: str) -> dict[str, int]:
    """Give a new lease for each of these; older ones are void from now on."""
    run.require_here()
    return {key: _renew(run.lease_path(key), worker) for key in keys}


def revoke(run: Run) -> None:
    """No lease holds any more; so what is half-written was left by one that was killed, and is removed."""
    folder = run.leases_folder
    for path in folder.rglob("*.lease"):
        _renew(path, "nobody")
        path.unlink(missing_ok=True)
    for written in folder.glob("*"):
        remove_unfinished(run.path / written.name, below=True)
    for empty in sorted((one for one in folder.rglob("*") if one.is_dir()), reverse=True):
        empty.rmdir()
    with suppress(FileNotFoundError):
        folder.rmdir()


def guard(run: Run, leases: Mapping[str, int]) -> Callable[[str], AbstractContextManager[None]]:
    """What a worker's writes go through: the leases of the chain whose file it is, or all."""

    @contextmanager
    def writing_to(file: str) -> Iterator[None]:
        own = [key for key in leases if file.startswith(f"{key}/")]
        with ExitStack() as held:
            for key in own or leases:
                held.enter_context(_held(run.lease_path(key), leases[key]))
            yield

    return writing_to


@contextmanager
def _held(path: Path, number: int) -> Iterator[None]:
    try:
        file = open(path, "rb")  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        raise Superseded(f"{path} is gone") from None
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
        if (newest := _number(file)) != number:
            raise Superseded(f"{path}: lease {number} is void, {newest} was given")
        yield


def _renew(path: Path, worker: str) -> int:
    """One more than before, and later than all before the file was lost."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
            _lock(file, path)
            number = max(_number(file) + 1, time.time_ns())
            file.seek(0)
            file.truncate()
            file.write(f"{number} {worker}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    return number


def _lock(file: BinaryIO, path: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                holder = file.read(200).decode(errors="replace").partition(" ")[2].strip()
                raise UraenasError(
                    f"{holder} holds {path} and does not answer; end it, and give the same command again"
                ) from None
            time.sleep(0.05)


def _number(file: BinaryIO) -> int:
    file.seek(0)
    text = file.read(40).split(b" ")[0]
    return int(text) if text.isdigit() else 0
