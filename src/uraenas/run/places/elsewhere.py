"""Places that have workers: units are packed, handed out, and seen to their end."""

from collections.abc import Sequence
from typing import Protocol

from uraenas.engine import Engine
from uraenas.evaluation import cell_count
from uraenas.learning.chains import ChainSpec, in_turns, shared_epochs
from uraenas.run.checkpoints import read_chain
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.evaluation import Judge
from uraenas.run.forecast import Countdown
from uraenas.run.places.driver import Driver
from uraenas.run.places.leases import revoke
from uraenas.run.places.packing import Unit, pack
from uraenas.run.places.place import Crew
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

    def train(self, runner: ChainRunner, specs: Sequence[ChainSpec]) -> bool:
        run, progress, epochs = runner.run, runner.progress, runner.config.train.epochs
        left = [spec for spec in specs if not runner.checkpoints.has_finished(spec)]
        revoke(run)
        if not left:
            return True
        sets = cell_count(runner.task.measured_on(runner.config.evaluate.part).test, runner.config.evaluate)
        crew = self._hired(run, runner.config, runner.engine, max(len(left), sets))
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
        through = driver.work(units, lambda: _room(progress, "train"), tell)
        revoke(run)
        return through

    def judge(self, judge: Judge, progress: Countdown) -> int:
        revoke(judge.run)
        names = judge.unjudged()
        total = cell_count(judge.dataset.test, judge.config.evaluate)
        if len(names) < 2:
            return 0
        crew = self._hired(judge.run, judge.config, judge.engine, len(names))

        def tell(driver: Driver) -> None:
            _show(progress, "evaluate", driver, total - len(names) + len(driver.over), total)

        units = [Unit("evaluate", (name,)) for name in names]
        driver = Driver(crew, judge.run, judge.config, self._ready)
        driver.work(units, lambda: _room(progress, "evaluate"), tell)
        revoke(judge.run)
        return total - len(names) + len(driver.over)

    def close(self) -> None:
        if self.crew is not None:
            self.crew.leave()
            self.crew = None

    def _hired(self, run: Run, config: Config, engine: Engine, most: int) -> Crew:
        if self.crew is None:
            self.crew = self.hiring.hire(run, config, engine, most)
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
    progress.found[stage] = ", ".join(f"{worker}: {words}" for worker, words in sorted(driver.words.items()))
    progress(stage, done, total)
