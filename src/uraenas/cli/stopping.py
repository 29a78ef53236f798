"""SIGTERM and Ctrl-C: the work stops where it is, and one line says where its state lies."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uraenas.run.directory import Run


class Stopped(BaseException):
    """A signal asks the process to leave. Not an Exception, so that nothing takes it for an error to mend."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number  # as a shell would report it


def heed(number: int) -> None:
    """From now on this signal raises `Stopped`."""
    signal.signal(number, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    # `timeout` and some schedulers send SIGTERM twice, which must not cut short the saving; a second Ctrl-C may.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise Stopped(number)


@contextmanager
def working_in(run: "Run") -> Iterator[None]:
    """Hold the run's directory; whoever stops the work is told that its state is there."""
    heed(signal.SIGTERM)  # elsewhere nothing is to be written, and the system may end the process at once
    with run.held():
        try:
            yield
        except Stopped as stop:
            stop.args = (f"{stop}; {run.path} holds its state, and the same command goes on from there",)
            raise
