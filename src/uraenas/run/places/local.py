"""This process does the work itself."""

from collections.abc import Sequence

from uraenas.learning.chains import ChainSpec
from uraenas.run.evaluation import Judge
from uraenas.run.forecast import Countdown
from uraenas.run.places.leases import revoke
from uraenas.run.training import ChainRunner
from uraenas.run.work import Work


class Local:
    """The default."""

    def check(self) -> None:
        """It is here."""

    def prepare(self, work: Work) -> None:
        """It is ready."""

    def asked(self, work: Work, progress: Countdown) -> None:
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
