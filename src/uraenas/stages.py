"""The stages on a run directory: each goes on where it was cut off, and is skipped when its output is whole."""

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from uraenas.architecture import ArchitectureDistribution
from uraenas.chain_runner import ChainRunner
from uraenas.chains import ChainSpec, plan_chains
from uraenas.checkpoints import Checkpoints, saved_when_cut_short
from uraenas.choosing import Chooser
from uraenas.config import Config, differences, flatten, from_json, in_words, measured_otherwise, measuring
from uraenas.cost import Clock
from uraenas.data import DATASETS, Dataset
from uraenas.data.loader import suited_batch
from uraenas.engine import Engine
from uraenas.errors import UraenasError
from uraenas.evaluate import Cell, cell_count, require_suite_fits
from uraenas.handover import check_search, take_search
from uraenas.judging import Judge, outside_images
from uraenas.methods import method
from uraenas.progress import Progress, silent
from uraenas.report import build
from uraenas.run import Run
from uraenas.search import Search, SearchState, search
from uraenas.spaces import LARGEST, cost
from uraenas.summarise import summarise
from uraenas.task import describe_data, prepare
from uraenas.tensorboard import EventFiles
from uraenas.versions import environment

FEW_STEPS, ENOUGH_STEPS = 200, 1000  # of a chain, for networks as small as these


