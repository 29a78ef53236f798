"""Stage 3 on a run directory: each method is judged once on each evaluation set, and what was found is kept."""

from collections.abc import Iterator

import numpy as np

from uraenas.config import Config
from uraenas.data import Dataset, LabelledImages, fit_images, load_dataset
from uraenas.engine import Engine
from uraenas.ensemble import SharedPredictor
from uraenas.errors import UraenasError
from uraenas.evaluate import SEED, Cell, EvaluationSet, Evaluator, Judged, Row, evaluation_sets
from uraenas.run import Run
from uraenas.task import Task


class Judge:
    """Predicts with the methods of a run and measures what they say."""

    def __init__(self, run: Run, config: Config, task: Task, engine: Engine) -> None:
        self.run, self.config, self.dataset, self.engine = run, config, task.dataset, engine
        self.evaluator = Evaluator(config.evaluate, config.seed, engine.device)
        self._kept: SharedPredictor | None = None

    def cells(self) -> Iterator[Cell]:
        """The evaluation sets one by one; methods that have been judged on one before are not judged again."""
        name, test, config = self.dataset.name, self.dataset.test, self.config
        for where in evaluation_sets(name, test, config.evaluate):
            yield self._cell(where)

    def outside_rows(self) -> list[Row]:
        """Rows on images of another dataset, where one is set, that should be told from the test images."""
        if not self.config.evaluate.outside:
            return []
        name, methods = self.dataset.name, tuple(self.config.methods)
        other, part = outside_images(self.config, self.dataset)
        inside = self._judge(EvaluationSet(name, "none", 0, self.dataset.test), methods)
        outside = self._judge(EvaluationSet(name, f"outside-{other}", 0, part), methods)
        return self.evaluator.outside(name, other, inside, outside)

    def _cell(self, where: EvaluationSet) -> Cell:
        files = {name: f"methods/{name}/evaluation/{where.name}.safetensors" for name in self.config.methods}
        missing = tuple(name for name, file in files.items() if self._read(file, where) is None)
        for name, judged in self._judge(where, missing).items():
            own = self.evaluator.cell(where, {name: judged})
            facts = {"rows": own.rows, "temperatures": own.temperatures, "seed": SEED}
            self.run.write_tensors(files[name], own.replicates, facts)
        cell = Cell(where.shift, where.severity)
        for own in filter(None, (self._read(file, where) for file in files.values())):
            cell.rows.extend(own.rows)
            cell.replicates.update(own.replicates)
            cell.temperatures.update(own.temperatures)
        return cell

    def _read(self, file: str, where: EvaluationSet) -> Cell | None:
        """What a method was found to be before; older versions had other shifts and resamples for every seed."""
        if not self.run.has(file):
            return None
        replicates, header = self.run.read_tensors(file, ("rows", "temperatures"))
        if header.get("seed") != SEED:
            return None
        return Cell(where.shift, where.severity, header["rows"], replicates, header["temperatures"])

    def _judge(self, where: EvaluationSet, methods: tuple[str, ...]) -> dict[str, Judged]:
        if not methods:
            return {}
        predictor = self._predictor(methods)
        predictions = predictor(where.part.images)
        if self.config.evaluate.keep_predictions or where.shift == "none":
            for name, prediction in predictions.items():
                file = f"methods/{name}/predictions/{where.name}.safetensors"
                self.run.write_tensors(file, {"log_probabilities": prediction}, {})
        return {
            name: Judged(
                predictions[name],
                [member.genotype for member in ensemble.members],
                [member.origin.chain for member in ensemble.members],
                ensemble.temperature,
            )
            for name, ensemble in predictor.ensembles.items()
        }

    def _predictor(self, methods: tuple[str, ...]) -> SharedPredictor:
        """The last one is kept: mostly all sets lack the same methods."""
        if self._kept is None or tuple(self._kept.ensembles) != methods:
            self._kept = SharedPredictor({name: self.run.ensemble(name) for name in methods}, self.engine)
        return self._kept


def outside_images(config: Config, dataset: Dataset) -> tuple[str, LabelledImages]:
    """Name and images of the dataset that should be told apart; their labels are not looked at."""
    other = load_dataset(config.evaluate.outside, config.data.root, config.data.image_size)
    images = fit_images(other.test.images, *dataset.test.images.shape[1:])
    if images.dtype != dataset.test.images.dtype:
        raise UraenasError(f"{other.name} holds {images.dtype} images and {dataset.name} others; convert one")
    return other.name, LabelledImages(images, np.zeros(len(images), np.int64))
