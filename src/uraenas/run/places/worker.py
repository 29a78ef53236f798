"""The side of a worker: it opens the run directory once, does one unit after another, and tells what comes of each."""

import os
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from uraenas.base.errors import UraenasError
from uraenas.base.versions import version_of
from uraenas.engine import is_want_of_memory
from uraenas.learning.chains import ChainSpec, plan_chains
from uraenas.learning.queries import QueryParts, Trainings
from uraenas.run.checkpoints import Checkpoints
from uraenas.run.config import Config, from_json
from uraenas.run.cost import Amounts, Costs
from uraenas.run.directory import Run
from uraenas.run.evaluation import Judge
from uraenas.run.forecast import Countdown
from uraenas.run.places.asking import query_of
from uraenas.run.places.leases import Superseded, guard
from uraenas.run.places.own_parts import import_own_parts
from uraenas.run.places.place import Order
from uraenas.run.task import Task, prepare
from uraenas.run.tensorboard import watch_of
from uraenas.run.training import ChainRunner, TimeUp
from uraenas.run.work import Work

Tell = Callable[[str, Mapping[str, Any]], None]  # kind of news, facts
LOADING = 20.0  # seconds after which a worker that has not read the images yet says that it lives


class Leave(BaseException):
    """The driver asks the worker to write down how far it is, and to end."""


def versions() -> dict[str, str]:
    """What driver and workers must have in common for results that do not depend on who computes them."""
    return {"uraenas": version_of("uraenas"), "torch": torch.__version__.partition("+")[0]}


