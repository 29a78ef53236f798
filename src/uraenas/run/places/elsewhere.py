"""Places that have workers: units are packed, handed out, and seen to their end."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from uraenas.engine import Engine
from uraenas.evaluation import cell_count
from uraenas.learning.chains import ChainSpec, chains_for, in_turns, shared_epochs
from uraenas.learning.queries import Trainings
from uraenas.run.checkpoints import read_chain
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.evaluation import Judge
from uraenas.run.forecast import Countdown
from uraenas.run.places.asking import Asked
from uraenas.run.places.driver import Driver
from uraenas.run.places.leases import revoke
from uraenas.run.places.packing import Unit, pack
from uraenas.run.places.place import Crew
from uraenas.run.task import Task
from uraenas.run.training import ChainRunner


class Hiring(Protocol):
    """How a place comes by its workers."""

    def check(self) -> None: ...

    def hire(self, run: Run, config: Config, engine: Engine, most: int) -> Crew:
        """Workers, at most so many: there is no work for more."""


class Elsewhere:
    """Work is done by a crew, which is hired when there is some."""

    def __init__(self, hiring: Hiring) -> None:
        self.hiring = hiring
        self.crew: Crew | None = None
        self._ready: set[str] = set()

    def check(self) -> None:
        self.hiring.check()

    def prepare(self, run: Run, config: Config, task: Task, engine: Engine) -> None:
        """Hire as many workers as the run has use for: they take seconds to start, and may not fit."""
        if self.crew is None:
            chains = sum(chains_for(config.method(name), config.ensemble) for name in config.methods)
            sets = cell_count(task.measured_on(config.evaluate.part).test, config.evaluate)
            self.crew = self.hiring.hire(run, config, engine, max(chains, sets))

    def asked(
        self, run: Run, config: Config, task: Task, engine: Engine, progress: Countdown
    ) -> Callable[[Trainings], Asked]:
        crew = self._hired(run, config, task, engine)

        def working(units: list[Unit], tell: Callable[[Driver], None]) -> Mapping[str, Any]:
            def show(driver: Driver) -> None:
                progress.found["search"] = _words(driver)
                tell(driver)

            driver = Driver(crew, run, config, self._ready)
            self._worked(driver, units, lambda: None, show)
            return driver.found

        return lambda here: Asked(here, len(crew.names), working)

    def train(self, runner: ChainRunner, specs: Sequence[ChainSpec]) -> bool:
        run, progress, epochs = runner.run, runner.progress, runner.config.train.epochs
        left = [spec for spec in specs if not runner.checkpoints.has_finished(spec)]
        revoke(run)
        if not left:
            return True
        crew = self._hired(run, runner.config, runner.task, runner.engine)
        names = {spec.name for spec in left}
        units: list[Unit] = []
        kept: dict[str, set[int]] = {}
        for number, part in enumerate(runner.parts(specs)):
            todo = [spec for spec in part if spec.name in names]
            costs = _costs(runner, todo)
            units += pack(todo, costs, epochs, len(crew.names), runner.engine.stack, number)
            kept |= runner.kept_epochs(*in_turns(part, epochs))
        steps = epochs * runner.loader.steps
        before = (len(specs) - len(left)) * steps

        def tell(driver: Driver) -> None:
            done = before + len(driver.over) * steps + sum(unit.done for unit in driver.busy.values())
            _show(progress, "train", driver, done, len(specs) * steps)

        driver = Driver(crew, run, runner.config, self._ready, kept)
        return self._worked(driver, units, lambda: _room(progress, "train"), tell)

    def judge(self, judge: Judge, progress: Countdown) -> int:
        revoke(judge.run)
        if len(judge.unjudged()) < 2:
            return 0
        crew = self._hired(judge.run, judge.config, judge.task, judge.engine)

        def tell(driver: Driver) -> None:
            _show(progress, "evaluate", driver, len(driver.over), len(judge.names))

        units = [Unit("evaluate", (name,)) for name in judge.names]
        driver = Driver(crew, judge.run, judge.config, self._ready)
        self._worked(driver, units, lambda: _room(progress, "evaluate"), tell)
        judge.take(driver.found)
        return len(driver.over)

    def close(self) -> None:
        if self.crew is not None:
            self.crew.leave()
            self.crew = None

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

    def _hired(self, run: Run, config: Config, task: Task, engine: Engine) -> Crew:
        self.prepare(run, config, task, engine)
        assert self.crew is not None
        return self.crew


def _costs(runner: ChainRunner, specs: Sequence[ChainSpec]) -> dict[str, float]:
    """Multiplications that chains have before them, relative to each other."""
    space, epochs = runner.task.space, runner.config.train.epochs
    early, later = in_turns(specs, epochs)
    begun: dict[str, int] = {}
    for spec in later:
        leaders = [leader for leader in early if leader.root == spec.root]
        begun[spec.name] = max((shared_epochs(leader, spec, epochs) for leader in leaders), default=0)
    for spec in specs:
        if runner.run.has(runner.run.chain_file(spec.name)):
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