class Pipeline:
    """A run directory with its config, data and engine at hand."""

    def __init__(
        self, run: Run, config: Config, progress: Progress = silent, dataset: Dataset | None = None
    ) -> None:
        self.run, self.config, self.progress = run, config, progress
        self.events = EventFiles(run.path / "tensorboard") if config.tensorboard else None
        self.task = prepare(config, dataset)
        self.checkpoints = Checkpoints(run, config.train, self.task.skeleton, config.seed)
        self.remeasured: dict[
            str, tuple[Any, Any]
        ] = {}  # settings of metrics.json and now, where they differ
        self._check_data()

    @cached_property
    def engine(self) -> Engine:
        """Made when it is first needed: a run can be looked at where it could not be computed."""
        engine = Engine(self.config.engine)
        engine.require_room(cost(LARGEST, self.task.skeleton).parameters)
        return engine

    @classmethod
    def start(
        cls,
        path: Path | str,
        config: Config,
        progress: Progress = silent,
        dataset: Dataset | None = None,
        search_of: Run | None = None,
    ) -> "Pipeline":
        """Begin a run in this directory, or go on with the one that is there if its settings are the same.

        With `search_of` the run does not search, but takes what another has found.
        """
        run = Run(path)
        _require_fit_place(run, config)
        if any(method(name).weights != "point" and not run.is_trained(name) for name in config.methods):
            config.train.require_sampling_stage()
        pipeline = cls(run, config, progress, dataset)  # its checks come before anything is written
        device = pipeline.engine.device
        pipeline.check_evaluation()
        if search_of is not None:
            check_search(search_of, config, pipeline.data)
        with run.held():
            _require_fit_place(run, config)  # another process may have begun a run meanwhile
            pipeline._check_data()
            pipeline.remeasured = measured_otherwise(pipeline._known(), config)
            run.write_json("config.json", flatten(config))
            run.write_json("data.json", pipeline.data)
            run.write_json("environment.json", environment(device))
            if search_of is not None:
                take_search(run, search_of)
        return pipeline

    @classmethod
    def resume(cls, path: Path | str, progress: Progress = silent) -> "Pipeline":
        """Open an existing run."""
        run = Run(path)
        run.require()
        config = from_json(run.read_json("config.json"))
        images = config.data.name
        if images not in DATASETS and not Path(images).expanduser().exists():
            raise UraenasError(
                f"{run.path} was made with the images in {images}, which is not there: call from the directory it was "
                "made in, or, if they were moved, go on with: uraenas run … --set data.name=PLACE"
            )
        return cls(run, config, progress)

    @cached_property
    def data(self) -> dict[str, Any]:
        """What its images are known by."""
        return describe_data(self.task)

    def _check_data(self) -> None:
        """The images must be those the run began with."""
        if self.run.has("data.json") and self.run.read_json("data.json") != self.data:
            raise UraenasError(
                f"{self.run.path} was made with other images than {self.task.dataset.name} holds now; "
                "choose another directory (--out)"
            )

    def check_evaluation(self) -> None:
        """What evaluation will need is there and fits, before anything is trained for it."""
        require_suite_fits(self.task.dataset.test, self.config.evaluate)
        if self.config.evaluate.outside:
            outside_images(self.config, self.task.dataset)

    def notes(self) -> list[str]:
        """What was done to the data, and settings that can hardly work: what a user should know before it starts."""
        train, images = self.config.train, len(self.task.train)
        per_epoch = max(1, images // suited_batch(train.batch, images))
        notes = list(self.task.dataset.notes)
        if self.remeasured:
            notes.append(f"the run is measured anew: {in_words(self.remeasured)}")
        if per_epoch * train.epochs < FEW_STEPS:
            enough = train.epochs_for(-(-ENOUGH_STEPS // per_epoch))
            notes.append(
                f"{train.epochs} epochs of {images:,} images are {per_epoch * train.epochs} steps, too few to "
                f"learn well; train.epochs={enough} would be {per_epoch * enough:,}"
            )
        return notes

    # Stage 1

    def search(self) -> ArchitectureDistribution | None:
        """The learned distribution; searched for only where some method of the run needs it."""
        if not any(self.config.train.needs_search(method(name)) for name in self.config.methods):
            return None
        concentration, history = self.run.search_result()
        if concentration is not None:
            self.run.remove("search/state.safetensors")  # a kill may have come between its end and this
            self._watch("search", history)
            return ArchitectureDistribution(concentration)
        config, task = self.config, self.task
        train_half = task.loader(task.search_train, config.search.batch, self.engine)
        validation_half = task.loader(task.search_validation, config.search.batch, self.engine)
        state = self.checkpoints.search()
        searching = Search(
            config.search, task.skeleton, train_half, validation_half, self.engine, config.seed, state
        )
        images = 2 * train_half.steps * train_half.batch
        clock = Clock()

        def checkpoint(state: SearchState) -> None:
            unsaved["search"] = state
            self._watch("search", state.history)
            self.run.costs.add({"search": {"seconds": clock.lap(), "images": images}})
            if self.checkpoints.due(self.config.engine.checkpoint_seconds):
                self.checkpoints.store_search(state)
                del unsaved["search"]

        self.progress("search", searching.epoch, config.search.epochs)
        with saved_when_cut_short(self.checkpoints.store_search) as unsaved:
            state = search(searching, checkpoint, lambda done, total: self.progress("search", done, total))
        distribution = state.distribution
        self.checkpoints.write_history(state)
        self.run.write_tensors(
            "search/architecture.safetensors",
            {"concentration": distribution.concentration},
            {
                "genotype": str(distribution.expected_genotype()),
                "epochs": state.epoch,
                "seed": config.seed,
                "history": state.history,
            },
        )
        self.run.remove("search/state.safetensors")
        expected = distribution.expected_genotype()
        self.run.log("searched", genotype=str(expected))
        return distribution

    def _watch(self, name: str, history: Sequence[Mapping[str, Any]]) -> None:
        """Bring the history's event file up to date, where that was asked for."""
        if self.events is not None:
            self.events.update(name, history, time.time())

    # Stage 2

    def train(self, distribution: ArchitectureDistribution | None) -> None:
        """Run every chain that some method asks for, each once, then give the methods their members."""
        plans = {n: specs for n, specs in self._plans(distribution).items() if not self.run.is_trained(n)}
        if not plans:
            return
        specs = {spec.name: spec for planned in plans.values() for spec in planned}
        ChainRunner(
            self.run, self.config, self.task, self.engine, self.checkpoints, self._watch, self.progress
        ).run_all(list(specs.values()))
        chooser = Chooser(self.run, self.config, self.task, self.engine)
        clock = Clock()
        for name, planned in plans.items():
            chooser.choose(name, planned)
            self.run.costs.add({f"members/{name}": {"seconds": clock.lap()}})

    def _plans(self, distribution: ArchitectureDistribution | None) -> dict[str, list[ChainSpec]]:
        plans = {}
        for name in self.config.methods:
            plans[name], redrawn = plan_chains(
                method(name), self.config.train, distribution, self.config.seed
            )
            self.run.log("planned", method=name, chains=len(plans[name]), disconnected_draws=redrawn)
        return plans

    # Stage 3

    def evaluate(self) -> dict:
        """Measure all methods on the clean and the shifted test set; writes and returns metrics.json."""
        self.check_evaluation()
        judge = Judge(self.run, self.config, self.task, self.engine)
        total = cell_count(self.task.dataset.test, self.config.evaluate)
        cells: list[Cell] = []
        clock = Clock()
        self.progress("evaluate", 0, total)
        for cell in judge.cells():
            cells.append(cell)
            self.progress("evaluate", len(cells), total)
        self.run.costs.add({"evaluate": {"seconds": clock.lap()}})
        result, replicates = summarise(cells)
        result["rows"] += judge.outside_rows()
        result["diverged"] = self.checkpoints.diverged() + self._diverged_elsewhere()
        result["settings"] = measuring(self.config)
        self.run.write_outcome(result, replicates)
        return result

    def _diverged_elsewhere(self) -> list[dict[str, Any]]:
        """What is known of chains that are not here, in a copy of a run."""
        known = self._known().get("diverged", [])
        return [one for one in known if one["chain"] not in self.run.chains()]

    def _known(self) -> dict[str, Any]:
        """metrics.json, if it is there and whole; otherwise it is about to be written."""
        try:
            return self.run.metrics()
        except UraenasError:
            return {}

    # Stage 4

    def report(self, against: str = "") -> Path:
        """Write report.html from what the run directory holds."""
        self.run.write_text("report.html", build([(self.run, self.task.dataset.test)], against))
        return self.run.path / "report.html"


def _require_fit_place(run: Run, config: Config) -> None:
    """Refuse a directory that holds something else, or a run with other settings."""
    if not run.exists:
        if not run.is_free:
            raise UraenasError(
                f"{run.path} exists and is not a run directory; choose another directory (--out)"
            )
        return
    before = from_json(run.read_json("config.json"))
    changed = differences(before, config)
    if (
        not run.has("data.json") and before.data.name != config.data.name
    ):  # nothing else knows the images again
        changed["data.name"] = (before.data.name, config.data.name)
    if changed:
        words = in_words(changed)
        raise UraenasError(
            f"{run.path} was made with other settings: {words}; choose another directory (--out)"
        )
