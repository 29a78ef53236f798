"""What a place of work is, and what it is given: two protocols and plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from uraenas.learning.chains import ChainSpec
from uraenas.learning.queries import Elsewhere
from uraenas.run.evaluation import Judge
from uraenas.run.forecast import Countdown
from uraenas.run.training import ChainRunner
from uraenas.run.work import Work


class Place(Protocol):
    """A row of PLACES: where queries and chains are trained and evaluation sets are judged."""

    def check(self) -> None:
        """Refuse a place that cannot be reached, before anything is written."""

    def prepare(self, work: Work) -> None:
        """Make ready for what will come, while something else is done."""

    def asked(self, work: Work, progress: Countdown) -> Elsewhere | None:
        """Who trains what a search asks for; None: whoever searches."""

    def begin(self, runner: ChainRunner, specs: Sequence[ChainSpec]) -> None:
        """Have these chains trained while this process does something else, where others can; `train` ends them."""

    def beat(self) -> None:
        """Look after what was begun: to be called from time to time."""

    def train(self, runner: ChainRunner, specs: Sequence[ChainSpec]) -> bool:
        """Run these chains to their end, or until time is up; says whether all are through."""

    def judge(self, judge: Judge, progress: Countdown) -> int:
        """Judge methods on evaluation sets; on how many they are judged then. What is left is done by whoever asked."""

    def close(self) -> None:
        """Let workers go."""


@dataclass(frozen=True)
class Order:
    """A unit of work as a worker gets it: plain data, and the leases under which it may write."""

    stage: str  # search, train or evaluate
    items: tuple[str, ...]  # queries, chains, or evaluation sets
    leases: Mapping[str, int]
    config: Mapping[str, Any]
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # what its chains have cost before
    kept: Mapping[str, Sequence[int]] = field(default_factory=dict)  # epochs that others go on from
    room: float | None = None  # seconds, where time may run out


@dataclass(frozen=True)
class News:
    """What a worker has to tell, or what became of it."""

    worker: str
    kind: str  # loading, ready, progress, found, cost, losses, log, warning, done, late, failed, broken, died
    facts: Mapping[str, Any] = field(default_factory=dict)


class Crew(Protocol):
    """Workers. One that dies is told as news, and another takes its name."""

    @property
    def names(self) -> Sequence[str]: ...

    def give(self, worker: str, order: Order) -> None:
        """Hand a unit to a worker that is ready."""

    def news(self, seconds: float) -> list[News]:
        """What has happened; waits for something, but no longer than so."""

    def leave(self) -> list[News]:
        """Ask all to write down how far they are and end, and hear their last words; who does not end is ended."""
