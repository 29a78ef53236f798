"""Progress, told to whoever watches here and written down for whoever looks from elsewhere."""

import time
from collections.abc import Callable

from uraenas.base.progress import Progress
from uraenas.run.directory import Run

PAUSE = 2.0  # seconds between two notes in the run directory


class Telling:
    """A progress that also writes progress.json from time to time."""

    def __init__(self, run: Run, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
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
