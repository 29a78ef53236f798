"""How far the work has come, told to whoever wants to know."""

import sys
from collections.abc import Callable
from contextlib import suppress

# progress(stage, done, total): what a progress bar needs
Progress = Callable[[str, float, float], None]


def silent(stage: str, done: float, total: float) -> None:
    """Progress that nobody watches."""


class Lines:
    """Progress where no one watches a terminal: a line on standard error for every tenth of a stage."""

    def __init__(self) -> None:
        self.tenths: dict[str, int] = {}

    def __call__(self, stage: str, done: float, total: float) -> None:
        tenth = int(10 * done / total) if total else 10
        if self.tenths.get(stage) != tenth:
            self.tenths[stage] = tenth
            with suppress(OSError, ValueError):  # where nobody can read it, the work goes on
                print(f"{stage} {done:g} of {total:g}", file=sys.stderr, flush=True)
