"""Stage 3, evaluation: each method is judged once on each evaluation set, and what was found is kept in the run.

What is kept says what it was made from, so it is used as long as that is the same: predictions of the same members for
the same images, and rows measured in the same way from these.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.base.errors import DamagedFile, UraenasError
from uraenas.base.fields import Fields, is_table
from uraenas.base.files import digest_of
from uraenas.data import Dataset, LabelledImages, fit_images, in_units_of, load_images
from uraenas.ensemble import Ensemble, SharedPredictor, at_test_time
from uraenas.evaluation import (
    SEED,
    Cell,
    EvaluationSet,
    Evaluator,
    Judged,
    References,
    Row,
    evaluation_sets,
    set_names,
)
from uraenas.evaluation.temperature import stored_temperature
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.work import Work

DRAWN_SCORES = ("foreign", "total_uncertainty")  # that are kept, for histograms


class Judge:
    """Predicts with the methods of a run and measures what they say."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.config, self.task, self.engine = config, task, engine = work.config, work.task, work.engine
        self.dataset = task.measured_on(config.evaluate.part)
        self.evaluator = Evaluator(config.evaluate, config.seed, engine.device, task.measures)
        self._kept: SharedPredictor | None = None
        self._told: dict[str, Cell] = {}  # found elsewhere, by name of the set

    @property
    def run(self) -> Run:
        return self.work.run

    def cells(self) -> Iterator[Cell]:
        """The evaluation sets one by one; methods that have been judged on one before are not judged again."""
        rest = self._sets([name for name in self.names if name not in self._told])
        for name in self.names:
            yield self._told[name] if name in self._told else self._cell(next(rest))

    @property
    def names(self) -> list[str]:
        """Of the evaluation sets."""
        return set_names(self.dataset.name, self.dataset.test, self.config.evaluate)

    def unjudged(self) -> list[str]:
        """The evaluation sets on which some method has not been judged yet, as far as files tell."""
        return [
            name
            for name in self.names
            if not all(self.run.has(self.run.cell_file(method, name)) for method in self.config.methods)
        ]

    def found(self, names: Collection[str]) -> Iterator[dict[str, Any]]:
        """Judge on the sets of these names, one by one, and say in plain data what another process can `take`."""
        for where in self._sets(names):
            cell = self._cell(where)
            plain = {name: one.numpy() for name, one in cell.replicates.items()}
            yield {where.name: {**vars(cell), "replicates": plain}}

    def take(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Let `cells` give what was found elsewhere: it makes neither the images again nor the references."""
        for name, facts in found.items():
            replicates = {key: torch.tensor(one) for key, one in facts["replicates"].items()}
            self._told[name] = Cell(**{**facts, "replicates": replicates})

    def _sets(self, names: Collection[str]) -> Iterator[EvaluationSet]:
        return evaluation_sets(self.dataset.name, self.dataset.test, self.config.evaluate, names)

    def outside_rows(self) -> list[Row]:
        """Rows on images from elsewhere, where some are set, that should be told from the test images."""
        rows: list[Row] = []
        inside: dict[str, Judged] = {}
        for other, part in outside_images(self.config, self.dataset).items():
            inside = inside or self._look(self.dataset.test.images)
            outside = self._look(part.images)
            rows += self.evaluator.outside(self.dataset.name, other, inside, outside)
            for name in inside:
                both = {"inside": inside[name].all_scores, "outside": outside[name].all_scores}
                kept = {f"{where}.{s}": both[where][s].float() for where in both for s in DRAWN_SCORES}
                self.run.write_tensors(self.run.scores_file(name, other), kept, {})
        return rows

    def _look(self, images: np.ndarray) -> dict[str, Judged]:
        """What the methods say of images, with all scores by which these may look foreign."""
        found = {}
        for name, (log_p, features) in self._predictor(tuple(self._ensembles)).look(images).items():
            known = self._ensembles[name].require_known()
            scores = known.scores_of(log_p, features, self.task.measures)
            foreign = {"foreign": known.joined(scores)}
            distances = {key: score for key, score in scores.items() if key != "uncertainty"}
            judged = self._judged(name, log_p, {**foreign, **distances})
            found[name] = replace(judged, p_values=known.p_values(scores), least_p=known.least_p)
        return found

    def _judged(
        self,
        name: str,
        log_p: Tensor,
        scores: Mapping[str, Tensor] | None = None,
        others: Mapping[str, Tensor] | None = None,
    ) -> Judged:
        ensemble = self._ensembles[name]
        chains = [member.origin.chain for member in ensemble.members]
        facts = (ensemble.functions, chains, ensemble.temperatures)
        return Judged(log_p, *facts, scores or {}, at_test_time=others or {})

    @cached_property
    def _ensembles(self) -> dict[str, Ensemble]:
        return {name: self.run.ensemble(name) for name in self.config.methods}

    @cached_property
    def _references(self) -> References | None:
        """Fitted anew by each evaluation: that takes seconds."""
        task = self.task
        wanted = self.config.evaluate.references and task.references
        return References(*task.disjoint, task.normalisation.target, self.config.seed) if wanted else None

    def _cell(self, where: EvaluationSet) -> Cell:
        cell = self._own_cell(where)
        if self._references is not None:
            cell.add(self.evaluator.cell(where, self._references.judged(where.part.images)))
        return cell

    def _own_cell(self, where: EvaluationSet) -> Cell:
        """Without the references, of which nothing is kept."""
        files = {name: self.run.cell_file(name, where.name) for name in self._ensembles}
        cell = Cell(where.shift, where.severity, images=where.checksum)
        known = {name: self._read_cell(file, name, where) for name, file in files.items()}
        judged = self._judge(where, tuple(name for name, own in known.items() if own is None))
        for name, file in files.items():
            own = known[name]
            if own is None:
                own = self.evaluator.cell(where, {name: judged[name]})
                facts = {
                    "rows": [row.as_json() for row in own.rows],
                    "temperatures": own.temperatures,
                    "made_from": self._rows_from(name, where),
                }
                self.run.write_tensors(file, own.replicates, facts)
            cell.add(own)
        return cell

    def _read_cell(self, file: str, name: str, where: EvaluationSet) -> Cell | None:
        """What a method was found to be before."""
        found = self._read(file, self._rows_from(name, where))
        if found is None or (where.shift == "none" and self._predicted(name, where) is None):
            return None  # the page is drawn from predictions for the clean set
        replicates, header = found
        try:
            rows = Row.all_of(file, header.list_of("rows", is_table, "rows"))
            temperature = stored_temperature(header.table("temperatures"), name, 1e-9)
            if any(one.shape != (self.config.evaluate.bootstrap,) for one in replicates.values()):
                return None
        except DamagedFile:
            return None  # it can be made again
        return Cell(where.shift, where.severity, rows, replicates, {name: temperature})

    def _predicted(self, name: str, where: EvaluationSet) -> Tensor | None:
        """What a method predicted before."""
        found = self._read(self.run.predictions_file(name, where.name), self._predictions_from(name, where))
        log_p = None if found is None else found[0].get("log_probabilities")
        shape = (len(self._ensembles[name]), len(where.part), self.task.space.shape.classes)
        return log_p if log_p is not None and log_p.shape == shape and torch.isfinite(log_p).all() else None

    def _judge(self, where: EvaluationSet, methods: tuple[str, ...]) -> dict[str, Judged]:
        files = {name: self.run.predictions_file(name, where.name) for name in methods}
        log_p: dict[str, Tensor] = {}
        for name in files:
            if (found := self._predicted(name, where)) is not None:
                log_p[name] = found
        if missing := tuple(name for name in methods if name not in log_p):
            log_p |= self._predictor(missing)(where.part.images)
            for name in missing:
                if not torch.isfinite(log_p[name]).all():
                    raise UraenasError(
                        f"{name} predicts what is not finite on {where.name}; leave it out (methods)"
                    )
        if self.config.evaluate.keep_predictions or where.shift == "none":
            for name in missing:
                facts = {"made_from": self._predictions_from(name, where)}
                self.run.write_tensors(files[name], {"log_probabilities": log_p[name]}, facts)
        others = self._at_test_time(where, methods)
        return {
            name: self._judged(name, log_p[name], others={way: p[name] for way, p in others.items()})
            for name in self._ensembles
            if name in methods
        }

    def _at_test_time(self, where: EvaluationSet, methods: tuple[str, ...]) -> dict[str, dict[str, Tensor]]:
        """Predictions by other ways and by method; they are made when rows are, and not kept."""
        if not methods:
            return {}
        images, facts = where.part.images, (self.dataset.flip, self.dataset.padding)
        return {
            way: at_test_time.predicted(way, self._predictor(methods), images, *facts)
            for way in self.config.evaluate.test_time
        }

    def _read(self, file: str, made_from: str) -> tuple[dict[str, Tensor], Fields] | None:
        """Tensors and header of a file, if it is there, whole, and was made from the same."""
        if not self.run.has(file):
            return None
        try:
            tensors, header = self.run.read_tensors(file)
        except UraenasError:
            return None  # it can be made again
        return (tensors, header) if header.stored.get("made_from") == made_from else None

    def _predictions_from(self, name: str, where: EvaluationSet) -> str:
        return digest_of(self._ensembles[name].identity, where.checksum)

    def _rows_from(self, name: str, where: EvaluationSet) -> str:
        settings = self.config.evaluate
        return digest_of(
            self._predictions_from(name, where),
            SEED,
            settings.bootstrap,
            settings.subsets,
            *settings.test_time,
            *self.task.measures.names,
        )

    def _predictor(self, methods: tuple[str, ...]) -> SharedPredictor:
        """The last one is kept: mostly all sets lack the same methods."""
        if self._kept is None or tuple(self._kept.ensembles) != methods:
            self._kept = SharedPredictor({name: self._ensembles[name] for name in methods}, self.engine)
        return self._kept


def outside_images(config: Config, dataset: Dataset) -> dict[str, LabelledImages]:
    """The images that should be told apart, by name, in the form of the test images; their labels are not looked at."""
    height, width, channels = dataset.test.images.shape[1:]
    found: dict[str, LabelledImages] = {}
    if config.evaluate.outsiders and dataset.columns is not None:
        raise UraenasError("evaluate.outside names images from elsewhere, and a table has rows; leave it out")
    for place in config.evaluate.outsiders:
        size = (height, width)
        name, images = load_images(place, config.data.root, size, config.data.skip_unreadable)
        if name in found:
            raise UraenasError(f"evaluate.outside names two sets called {name}; rename one, or choose one")
        images = in_units_of(fit_images(images, height, width, channels), dataset.test.images.dtype)
        found[name] = LabelledImages(images, np.zeros(len(images), np.int64))
    return found
