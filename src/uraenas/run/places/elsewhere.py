"""Places that have workers: units are packed, handed out, and seen to their end."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from uraenas.evaluation import cell_count
from uraenas.learning.chains import ChainSpec, chains_for, in_turns, shared_epochs
from uraenas.learning.queries import Trainings
from uraenas.run.checkpoints import read_chain
from uraenas.run.evaluation import Judge
from uraenas.run.forecast import Countdown
from uraenas.run.places.asking import AnswersOfWorkers
from uraenas.run.places.driver import Driver
from uraenas.run.places.leases import revoke
from uraenas.run.places.packing import Unit, pack
from uraenas.run.places.place import Crew
from uraenas.run.training import ChainRunner
from uraenas.run.work import Work


class Hiring(Protocol):
    """How a place comes by its workers."""

    def check(self) -> None: ...

    def hire(self, work: Work, most: int) -> Crew:
        """Workers, at most so many: there is no work for more."""


class Elsewhere:
    """Work is done by a crew, which is hired when there is some."""

    def __init__(self, hiring: Hiring) -> None:
        self.hiring = hiring
        self.crew: Crew | None = None
        self._ready: set[str] = set()
        self._begun: Driver | None = None  # who listens, and has chains trained, while this process searches

    def check(self) -> None:
        self.hiring.check()

    def prepare(self, work: Work) -> None:
        """Hire as many workers as the run has use for: they take seconds to start, and may not fit."""
        if self.crew is None:
            config, task = work.config, work.task
            chains = sum(chains_for(config.method(name), config.ensemble) for name in config.methods)
            sets = cell_count(task.measured_on(config.evaluate.part).test, config.evaluate)
            self.crew = self.hiring.hire(work, max(chains, sets))

    def asked(self, work: Work, progress: Countdown) -> Callable[[Trainings], AnswersOfWorkers]:
        crew = self._hired(work)

        def working(units: list[Unit], tell: Callable[[Driver], None]) -> Mapping[str, Any]:
            def show(driver: Driver) -> None:
                progress.found["search"] = _words(driver)
                tell(driver)

            driver = Driver(crew, work.run, work.config, self._ready)
            self._worked(driver, units, lambda: None, show)
            return driver.found

        return lambda here: AnswersOfWorkers(here, len(crew.names), working)

    def begin(self, runner: ChainRunner, specs: Sequence[ChainSpec]) -> None:
        """By all workers but the first, whose core or GPU the search is using."""
        left = [spec for spec in specs if not runner.checkpoints.has_finished(spec)]
        if runner.progress.end is not None:
            left = []  # under a budget the search may have to end early
        revoke(runner.run)
        crew = self._hired(runner.work)
        self._begun = Driver(crew, runner.run, runner.config, self._ready)
        self._begun.resting = {crew.names[0]}
        self._begun.add(_units(self._begun, runner, specs, left))

    def beat(self) -> None:
        if self._begun is not None:
            try:
                self._begun.beat(0.0, lambda: None)
            except BaseException:
                self.close()
                raise

    def train(self, runner: ChainRunner, specs: Sequence[ChainSpec]) -> bool:
        run, progress = runner.run, runner.progress
        driver, self._begun = self._begun, None
        going = set() if driver is None else driver.going
        finished = {spec.name for spec in specs if runner.checkpoints.has_finished(spec)} - going
        left = [spec for spec in specs if spec.name not in finished | going]
        if driver is None:
            revoke(run)
            if not left:
                return True
            crew = self._hired(runner.work)
            driver = Driver(crew, run, runner.config, self._ready)
        driver.resting = set()
        steps = runner.config.train.epochs * runner.loader.steps

        def tell(driver: Driver) -> None:
            done = len(finished | driver.over) * steps + sum(unit.done for unit in driver.busy.values())
            _show(progress, "train", driver, done, len(specs) * steps)

        units = _units(driver, runner, specs, left)
        return self._worked(driver, units, lambda: _room(progress, "train"), tell)

    def judge(self, judge: Judge, progress: Countdown) -> int:
        revoke(judge.run)
        if len(judge.unjudged()) < 2:
            return 0
        crew = self._hired(judge.work)

        def tell(driver: Driver) -> None:
            _show(progress, "evaluate", driver, len(driver.over), len(judge.names))

        units = [Unit("evaluate", (name,)) for name in judge.names]
        driver = Driver(crew, judge.run, judge.config, self._ready)
        self._worked(driver, units, lambda: _room(progress, "evaluate"), tell)
        judge.take(driver.found)
        return len(driver.over)

    def close(self) -> None:
        if self.crew is not None:
            if self._begun is None:
                self.crew.leave()
            else:
                self._begun.leave()
            self.crew, self._ready, self._begun = None, set(), None

    def _worked(
        self,
        driver: Driver,
        units: Sequence[Unit],
        room: Callable[[], float | None],
        tell: Callable[[Driver], None],
    ) -> bool:
        try:
            through = driver.work(units, room, tell)
        except BaseException:
            self.crew, self._ready = None, set()  # they were let go
            raise
        revoke(driver.run)
        return through

    def _hired(self, work: Work) -> Crew:
        self.prepare(work)
        assert self.crew is not None
        return self.crew


def _units(
    driver: Driver, runner: ChainRunner, specs: Sequence[ChainSpec], left: Sequence[ChainSpec]
) -> list[Unit]:
    """Those chains of these that are left, as units for the driver's crew; it is told what others go on from."""
    epochs, names = runner.config.train.epochs, {spec.name for spec in left}
    units: list[Unit] = []
    for number, part in enumerate(runner.parts(specs)):
        todo = [spec for spec in part if spec.name in names]
        costs = _costs(runner, todo)
        units += pack(todo, costs, epochs, len(driver.crew.names), runner.engine.stack, number)
        kept = runner.kept_epochs(*in_turns(part, epochs))
        driver.kept |= {name: sorted(found) for name, found in kept.items()}
    return units


def _costs(runner: ChainRunner, specs: Sequence[ChainSpec]) -> dict[str, float]:
    """Multiplications that chains have before them, relative to each other."""
    space, epochs = runner.task.space, runner.config.train.epochs
    early, later = in_turns(specs, epochs)
    begun: dict[str, int] = {}
    for spec in later:
        leaders = [leader for leader in early if leader.root == spec.root]
        begun[spec.name] = max((shared_epochs(leader, spec, epochs) for leader in leaders), default=0)
    for spec in specs:
        if runner.run.has(runner.run.chains.file(spec.name)):
            begun[spec.name] = read_chain(runner.run, spec.name).epoch
    return {
        spec.name: float(space.cost(spec.architecture).multiply_adds) * (epochs - begun.get(spec.name, 0))
        for spec in specs
    }


def _room(progress: Countdown, stage: str) -> float | None:
    return None if progress.end is None else progress.room(stage)


def _show(progress: Countdown, stage: str, driver: Driver, done: float, total: float) -> None:
    """One display for all: which worker is at what."""
    progress.found[stage] = _words(driver)
    progress(stage, done, total)


def _words(driver: Driver) -> str:
    return ", ".join(f"{worker}: {words}" for worker, words in sorted(driver.words.items()))
