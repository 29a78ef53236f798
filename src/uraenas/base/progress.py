"""How far the work has come, told to whoever wants to know."""

import sys
from contextlib import suppress
from typing import Protocol


class Progress(Protocol):
    """What a progress bar needs.

    `left` are the seconds until all stages are done, where they are known; `found` says what a stage has come to.
    """

    def __call__(
        self, stage: str, done: float, total: float, left: float | None = None, found: str = ""
    ) -> None: ...


def silent(stage: str, done: float, total: float, left: float | None = None, found: str = "") -> None:
    """Progress that nobody watches."""


class Lines:
    """Progress where no one watches a terminal: a line on standard error for every tenth of a stage."""

    def __init__(self) -> None:
        self.tenths: dict[str, int] = {}

    def __call__(
        self, stage: str, done: float, total: float, left: float | None = None, found: str = ""
    ) -> None:
        tenth = int(10 * done / total) if total else 10
        if tenth > self.tenths.get(stage, -1):
            self.tenths[stage] = tenth
            of_all = "" if left is None else f", {in_words(left)} left"
            with suppress(OSError, ValueError):  # where nobody can read it, the work goes on
                so_far = f"; {found}" if found else ""
                print(f"{stage} {done:g} of {total:g}{of_all}{so_far}", file=sys.stderr, flush=True)


def in_words(seconds: float) -> str:
    """A time as people say it: 40 s, 3 min, 2.5 h."""
    if seconds < 100:
        return f"{max(0, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"