class Worker:
    """Does units on a run directory. `tell` reaches the driver; `leaving` says whether it wants the worker to end."""

    def __init__(self, path: str, tell: Tell, leaving: Callable[[], bool]) -> None:
        self.path, self.tell, self.leaving = Path(path), tell, leaving
        self._prepared: tuple[Config, Task] | None = None
        self._judge: Judge | None = None  # kept from set to set: it has loaded the members
        self._costs: dict[str, dict[str, float]] = {}

    def do(self, order: Order) -> None:
        """One unit, to its end; whatever stops it is told."""
        begun, used = time.monotonic(), time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("default", module="uraenas")
                warnings.showwarning = self._pass_on_warning  # type: ignore[assignment]
                through = self._stages[order.stage](self, order)
        except UraenasError as error:
            self.tell("failed", {"line": str(error)})
        except (Leave, Superseded):
            raise
        except Exception as error:
            if is_want_of_memory(error):
                self.tell("died", {"why": "ran out of memory"})
                os._exit(1)  # what it holds is given back by the system alone
            self.tell("broken", {"trace": traceback.format_exc()})
        else:
            spent = {"seconds": time.monotonic() - begun, "cpu_seconds": time.process_time() - used}
            self.tell("done" if through else "late", spent)

    def _train(self, order: Order) -> bool:
        work = self._opened(order)
        specs, runner = self._specs(order, work), ChainRunner(work, self._progress(order))
        kept = {name: set(epochs) for name, epochs in order.kept.items()}
        try:
            runner.run_stack([specs[name] for name in order.items], kept)
        except TimeUp:
            return False
        return True

    def _evaluate(self, order: Order) -> bool:
        work = self._opened(order)
        if self._judge is None or self._judge.config != work.config:
            self._judge = Judge(work)
        judge, self._judge.work = self._judge, work
        progress = self._progress(order)
        progress("evaluate", 0, len(order.items))
        for number, found in enumerate(judge.found(order.items)):
            self.tell("found", found)
            progress("evaluate", number + 1, len(order.items))
        return True

    def _query(self, order: Order) -> bool:
        work = self._opened(order)
        task, parts, progress = work.task, work.config.search, self._progress(order)
        assert isinstance(parts, QueryParts)
        answers = Trainings(parts, task.for_search(parts.settings.validation, work.engine))
        queries = dict(query_of(item, task.space) for item in order.items)
        total = len(queries) * answers.steps
        progress("search", 0, total)
        values = answers(queries, lambda done: progress("search", done, total))
        share = answers.images / len(queries)
        self.tell("found", {item: (value, share) for item, value in zip(order.items, values, strict=True)})
        return True

    _stages: Mapping[str, Callable[["Worker", Order], bool]] = {
        "train": _train,
        "evaluate": _evaluate,
        "search": _query,
    }

    # The run

    def opened(self, config: Mapping[str, Any], modules: Sequence[str] = ()) -> bool:
        """Read the images, once; those of the run must be found here. Whether they are; if not, that is told.

        `modules` have parts that the settings may name.
        """
        try:
            with self._telling_that_it_loads():
                import_own_parts(modules)
                self._of(from_json(dict(config)), Run(self.path))
        except UraenasError as error:
            self.tell("failed", {"line": str(error)})
            return False
        except Exception:
            self.tell("broken", {"trace": traceback.format_exc()})
            return False
        return True

    @contextmanager
    def _telling_that_it_loads(self) -> Iterator[None]:
        over = threading.Event()

        def tell() -> None:
            with suppress(OSError):  # nobody hears it any more
                while not over.wait(LOADING):
                    self.tell("loading", {})

        speaking = threading.Thread(target=tell, daemon=True)
        speaking.start()
        try:
            yield
        finally:
            over.set()
            speaking.join()

    def _opened(self, order: Order) -> Work:
        config = from_json(dict(order.config))
        run = Run(self.path)
        run.guard = guard(run, order.leases)
        run.append = self._pass_on_log
        run.add_losses = self._pass_on_losses
        self._costs = {name: dict(amounts) for name, amounts in order.costs.items()}
        run.costs = Costs(lambda: self._costs, self._tell_costs)
        task = self._of(config, run)
        checkpoints = Checkpoints(run, config.train.epochs, task.space, config.seed)
        watch = watch_of(run, task.space.decisions, config.tensorboard)
        return Work(run, config, task, task.engine(config.engine), checkpoints, watch)

    def _of(self, config: Config, run: Run) -> Task:
        if self._prepared is None or self._prepared[0] != config:
            known = self._prepared[1].dataset if self._prepared else None
            if not run.exists:
                raise UraenasError(
                    f"{run.path} is not there; workers need the run directory on a file system that all machines share"
                )
            task = prepare(config, known)
            began_with = run.data()
            if began_with is None or not began_with.fits(task.facts):
                raise UraenasError(f"{config.data.name} holds other data here than where the run began")
            self._prepared = config, task
        return self._prepared[1]

    def _specs(self, order: Order, work: Work) -> dict[str, ChainSpec]:
        """The chains of methods that an order is about, by name; drawn anew, with the same keys."""
        config, task = work.config, work.task
        every = [config.method(name) for name in config.methods]
        methods = [one for one in every if any(item.startswith(one.chains) for item in order.items)]
        searched = work.run.searched() if any(one.needs_search for one in methods) else None
        facts = (config.ensemble, task.space, searched, config.seed, task.starts)
        plans = [plan_chains(method, *facts)[0] for method in methods]
        return {spec.name: spec for planned in plans for spec in planned}

    # What is told

    def _progress(self, order: Order) -> Countdown:
        def report(stage: str, done: float, total: float, left: float | None = None, found: str = "") -> None:
            self.tell("progress", {"done": done, "found": found})

        progress = Countdown(report)
        progress.heed = self._heed
        if order.room is not None:
            progress.end = progress.clock() + order.room
        return progress

    def _heed(self) -> None:
        if self.leaving():
            raise Leave

    def _tell_costs(self, amounts: Amounts) -> None:
        self._costs = {name: dict(own) for name, own in amounts.items()}
        self.tell("cost", self._costs)

    def _pass_on_log(self, event: str, facts: Mapping[str, Any]) -> None:
        self.tell("log", {"event": event, "facts": dict(facts)})

    def _pass_on_losses(self, losses: Mapping[str, Sequence[float]]) -> None:
        self.tell("losses", losses)

    def _pass_on_warning(self, message: Warning | str, *rest: Any) -> None:
        self.tell("warning", {"text": str(message)})
