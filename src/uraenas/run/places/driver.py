"""The side of the driver: hands units to workers, gathers what they tell, and gives a dead one's unit to another."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.base.progress import in_words
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.places.leases import issue
from uraenas.run.places.packing import Unit
from uraenas.run.places.place import Crew, News, Order

BEAT = 0.25  # seconds between two looks at who waits
MOST_DEATHS = 5  # of a unit that comes no further; and for each worker, of workers without a unit
PATIENCE = 300.0  # seconds without any worker, or a word of one
SILENCE = 600.0  # seconds without a word of a worker that has a unit
LEASE_OF = {"train": "chains", "evaluate": "evaluate"}  # a query leaves no file
COUNTED = {**LEASE_OF, "search": "queries"}


class Broken(RuntimeError):
    """A worker has found an error of ours; its words are the worker's."""


class Driver:
    """Works through units with a crew; says after each piece of news how far it is."""

    def __init__(
        self,
        crew: Crew,
        run: Run,
        config: Config,
        ready: set[str],
    ) -> None:
        self.crew, self.run, self.config = crew, run, config
        self.free = ready  # workers without a unit
        self.resting: set[str] = set()  # those that get none for now
        self.waiting: list[Unit] = []
        self.kept: dict[str, list[int]] = {}  # chain → epochs that others go on from
        self.busy: dict[str, Unit] = {}
        self.words: dict[str, str] = {}  # worker → what it is at
        self.heard: dict[str, float] = {}  # busy worker → when it last said something
        self.silent: set[str] = set()  # those that have been warned of
        self.over: set[str] = set()  # items
        self.found: dict[str, Any] = {}  # item → what came of it, where that is in no file
        self.stillborn = 0  # workers that died without a unit, since one was ready
        self.finished = 0.0  # cost of units that are over
        self.late = False
        self._costs: dict[str, dict[str, float]] = {}  # told, and not yet written
        self._losses: dict[str, Sequence[float]] = {}  # the same
        self._written = self._seen = time.monotonic()

    def work(
        self, units: Sequence[Unit], room: Callable[[], float | None], tell: Callable[["Driver"], None]
    ) -> bool:
        """Whether all are done; not, where there was no `room` in time left for them."""
        self.add(units)
        tell(self)
        try:
            while self.busy or (self.waiting and not self.late):
                self.beat(BEAT, room)
                tell(self)
        except BaseException:
            self.leave()
            raise
        finally:
            self._book(now=True)
        return not self.waiting and not self.late

    @property
    def going(self) -> set[str]:
        """The items that are not over."""
        return {item for unit in (*self.busy.values(), *self.waiting) for item in unit.items}

    def add(self, units: Sequence[Unit]) -> None:
        """Units that are to be worked through, too."""
        self.waiting += units
        self.waiting.sort(key=lambda unit: (unit.part, bool(unit.waits_for), -unit.cost))

    def beat(self, seconds: float, room: Callable[[], float | None]) -> None:
        """Hand out what can begin, and take the news that come within so many seconds."""
        self._hand_out(room)
        news = self.crew.news(seconds)
        for one in news:
            self._take(one)
        self._look_for_silent()
        if self.free or self.busy or news:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > PATIENCE:
            raise UraenasError(
                f"no worker has been there for {PATIENCE:.0f} s; {self.run.path} holds how far it came, and "
                "the same command goes on from there"
            )
        self._book()

    def leave(self) -> None:
        """Let the crew go, and book what they have spent until then."""
        for one in self.crew.leave():
            if one.kind in ("cost", "losses"):
                self._hear(one.worker, one.kind, one.facts)
        self._book(now=True)

    # Handing out

    def _hand_out(self, room: Callable[[], float | None]) -> None:
        for worker in sorted(self.free - self.resting):
            unit = next((one for one in self.waiting if self._can_begin(one)), None)
            left = room()
            if left is not None and left < 0:
                self.late = True
            if unit is None or self.late:
                return
            self.waiting.remove(unit)
            self.free.remove(worker)
            self.busy[worker], self.heard[worker] = unit, time.monotonic()
            self.crew.give(worker, self._order(unit, worker, left))

    def _can_begin(self, unit: Unit) -> bool:
        """Chains that go on from what others have explored wait for it, or for these to be over."""
        return all(
            leader in self.over or self.run.has(self.run.chains.explored_file(root, epoch))
            for leader, (root, epoch) in unit.waits_for.items()
        )

    def _order(self, unit: Unit, worker: str, room: float | None) -> Order:
        keys = [f"{LEASE_OF[unit.stage]}/{item}" for item in unit.items if unit.stage in LEASE_OF]
        known = {**self.run.costs.read(), **self._costs}
        costs = {key: known[key] for key in keys if key in known}
        kept = {name: self.kept[name] for name in unit.items if name in self.kept}
        leases = issue(self.run, keys, worker)
        return Order(unit.stage, unit.items, leases, self.config.as_json(), costs, kept, room)

    # News

    def _take(self, news: News) -> None:
        worker, facts = news.worker, news.facts
        self.heard[worker] = time.monotonic()
        self.silent.discard(worker)
        if news.kind == "ready":
            self.free.add(worker)
            self.words.pop(worker, None)
            self.stillborn = 0
            self.run.log("worker ready", worker=worker, **facts)
        elif news.kind == "died":
            self._bury(worker, str(facts["why"]))
        elif news.kind in ("done", "late"):
            self._release(worker, facts, news.kind == "late")
        elif news.kind == "progress" and worker in self.busy:
            unit = self.busy[worker]
            unit.done = facts["done"]
            self.words[worker] = unit.words or unit.items[0]
        else:
            self._hear(worker, news.kind, facts)

    def _look_for_silent(self) -> None:
        """Tell once of a worker that may hang. It is not ended: it may as well be slow."""
        for worker, unit in self.busy.items():
            seconds = time.monotonic() - self.heard[worker]
            if seconds < SILENCE:
                continue
            at = unit.words or ", ".join(unit.items)
            self.words[worker] = f"{unit.words or unit.items[0]}, silent for {in_words(seconds)}"
            if worker not in self.silent:
                self.silent.add(worker)
                self.run.log("worker silent", worker=worker, unit=list(unit.items))
                warnings.warn(
                    f"{worker} has said nothing for {in_words(seconds)}, at {at}; if it hangs, end its process, which "
                    "log.jsonl names, and others go on from its last checkpoint",
                    stacklevel=2,
                )

    def _release(self, worker: str, spent: Mapping[str, float], late: bool) -> None:
        """A worker is through with its unit, or has left it because time is up."""
        unit = self.busy.pop(worker)
        self.free.add(worker)
        self.words.pop(worker, None)
        if late:
            self.late = True
        else:
            self.over.update(unit.items)
            self.finished += unit.cost
        self._charge(worker, spent, unit)

    def _hear(self, worker: str, kind: str, facts: Mapping[str, Any]) -> None:
        """What says nothing about who is free."""
        if kind == "loading":
            self.words[worker] = "reading the images"
        elif kind == "cost":
            self._costs |= {item: dict(amounts) for item, amounts in facts.items()}
        elif kind == "losses":
            self._losses |= facts
        elif kind == "found":
            self.found |= facts
        elif kind == "log":
            self.run.log(facts["event"], worker=worker, **facts["facts"])
        elif kind == "warning":
            self.run.log("warning", worker=worker, text=facts["text"])
            warnings.warn(f"{_named(worker, facts)}: {facts['text']}", stacklevel=2)
        elif kind == "failed":
            raise UraenasError(f"{_named(worker, facts)}: {facts['line']}")
        elif kind == "broken":
            raise Broken(f"{_named(worker, facts)} has found an error:\n{facts['trace']}")

    def _bury(self, worker: str, why: str) -> None:
        """Another takes up the unit where its last checkpoint is."""
        self.free.discard(worker)
        self.words.pop(worker, None)
        unit = self.busy.pop(worker, None)
        self.run.log("worker died", worker=worker, why=why, unit=list(unit.items) if unit else [])
        if unit is None:
            self.stillborn += 1
            if self.stillborn >= MOST_DEATHS * len(self.crew.names):
                raise UraenasError(
                    f"workers die before they can begin, the last one: {worker} {why}; a script has to start them "
                    'from under: if __name__ == "__main__":'
                )
            return
        unit.deaths = 1 if unit.done > unit.reached else unit.deaths + 1
        unit.reached = max(unit.reached, unit.done)
        if unit.deaths >= MOST_DEATHS:
            raise UraenasError(
                f"{unit.deaths} workers in a row died at {', '.join(unit.items)}, the last one: {worker} {why}; is "
                "there enough memory (fewer processes, a smaller engine.stack or train.batch)?"
            )
        warnings.warn(
            f"{worker} {why}; {', '.join(unit.items)} will go on from the last checkpoint", stacklevel=2
        )
        self.waiting.insert(0, unit)

    # Books

    def _charge(self, worker: str, spent: Mapping[str, float], unit: Unit) -> None:
        item = f"workers/{worker}"
        own = dict(self._costs.get(item) or self.run.costs.read().get(item, {}))
        for name, amount in {**spent, "units": 1, COUNTED[unit.stage]: len(unit.items)}.items():
            own[name] = own.get(name, 0) + amount
        self._costs[item] = own

    def _book(self, now: bool = False) -> None:
        """Write what was told, about once a second."""
        if not now and time.monotonic() - self._written <= 1:
            return
        if self._costs:
            self.run.costs.put(self._costs)
        if self._losses:
            self.run.write_losses(self._losses)
        self._costs, self._losses, self._written = {}, {}, time.monotonic()


def _named(worker: str, facts: Mapping[str, Any]) -> str:
    """With its machine, where that may be another."""
    return f"{worker} on {facts['host']}" if "host" in facts else worker
