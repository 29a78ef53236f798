"""Standard output and error may be closed, full, or end in a pipe that nobody reads."""

import errno
import io
import os
import sys
from contextlib import suppress


def prepare_streams() -> None:
    """No file gets the number of a closed stream, and no name is one that a stream cannot write."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it stays open)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def give_up_output() -> None:
    """What could not be written is not tried again when the process ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Closed(io.TextIOBase):
    """A closed standard output: a result that is lost is an error."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed", "standard output")
