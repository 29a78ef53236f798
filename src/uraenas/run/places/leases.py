"""Who may write for a unit: a lease has a number, and only the newest counts.

A worker that was given up for dead may live on and write over its successor. So whoever writes holds the lease's file
shared and compares numbers; whoever gives a new lease holds it alone. A check and the write that follows are thus never
parted by a new lease. The file is locked, not replaced: locks are on what a name stands for, not on the name. Links are
not followed, and what is no lease is left alone.
"""

import fcntl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from uraenas.base.errors import UraenasError
from uraenas.base.lock import lock
from uraenas.base.regular_files import append_to_regular, open_in_place, require_folder
from uraenas.base.whole_files import flush_folder, flush_to_disk, remove_unfinished, writing
from uraenas.run.directory import Run

KINDS = ("chains", "evaluate")  # of work that has leases; folders of `leases/`
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
    for kind in KINDS:
        require_folder(folder)
        require_folder(folder / kind)
        for path in (folder / kind).glob("*.lease"):
            if path.is_symlink() or path.is_file():
                _renew(path, "nobody")
                path.unlink(missing_ok=True)
        if (folder / kind).exists():
            remove_unfinished(run.path / kind, below=True)
    for emptied in (*(folder / kind for kind in KINDS), folder):
        with suppress(OSError):  # it is not there, or has something else in it
            emptied.rmdir()


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
    _require_folders(path)
    try:
        file = open_in_place(path)
    except FileNotFoundError:
        raise Superseded(f"{path} is gone") from None
    with file:
        lock(file, path, fcntl.LOCK_SH)
        if (newest := _number(file)) != number:
            raise Superseded(f"{path}: lease {number} is void, {newest} was given")
        yield


def _require_folders(path: Path) -> None:
    """Links would lead out of the run."""
    require_folder(path.parent.parent)
    require_folder(path.parent)


def _renew(path: Path, worker: str) -> int:
    """One more than before, and later than all before the file was lost."""
    with writing(path):
        _require_folders(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with append_to_regular(path) as file:
            _lock(file, path)
            number = max(_number(file) + 1, time.time_ns())
            file.truncate(0)
            file.write(f"{number} {worker}\n".encode())
            flush_to_disk(file)
        flush_folder(path.parent)
    return number


def _lock(file: BinaryIO, path: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return lock(file, path, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
