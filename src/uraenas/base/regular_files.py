"""Only regular files are read or appended to: a FIFO would wait for ever, and a device never ends."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from uraenas.base.errors import UraenasError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link"),
)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file to read. Links are followed; nothing waits for another process."""
    return _opened(path, os.O_RDONLY, "rb")


def open_in_place(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file to read; a link is not followed."""
    return _opened(path, os.O_RDONLY | os.O_NOFOLLOW, "rb")


def append_to_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file to read and to append to, made where it is not there; a link is not followed."""
    return _opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, "a+b")


def size_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def require_regular(path: Path) -> None:
    """Refuse to replace what is no regular file; a name that is free may be taken."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # whoever writes there will be told
    if not stat.S_ISREG(mode):
        raise _refused(f"cannot write {path}: it", mode)


def require_folder(path: Path) -> None:
    """Refuse a link in the place of a folder; nothing need be there."""
    if path.is_symlink():
        raise UraenasError(f"cannot use {path}: it is a link, not a folder")


def _opened(path: str | os.PathLike[str], flags: int, mode: str) -> BinaryIO:
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError:
        if os.path.islink(path) and flags & os.O_NOFOLLOW:
            verb = "write" if flags & os.O_RDWR else "read"
            raise _refused(f"cannot {verb} {path}: it", stat.S_IFLNK) from None
        raise
    found = os.fstat(handle).st_mode
    if not stat.S_ISREG(found):
        os.close(handle)
        raise _refused(f"cannot read {os.fspath(path)}: it", found)
    return os.fdopen(handle, mode)  # type: ignore[return-value]


def _refused(what: str, mode: int) -> UraenasError:
    kind = next((words for check, words in _KINDS if check(mode)), "a device")
    return UraenasError(f"{what} is {kind}, not a regular file")
