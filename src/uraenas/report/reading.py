"""What the report needs of a run, read from its directory once."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.architectures import Searched
from uraenas.base.errors import DamagedFile, UraenasError
from uraenas.data.dataset import LabelledImages
from uraenas.data.tables import Columns
from uraenas.ensemble import MemberFacts
from uraenas.ensemble.held_out import HeldOut
from uraenas.ensemble.residuals import Residuals
from uraenas.evaluation import (
    MEASURES,
    Measures,
    Metrics,
    Row,
    mean_names,
    rows_of_target,
    separations,
    sizes_of,
)
from uraenas.evaluation.metrics import confidence_bins, risk_at_coverage
from uraenas.evaluation.temperature import Temperature
from uraenas.learning.methods import Assembled
from uraenas.report.picked import PLACE, Picked, settings_of, trained
from uraenas.report.table import Column, columns_for
from uraenas.run.config import Config
from uraenas.run.directory import PRIMARY, REPLICATES, Run
from uraenas.run.facts import DataFacts
from uraenas.run.show import HEADLINE, NUMBER_HEADLINE

DIFFERENCE = attrgetter("method", "metric", "shift", "calibration")
KEY = attrgetter("method", "metric", "shift", "severity", "calibration", "members")


@dataclass(frozen=True, eq=False)
class RunFacts:
    """One run as the report sees it. What the directory does not hold is empty."""

    run: Run
    metrics: Metrics
    config: Config
    environment: dict[str, str | int]
    data: DataFacts
    costs: dict[str, dict[str, float]]
    searched: Searched | None
    members: dict[str, list[MemberFacts]]
    predictions: dict[str, Tensor]  # log-probabilities [M, N, K] on the clean test set
    held_out: dict[
        str, HeldOut
    ]  # what methods said of held-out images, where guarantees rest on some of them
    residuals: dict[str, Residuals]  # the same, where the target is a number
    test: LabelledImages | None
    differences: list[Row]  # paired, between all methods or to `against`
    against: str = ""  # the method differences are shown to; empty: as the settings say
    # of the primary method, by images from elsewhere
    scores: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)  # of chains, by epoch
    inputs: Columns | None = None  # of a table, as the primary method reads it
    target: str = ""  # the one of several that this is of, where it is of one

    @property
    def name(self) -> str:
        return self.run.path.resolve().name

    @property
    def rows(self) -> list[Row]:
        return self.metrics.rows

    @cached_property
    def main_rows(self) -> list[Row]:
        """All but those of single shifts."""
        return [row for row in self.rows if row.severity == 0]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run, and those it was measured with."""
        return settings_of(self.config, self.metrics)

    def functions(self, method: str) -> list[Hashable]:
        """What its members compute, equal where that is the same; none where members are not kept."""
        return [member.function for member in self.members.get(method, [])]

    def method(self, name: str) -> Assembled:
        """A method with its parts, also one that the run is no longer asked for."""
        return self.own_config(name).method(name)

    def own_config(self, method: str) -> Config:
        """The settings that this method has."""
        return self.config.only(method)

    @cached_property
    def replicates(self) -> dict[str, np.ndarray]:
        """The bootstrap's, by shift/method/calibration/metric; none where they are not there."""
        found = self.run.replicates() if self.run.has(REPLICATES) else {}
        return {name: one.double().numpy() for name, one in found.items()}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The methods of the run, each with its number of members."""
        return sizes_of(self.main_rows)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Of the table of methods."""
        return columns_for(self.main_rows)

    @cached_property
    def methods(self) -> list[str]:
        """Those that have members; references, which have none, stand in tables alone."""
        return trained(self.sizes)

    @cached_property
    def _index(self) -> dict[tuple, Row]:
        return dict(zip(map(KEY, self.rows), self.rows, strict=True))

    def row(
        self,
        method: str,
        metric: str,
        shift: str = "none",
        severity: int = 0,
        calibration: str = "raw",
        members: int | None = None,
    ) -> Row | None:
        """The row of metrics.json with this value, at full size unless told otherwise."""
        size = self.sizes[method] if members is None else members
        return self._index.get((method, metric, shift, severity, calibration, size))

    def value(
        self,
        method: str,
        metric: str,
        shift: str = "none",
        severity: int = 0,
        calibration: str = "raw",
        members: int | None = None,
    ) -> float | None:
        """Its value alone: asked for a hundred thousand times of a page of several runs."""
        size = self.sizes[method] if members is None else members
        row = self._index.get((method, metric, shift, severity, calibration, size))
        return None if row is None else row.value

    @cached_property
    def shifted(self) -> str | None:
        """The name of the widest suite mean."""
        return next(iter(mean_names(self.main_rows)), None)

    @property
    def places(self) -> dict[str, str]:
        """Where a headline figure is measured, by what readers call it."""
        plain = "test" if self.data.is_table else "clean"
        return {plain: "none"} | ({"shifted": self.shifted} if self.shifted else {})

    @cached_property
    def cells(self) -> list[tuple[str, int]]:
        """All (shift, severity) of shifted images."""
        return [place for place in dict.fromkeys(map(PLACE, self.rows)) if place[1] > 0]

    @cached_property
    def shifts(self) -> list[str]:
        return list(dict.fromkeys(shift for shift, _ in self.cells))

    @cached_property
    def severities(self) -> list[int]:
        return sorted({severity for _, severity in self.cells})

    @property
    def measured(self) -> int:
        """How many images or rows each value rests on."""
        return self.data.test_images if self.part == "test" else self.data.held_out_images

    @property
    def n(self) -> str:
        """The same in words."""
        return f"n = {self.measured:,}"

    @property
    def tested(self) -> str:
        """The same, and which they are."""
        return f"{self.n} {self.part} {self.examples}"

    @property
    def part(self) -> str:
        """Which it was measured on, in a word."""
        return "test" if self.settings["evaluate.part"] == "test" else "held-out"

    @property
    def examples(self) -> str:
        """What they are called: images or rows."""
        return f"{self.data.example}s"

    @property
    def summed(self) -> str:
        """What its seconds are, where several workers computed at a time."""
        workers = sum(item.startswith("workers/") for item in self.costs)
        return f"summed over {workers} workers" if workers > 1 else ""

    @property
    def classes(self) -> tuple[str, ...]:
        return self.data.classes

    @cached_property
    def primary(self) -> str:
        """The method that single-method sections show: the joint ensemble, or else the lowest clean NLL."""
        for name in PRIMARY:
            if name in self.methods:
                return name
        losses = {name: loss for name in self.methods if (loss := self.value(name, "nll")) is not None}
        return min(losses, key=losses.__getitem__)

    @cached_property
    def baseline(self) -> str | None:
        """The method differences are shown to, if this run has it."""
        wanted = self.against or self.config.evaluate.baseline
        return wanted if any(row.baseline == wanted for row in self.differences) else None

    @cached_property
    def _differences(self) -> dict[tuple[str, str, str, str], Row]:
        return {DIFFERENCE(row): row for row in self.differences if row.baseline == self.baseline}

    def difference(self, method: str, metric: str, shift: str, calibration: str = "raw") -> Row | None:
        """That of a method to the baseline, if there are any."""
        return self._differences.get((method, metric, shift, calibration))

    @property
    def _measures(self) -> Measures:
        return MEASURES["classes" if self.classes else "numbers"]

    @cached_property
    def _raw(self) -> dict[str, Tensor]:
        return {name: self._measures.mean(said) for name, said in self.predictions.items()}

    @cached_property
    def _scaled(self) -> dict[str, Tensor]:
        temperatures = self.metrics.temperatures
        return {name: self._measures.scaled(raw, temperatures[name]) for name, raw in self._raw.items()}

    def prediction(self, method: str, kind: str = "raw") -> Tensor:
        """What the ensemble says of the test set: of classes log-probabilities [N, K], of a number [M, N, 2]."""
        return (self._raw if kind == "raw" else self._scaled)[method]

    @cached_property
    def risks(self) -> dict[str, Tensor]:
        """The error rate of each method among its n most confident test images, n = 1 … N."""
        judged = {name: confidence_bins(log_p, self.labels) for name, log_p in self._raw.items()}
        return {name: risk_at_coverage(confidence, right) for name, (_, confidence, right) in judged.items()}

    @cached_property
    def by_target(self) -> "list[RunFacts]":
        """The same of each target by itself, as if there were no other."""
        found = []
        for k, column in enumerate(self.data.targets):
            temperatures = {name: _at(one, k) for name, one in self.metrics.temperatures.items()}
            rows, differences, shown = (
                rows_of_target(some, column)
                for some in (self.metrics.rows, self.metrics.differences, self.differences)
            )
            metrics = replace(self.metrics, rows=rows, differences=differences, temperatures=temperatures)
            own = replace(
                self,
                metrics=metrics,
                differences=shown,
                data=replace(self.data, targets=()),
                predictions={name: one[..., 2 * k : 2 * k + 2] for name, one in self.predictions.items()},
                residuals={name: one.by_target[k] for name, one in self.residuals.items()},
                test=None if self.test is None else replace(self.test, labels=self.test.labels[:, k].copy()),
                target=column,
            )
            found.append(own)
        return found or [self]

    @property
    def unit(self) -> str:
        """Of uncertainty."""
        if self.data.targets:
            return "variance in standard units"
        return "nats" if self.classes else "variance"

    @property
    def total(self) -> str:
        """What the total uncertainty is."""
        if self.data.targets:
            return "variance of the prediction, mean over targets"
        return "entropy of the mean prediction" if self.classes else "variance of the prediction"

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics that tiles and figures show first."""
        return HEADLINE if self.classes else NUMBER_HEADLINE

    @property
    def labels(self) -> Tensor:
        assert self.test is not None  # predictions are read only where there are labels
        return torch.from_numpy(self.test.labels)


def read(
    run: Run,
    test: LabelledImages | None = None,
    against: str = "",
    methods: Sequence[str] = (),
    lacking: bool = False,
) -> RunFacts:
    """Read all that the page shows, of these methods or of all.

    The labelled test set is needed for what is drawn from predictions. A run that may be `lacking` the method `against`
    shows differences as its settings say.
    """
    picked = Picked(run, methods)
    if against and lacking and against not in sizes_of(picked.metrics.rows):
        against = ""
    if picked.data is None:
        raise UraenasError(f"{run.path} does not say with which data it was made; run the same command again")
    methods = trained(picked.methods)
    if not methods:
        raise UraenasError(f"a page needs a trained method; {', '.join(picked.methods)} have no members")
    dataset = picked.rows[0].dataset
    promising = _promising(run, methods)
    facts = RunFacts(
        run=run,
        metrics=picked.found,
        config=picked.config,
        environment=run.environment(),
        data=picked.data,
        costs=run.costs.read(),
        searched=run.searched(),
        members={name: run.member_facts(name) for name in methods},
        predictions={} if test is None else _predictions(run, picked, dataset, test),
        held_out={name: one for name, one in promising.items() if isinstance(one, HeldOut)},
        residuals={name: one for name, one in promising.items() if isinstance(one, Residuals)},
        test=test,
        differences=picked.differences(against),
        against=against,
        losses=run.losses(),
    )
    scores = _scores(run, facts.primary, facts.main_rows)
    return replace(facts, scores=scores, inputs=run.inputs(facts.primary))


def _at(temperature: Temperature, place: int) -> Temperature:
    """That of a target, where each has its own."""
    return temperature[place] if isinstance(temperature, tuple) else temperature


def _scores(run: Run, method: str, rows: Sequence[Row]) -> dict[str, dict[str, Tensor]]:
    """What images from elsewhere and test images were told apart by, where it was kept."""
    found = {}
    for one in separations(rows):
        if one.method == method and run.has(file := run.scores_file(method, one.other)):
            found[one.other] = run.read_tensors(file)[0]
    return found


def _promising(run: Run, methods: Sequence[str]) -> dict[str, HeldOut | Residuals]:
    """What is known of held-out images, where some of them are apart."""
    found = {}
    for name in methods:
        try:
            known = run.known(name)
        except UraenasError:
            continue  # the page can do without
        if known is not None and known.held_out is not None and known.held_out.images_apart:
            found[name] = known.held_out
    return found


def _predictions(run: Run, picked: Picked, dataset: str, test: LabelledImages) -> dict[str, Tensor]:
    found = {}
    sizes, classes = picked.sizes, picked.data.outputs if picked.data else 0
    if test.labels.dtype == np.int64 and test.labels.max() >= classes:
        raise UraenasError(f"{run.path} knows {classes} classes, and its test images have others")
    for name in picked.methods:
        file = run.predictions_file(name, dataset)
        if run.has(file):
            log_p = run.read_tensors(file, ["log_probabilities"])[0]["log_probabilities"]
            with run.mending(file):
                fits = log_p.ndim == 3 and (len(log_p), log_p.shape[2]) == (sizes[name], classes)
                if not fits or not log_p.is_floating_point() or not torch.isfinite(log_p).all():
                    raise DamagedFile(f"{run.path / file} does not hold predictions")
            if log_p.shape[1] == len(test):
                found[name] = log_p
    return found
