"""This process does the work itself."""

from collections.abc import Sequence

from uraenas.engine import Engine
from uraenas.learning.chains import ChainSpec
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.evaluation import Judge
from uraenas.run.forecast import Countdown
from uraenas.run.places.leases import revoke
from uraenas.run.task import Task
from uraenas.run.training import ChainRunner


class Local:
    """The default."""

    def check(self) -> None:
        """It is here."""

    def prepare(self, run: Run, config: Config, task: Task, engine: Engine) -> None:
        """It is ready."""

    def asked(self, run: Run, config: Config, task: Task, engine: Engine, progress: Countdown) -> None:
        """It searches and trains itself."""

    def begin(self, runner: ChainRunner, specs: Sequence[ChainSpec]) -> None:
        """It does one thing at a time."""

    def beat(self) -> None:
        """Nothing was begun."""

    def train(self, runner: ChainRunner, specs: Sequence[ChainSpec]) -> bool:
        revoke(runner.run)  # a worker that outlived another driver may write no more
        return runner.run_all(specs)

    def judge(self, judge: Judge, progress: Countdown) -> int:
        revoke(judge.run)
        return 0  # whoever asked is here

    def close(self) -> None:
        """Nobody else was at work."""
