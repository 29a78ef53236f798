"""The stages on a run directory: each goes on where it was cut off, and is skipped when its output is whole."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from uraenas.architectures import Searched
from uraenas.base.errors import UraenasError
from uraenas.base.progress import Progress, silent
from uraenas.base.progress import in_words as as_time
from uraenas.base.versions import environment
from uraenas.data import DATASETS, Dataset
from uraenas.engine import Engine
from uraenas.ensemble import at_test_time
from uraenas.evaluation import Cell, Diverged, Metrics, cell_count, require_suite_fits, summarise
from uraenas.learning.chains import ChainSpec, plan_chains
from uraenas.learning.loops import LOOPS
from uraenas.run.advice import advice, on_search
from uraenas.run.checkpoints import Checkpoints
from uraenas.run.config import Config, differences, in_words, measured_differently, measuring, override
from uraenas.run.cost import Clock
from uraenas.run.directory import SEARCH_STATE, Run, search_taken_from
from uraenas.run.evaluation import Judge, outside_images
from uraenas.run.export import (
    check_chains,
    check_search,
    check_starts,
    take_chains,
    take_search,
    usual_search,
    with_search_of,
)
from uraenas.run.forecast import Countdown, Forecast, forecast
from uraenas.run.members import Chooser
from uraenas.run.places import Local, Place
from uraenas.run.progress import Telling
from uraenas.run.rates import PATIENCE, Rates
from uraenas.run.recipes import check_recipes
from uraenas.run.searching import Searcher
from uraenas.run.steps import in_enough_steps
from uraenas.run.task import prepare
from uraenas.run.teaching import Teaching
from uraenas.run.tensorboard import watch_of
from uraenas.run.training import ChainRunner
from uraenas.run.work import Work


class Pipeline:
    """A run directory with its config, data and engine at hand."""

    def __init__(
        self, run: Run, config: Config, progress: Progress = silent, dataset: Dataset | None = None
    ) -> None:
        self.run, self.config, self.progress = run, config, Countdown(Telling(run, progress))
        self.search_of: Run | None = None  # whose search it takes
        self.chains_of: Run | None = None  # and chains
        self.left_out: list[str] = []  # for want of time, to be told
        self.place: Place = Local()  # where chains and evaluation sets are computed
        self.task = prepare(config, dataset)
        decisions = self.task.space.decisions
        self.watch = watch_of(run, decisions, config.tensorboard)
        self.checkpoints = Checkpoints(run, config.train.epochs, self.task.space, config.seed)
        # Settings of metrics.json and now, where they differ.
        self.remeasured: dict[str, tuple[Any, Any]] = {}
        self._check_data()

    @cached_property
    def engine(self) -> Engine:
        """Made when it is first needed: a run can be looked at where it could not be computed."""
        engine = self.task.engine(self.config.engine)
        engine.require_room(self.task.space.most_parameters)
        return engine

    @property
    def work(self) -> Work:
        """With the settings as they are now: under a budget methods may be left out on the way."""
        return Work(self.run, self.config, self.task, self.engine, self.checkpoints, self.watch)

    @classmethod
    def start(
        cls,
        path: Path | str,
        config: Config,
        progress: Progress = silent,
        dataset: Dataset | None = None,
        search_of: Run | Literal["usual"] | None = None,
        chains_of: Run | None = None,
        given: Collection[str] | None = None,
    ) -> "Pipeline":
        """Begin a run in this directory, or go on with the one that is there if its settings are the same.

        With `search_of` the run does not search, but takes what another has found, and its settings; "usual" is the
        search that comes with the package where images are few, else none. With `chains_of` it takes another's search
        and chains. `given` are keys of settings that were asked for: those of the search must be what is taken, and
        where batch and epochs of a table are not among them, they are chosen. Without it, all settings are kept.
        """
        pipeline = cls.checked(path, config, progress, dataset, search_of, chains_of, given)
        pipeline.begin()
        return pipeline

    @classmethod
    def checked(
        cls,
        path: Path | str,
        config: Config,
        progress: Progress = silent,
        dataset: Dataset | None = None,
        search_of: Run | Literal["usual"] | None = None,
        chains_of: Run | None = None,
        given: Collection[str] | None = None,
    ) -> "Pipeline":
        """What `start` begins, when nothing speaks against it; nothing is written."""
        run = Run(path)
        pipeline = cls(run, config, progress, dataset)
        if given is not None and (suited := in_enough_steps(config, pipeline.task, given)) != config:
            pipeline = cls(run, config := suited, progress, pipeline.task.dataset)
        if search_of == "usual":
            search_of = usual_search(config, pipeline.task)
        if search_of is not None:
            check_search(search_of, config, pipeline.task)
            config = with_search_of(search_of, config, given or ())
        check_recipes(config)
        check_starts(config, pipeline.task)
        if teaching := Teaching.of(config):
            teaching.check(config, pipeline.task)
        pipeline.config = config = _with_earlier_settings(run, config)
        pipeline.engine  # noqa: B018 (its checks are ours)
        pipeline.check_evaluation()
        pipeline.search_of, pipeline.chains_of = search_of, chains_of
        if chains_of is not None:
            check_chains(run, chains_of, config, pipeline.task.facts)
            theirs = Checkpoints(chains_of, config.train.epochs, pipeline.task.space, config.seed)
            planned = pipeline._planned(chains_of.searched())
            theirs.require_finished({name: specs for name, (specs, _) in planned.items()})
        return pipeline

    def begin(self) -> None:
        """Write what the run is, and take what others have."""
        run, config = self.run, self.config
        with run.held():
            _with_earlier_settings(run, config)  # another process may have begun a run meanwhile
            self._check_data()
            self.remeasured = measured_differently(self._known().settings, config)
            run.begin(config, self.task.facts, self.chains_of)
            run.write_environment(environment(self.engine.device))
            if self.search_of is not None:
                take_search(run, self.search_of, self.task.space)
            if self.chains_of is not None:
                take_chains(run, self.chains_of, self.task.space)

    @classmethod
    def resume(
        cls, path: Path | str, progress: Progress = silent, dataset: Dataset | None = None
    ) -> "Pipeline":
        """Open an existing run; `dataset` is what its settings would load, where that is at hand."""
        run = Run(path)
        config = run.config()
        images = config.data.name
        if images not in DATASETS and not Path(images).expanduser().exists():
            raise UraenasError(
                f"{run.path} was made with the data in {images}, which is not there: call from the directory it was "
                "made in, or, if they were moved, go on with: uraenas run … --set data.name=PLACE"
            )
        return cls(run, config, progress, dataset)

    @property
    def measured(self) -> Dataset:
        """What is evaluated on."""
        return self.task.measured_on(self.config.evaluate.part)

    def _check_data(self) -> None:
        """The images must be those the run began with."""
        known = self.run.data()
        if known is not None and not known.fits(self.task.facts):
            raise UraenasError(
                f"{self.run.path} was made with other {known.example}s than {self.task.dataset.name} holds now"
                f"{known.unlike(self.task.facts)}; choose another directory (--out)"
            )

    def check_evaluation(self) -> None:
        """What evaluation will need is there and fits, before anything is trained for it."""
        task, settings = self.task, self.config.evaluate
        require_suite_fits(self.measured.test, settings)
        at_test_time.require_possible(settings.test_time, task.space, task.dataset.flip, task.dataset.padding)
        outside_images(self.config, self.task.dataset)

    def notes(self) -> list[str]:
        """What was done to the data, and settings that can hardly work: what a user should know before it starts."""
        notes = advice(self.config, self.task)
        if self.search_of is None and not self.run.has_search:
            notes += on_search(self.config, self.task)
        if self.remeasured:
            notes.append(f"the run is measured anew: {in_words(self.remeasured)}")
        if self.config.needs_search and (taken := search_taken_from(self.run)):
            own = "" if self.config.train.teacher else "; to search on this data: --search-of none"
            notes.append(f"architectures come from the search of {taken}{own}")
        if why := self.engine.why_no_kernels(self.task.space):
            notes.append(f"own kernels do not fit, PyTorch's operations run instead: {why}")
        return notes

    def forecast(self, evaluating: bool = True, patience: float = PATIENCE) -> Forecast:
        """How long what is left will take, from a few steps that are run and thrown away."""
        searched = (self.search_of or self.run).searched()
        rates = Rates(self.config, self.task, self.engine, searched, patience)
        with self.engine.threads():
            found = forecast(self.config, self.task, self.run, rates, evaluating)
        del rates
        self.engine.release_memory()
        return found

    # Stage 1

    def search(self) -> Searched | None:
        """The learned distribution; searched for only where some method of the run needs it."""
        config, task, parts = self.config, self.task, self.config.search
        if parts is None:
            return None
        found = self.run.searched()
        if found is not None:
            self.run.remove(SEARCH_STATE)  # a kill may have come between its end and this
            self.watch("search", found.history)
            return found
        if not config.needs_search:
            return None
        self.place.prepare(self.work)
        own = task.for_search(parts.settings.validation, self.engine)
        loop = LOOPS[parts.distribution.loop]
        elsewhere = None
        if loop.asks:
            elsewhere = self.place.asked(self.work, self.progress)
        else:
            self.place.begin(self._runner, self._searched_for_none())
        searching = loop.begin(parts, own, self.checkpoints.search(), elsewhere)
        found = Searcher(self.work, self.progress).search(searching, self.place.beat)
        epochs, settings = searching.epoch, parts.settings
        if not searching.done:
            self.left_out.append(f"the search was ended after {epochs} of {settings.units} {settings.unit}")
        self.run.write_searched(found, parts.settings.distribution, epochs=epochs, seed=config.seed)
        self.run.log("searched", genotype=str(found.expected))
        del searching
        self.engine.release_memory()
        return found

    def _searched_for_none(self) -> list[ChainSpec]:
        """Chains that do not depend on a search."""
        methods = [name for name in self.config.methods if not self.config.method(name).needs_search]
        planned = self._planned(None, methods)
        return list({spec.name: spec for specs, _ in planned.values() for spec in specs}.values())

    # Stage 2

    def train(self, searched: Searched | None) -> None:
        """Run every chain that some method asks for, each once, then give the methods their members."""
        if plans := self._plans(searched):
            specs = {spec.name: spec for planned in plans.values() for spec in planned}
            runner = self._runner
            if not self.place.train(runner, list(specs.values())):
                plans = self._in_time(runner, plans, len(specs))
            self._choose(plans)

    def _in_time(
        self, runner: ChainRunner, plans: Mapping[str, Sequence[ChainSpec]], count: int
    ) -> dict[str, list[ChainSpec]]:
        """The chains that methods have when time is up; a method that has none is left out."""
        usable = {name: runner.usable(specs) for name, specs in plans.items()}
        found = {name: specs for name, specs in usable.items() if specs}
        left = [name for name in self.config.methods if name in found or self.run.is_trained(name)]
        if not left:
            raise UraenasError(
                f"time was up before a network was trained; {self.run.path} holds how far it came, and the same "
                "command goes on from there"
            )
        used = {spec.name: self.checkpoints.has_finished(spec) for specs in found.values() for spec in specs}
        finished = sum(used.values())
        others = f"{len(used) - finished} more" if finished else f"{len(used)}"
        rest = f"; {others} are used as far as they came" if finished < len(used) else ""
        room = self.progress.room("train")
        why = f"{as_time(room)} were left, too few for other chains" if room > 0 else "time was up"
        self.left_out.append(f"{why}: {finished} of {count} chains are trained to their end{rest}")
        if missing := [name for name in self.config.methods if name not in left]:
            self.left_out.append(f"without members, and left out: {', '.join(missing)}")
            self.config = self.config.only(*left)
        return found

    def choose(self, searched: Searched | None) -> None:
        """Give the methods their members from chains that are there already; none is trained."""
        plans = self._plans(searched)
        self.checkpoints.require_finished(plans)
        self._choose(plans)

    @property
    def _runner(self) -> ChainRunner:
        return ChainRunner(self.work, self.progress)

    def _choose(self, plans: Mapping[str, Sequence[ChainSpec]]) -> None:
        chooser, clock = Chooser(self.work), Clock()
        for number, (name, planned) in enumerate(plans.items()):
            self.progress("members", number, len(plans))
            with self.engine.threads():
                chooser.choose(self.config.method(name), planned)
            self.run.costs.add({f"members/{name}": {"seconds": clock.lap()}})
            self.progress("members", number + 1, len(plans))

    def _plans(self, searched: Searched | None) -> dict[str, list[ChainSpec]]:
        """The chains of each method that has no members yet."""
        planned = self._planned(searched)
        for name, (specs, redrawn) in planned.items():
            self.run.log("planned", method=name, chains=len(specs), disconnected_draws=redrawn)
        return {name: specs for name, (specs, _) in planned.items()}

    def _planned(
        self, searched: Searched | None, methods: Sequence[str] | None = None
    ) -> dict[str, tuple[list[ChainSpec], int]]:
        config = self.config
        asked = config.methods if methods is None else methods
        missing = [name for name in asked if not self.run.is_trained(name)]
        known = (self.task.space, searched, config.seed, self.task.starts)
        plans = {name: plan_chains(config.method(name), config.ensemble, *known) for name in missing}
        if self.chains_of is None:
            return plans
        # Which architecture a chain has may depend on how many there are: they are as many as were trained.
        ensemble = self.chains_of.config().ensemble
        trained = {name: plan_chains(config.method(name), ensemble, *known)[0] for name in missing}
        return {
            name: ([*trained[name][: len(specs)], *specs[len(trained[name]) :]], redrawn)
            for name, (specs, redrawn) in plans.items()
        }

    # Stage 3

    def evaluate(self) -> Metrics:
        """Measure all methods on the clean and the shifted test set; writes and returns metrics.json."""
        self.check_evaluation()
        with self.engine.threads():
            return self._evaluated()

    def _evaluated(self) -> Metrics:
        judge = Judge(self.work)
        total = cell_count(self.measured.test, self.config.evaluate)
        cells: list[Cell] = []
        clock = Clock()
        self.progress("evaluate", 0, total)
        judged = self.place.judge(judge, self.progress)
        for cell in judge.cells():
            cells.append(cell)
            self.progress("evaluate", max(judged, len(cells)), total)
            if len(cells) < total and self.progress.room("evaluate") < 0:
                cells = cells[:1]  # a part of a suite would be taken for the whole
                self.left_out.append(
                    f"time was up: shifted images were left out ({self.config.evaluate.suite})"
                )
                self.config = override(self.config, {"evaluate.suite": "none"})
                break
        self.run.costs.add({"evaluate": {"seconds": clock.lap()}})
        result, replicates = summarise(cells)
        result = replace(
            result,
            rows=result.rows + judge.outside_rows(),
            diverged=self.checkpoints.diverged() + self._diverged_elsewhere(),
            settings=measuring(self.config),
        )
        self.run.write_outcome(result, replicates)
        return result

    def _diverged_elsewhere(self) -> list[Diverged]:
        """What is known of chains that are not here, in a copy of a run."""
        here = self.run.chains.names()
        return [one for one in self._known().diverged if one.chain not in here]

    def _known(self) -> Metrics:
        """What was measured before, if that is there and whole; otherwise it is about to be written."""
        try:
            return self.run.metrics()
        except UraenasError:
            return Metrics([])


def _with_earlier_settings(run: Run, config: Config) -> Config:
    """The config, with settings of methods that the run had before; a directory that does not fit is refused."""
    if not run.exists:
        if not run.is_free:
            raise UraenasError(
                f"{run.path} exists and is not a run directory; choose another directory (--out)"
            )
        return config
    before = run.config()
    changed = differences(before, config)
    if run.data() is None and before.data.name != config.data.name:  # nothing else knows the images again
        changed["data.name"] = (before.data.name, config.data.name)
    if changed:
        raise UraenasError(
            f"{run.path} was made with other settings: {in_words(changed)}; give those it had, a --budget too, or "
            "choose another directory (--out)"
        )
    kept = {key: value for key, value in before.every.items() if key not in config.values}
    return Config(config.values, kept)
