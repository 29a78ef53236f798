"""progress.json: how far the process that works on a run has come. Written as it goes, and read without PyTorch."""

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.base.files import read_json
from uraenas.base.progress import Progress
from uraenas.run.location import PROGRESS, is_run

if TYPE_CHECKING:
    from uraenas.run.directory import Run

PAUSE = 2.0  # seconds between two notes
FRESH = 60.0  # seconds after which the note of a process on another machine counts as left behind


class Telling:
    """A progress that is also written down from time to time."""

    def __init__(self, run: "Run", progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self.run, self.progress, self.clock = run, progress, clock
        self.stage, self.begun, self.first, self.told = "", 0.0, 0.0, 0.0

    def __call__(
        self, stage: str, done: float, total: float, left: float | None = None, found: str = ""
    ) -> None:
        self.progress(stage, done, total, left, *([found] if found else []))
        now = self.clock()
        if stage != self.stage:
            self.stage, self.begun, self.first, self.told = stage, now, done, -PAUSE
        if now - self.told < PAUSE or not self.run.exists:
            return
        self.told = now
        seconds = now - self.begun
        facts = {"stage": stage, "done": done, "total": total, "seconds": seconds, "found": found}
        speed = (done - self.first) / seconds if seconds > 0 else None
        own = (total - done) / speed if speed else None  # of this stage alone
        more = {"speed": speed, "left": left if left is not None else own}
        self.run.tell_progress(
            {**facts, **{name: value for name, value in more.items() if value is not None}}
        )


def progress_of(path: Path) -> dict[str, Any] | None:
    """How far a process that works here has come; of one that is gone, where it stopped."""
    if not (path / PROGRESS).exists():
        return None
    try:
        facts = Fields(path / PROGRESS, read_json(path / PROGRESS))
    except UraenasError:
        return None  # it was just taken away
    process, told = facts.whole("process"), facts.number("time")
    here = facts.text("host") == platform.node()
    alive = _is_alive(process) if here else time.time() - told < FRESH
    working = alive and not facts.has("stopped")
    numbers = {
        name: facts.number(name) for name in ("done", "total", "seconds", "speed", "left") if facts.has(name)
    }
    return {
        "stage": facts.text("stage"),
        "found": facts.text("found"),
        **numbers,
        "time": told,
        "working": working,
    }


def is_worked_on(path: Path) -> bool:
    """Whether some process works on this run."""
    return is_run(path) and bool((progress_of(path) or {}).get("working"))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is somebody else's
    return True
