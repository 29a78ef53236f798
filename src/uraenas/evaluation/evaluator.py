"""Ensemble × evaluation set → rows.

The unit of work is a cell: one evaluation set, all methods. A cell's rows and bootstrap replicates are small, so a
suite of any size streams through; `summarise` makes suite means, intervals and paired differences from cells alone.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.evaluation import metrics
from uraenas.evaluation.measures import MEASURES, Measures
from uraenas.evaluation.row import Row
from uraenas.evaluation.separation import PREFIX
from uraenas.evaluation.sets import SEED, EvaluateSettings, EvaluationSet
from uraenas.evaluation.temperature import Temperature

TURNED_AWAY = 0.05  # p-values up to this


@dataclass(frozen=True)
class Judged:
    """What evaluation needs to know of one method's ensemble."""

    log_probabilities_MNK: Tensor
    architectures: Sequence[Hashable]  # of the members: equal for those that compute the same function
    chains: Sequence[str]
    temperature: Temperature
    # [N] by name, larger for images from elsewhere
    scores: Mapping[str, Tensor] = field(default_factory=dict)
    p_values: Tensor | None = None  # [N], how often an image like those of the training looks so
    least_p: float = 0.0  # no p-value can be smaller: so few images were held out
    at_test_time: Mapping[str, Tensor] = field(default_factory=dict)  # [M, N, K], predicted in other ways

    @property
    def all_scores(self) -> dict[str, Tensor]:
        """With those of uncertainty."""
        return {**_uncertainty_scores(self), **self.scores}


@dataclass(frozen=True)
class Cell:
    """The results on one evaluation set."""

    shift: str
    severity: int
    rows: list[Row] = field(default_factory=list)
    replicates: dict[str, Tensor] = field(default_factory=dict)  # "method/calibration/metric" → [resamples]
    temperatures: dict[str, Temperature] = field(default_factory=dict)  # by method
    images: str = ""  # the evaluation set's checksum

    def add(self, other: "Cell") -> None:
        """Take over another's results on the same set."""
        self.rows.extend(other.rows)
        self.replicates.update(other.replicates)
        self.temperatures.update(other.temperatures)


class Evaluator:
    """Measures cells with the same bootstrap resamples and the same member subsets for all of them."""

    def __init__(
        self,
        settings: EvaluateSettings,
        seed: int,
        device: torch.device | str = "cpu",
        measures: Measures = MEASURES["classes"],
    ) -> None:
        self.settings, self.seed, self.device, self.measures = settings, seed, device, measures
        self._resamples: Tensor | None = None
        self._drawn_subsets: dict[tuple[int, int], Tensor] = {}  # by number of members and size

    def cell(self, where: EvaluationSet, judged: Mapping[str, Judged]) -> Cell:
        """Rows and replicates of all methods on one evaluation set."""
        labels = torch.from_numpy(where.part.labels).to(self.device)
        rows: list[Row] = []
        replicates: dict[str, Tensor] = {}
        for name, ensemble in judged.items():
            place = (name, where.dataset, where.shift, where.severity)
            log_p = ensemble.log_probabilities_MNK.to(self.device)
            mean = self.measures.mean(log_p)
            made = {"raw": mean, "temperature": self.measures.scaled(mean, ensemble.temperature)}
            for kind, other in ensemble.at_test_time.items():
                made[kind] = self.measures.mean(other.to(self.device))
            for kind, prediction in made.items():
                rows += self._rows(place, self.measures.of(prediction, labels), len(log_p), kind)
                for metric, replicate in self._bootstrap(prediction, labels).items():
                    replicates[f"{name}/{kind}/{metric}"] = replicate.cpu()
            among = self.measures.of_members(log_p, ensemble.architectures, ensemble.chains)
            rows += self._rows(place, among, len(log_p), "raw")
            for size in range(1, len(log_p)):
                found = self.measures.of_subsets(log_p, labels, self._subsets(len(log_p), size))
                rows += self._rows_of_subsets(place, found, size)
        temperatures = {name: ensemble.temperature for name, ensemble in judged.items()}
        return Cell(where.shift, where.severity, rows, replicates, temperatures)

    def outside(
        self, dataset: str, other: str, inside: Mapping[str, Judged], outside: Mapping[str, Judged]
    ) -> list[Row]:
        """How well each method tells another dataset's images from the test images.

        By each score; and the shares of images with a p-value of at most 5 %, which are turned away. Where
        held-out images are too few for such a p-value, shares of 0 would say nothing: the least p stands instead.
        """
        rows: list[Row] = []
        for name in inside:
            place = (name, dataset, f"{PREFIX}{other}", 0)
            members = len(inside[name].log_probabilities_MNK)
            images = outside[name].log_probabilities_MNK.shape[1]
            rows += self._rows(place, {"images": float(images)}, members, "raw")
            if (least := inside[name].least_p) > TURNED_AWAY:
                rows += self._rows(place, {"least_p": least}, members, "raw")
            scores = [one.all_scores for one in (inside[name], outside[name])]
            for words, one in (("false_alarms", inside[name]), ("turned_away", outside[name])):
                if one.p_values is not None and one.least_p <= TURNED_AWAY:
                    share = float((one.p_values <= TURNED_AWAY).double().mean())
                    rows += self._rows(place, {words: share}, members, "raw")
            for score in scores[0]:
                values = metrics.separation(scores[0][score], scores[1][score])
                named = {f"{measure}_{score}": value for measure, value in values.items()}
                rows += self._rows(place, named, members, "raw")
        return rows

    def _rows(
        self, place: tuple[str, str, str, int], values: Mapping[str, float], members: int, kind: str
    ) -> list[Row]:
        return [Row(*place, metric, value, members, kind, self.seed) for metric, value in values.items()]

    def _rows_of_subsets(
        self, place: tuple[str, str, str, int], values: Mapping[str, Tensor], members: int
    ) -> list[Row]:
        """Means over subsets [S], and their standard deviations."""
        return [
            Row(
                *place,
                metric,
                float(one.mean()),
                members,
                "raw",
                self.seed,
                spread=float(one.std(correction=0)),
            )
            for metric, one in values.items()
        ]

    def _subsets(self, members: int, size: int) -> Tensor:
        """[S, M], 1 where a member is in a subset; drawn once, since drawing takes longer than measuring."""
        if (members, size) not in self._drawn_subsets:
            drawn = self._draw_subsets(members, size).to(self.device)
            self._drawn_subsets[members, size] = drawn
        return self._drawn_subsets[members, size]

    def _draw_subsets(self, members: int, size: int) -> Tensor:
        if size == 1:
            return torch.eye(members, dtype=torch.float64)
        key = draws.key(self.seed, "subsets", members, size)
        chosen = [draws.permutation(draws.at(key, n), members)[:size] for n in range(self.settings.subsets)]
        return torch.zeros(len(chosen), members, dtype=torch.float64).scatter_(1, torch.stack(chosen), 1.0)

    def _bootstrap(self, prediction: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Each metric on every resample of the images."""
        if self.settings.bootstrap == 0:
            return {}
        return self.measures.bootstrap(prediction, labels, self._counts(len(labels)))

    def _counts(self, images: int) -> Tensor:
        """How often each image occurs in each resample; equal for all methods, shifts and runs, so that they pair."""
        if self._resamples is None or self._resamples.shape[1] != images:
            key = draws.key(SEED, "bootstrap")
            counts = [
                torch.bincount(draws.integers(draws.at(key, number), images, images), minlength=images)
                for number in range(self.settings.bootstrap)
            ]
            self._resamples = torch.stack(counts).float().to(self.device)
        return self._resamples


def _uncertainty_scores(judged: Judged) -> dict[str, Tensor]:
    """Scores that should be larger for images from elsewhere."""
    split = metrics.uncertainty_by_source(judged.log_probabilities_MNK, judged.architectures)
    confidence = metrics.mixture(judged.log_probabilities_MNK).max(dim=1).values.exp()
    scores = {"confidence": 1 - confidence, "total_uncertainty": split.total}
    return {**scores, "model_uncertainty": split.model} if len(judged.log_probabilities_MNK) > 1 else scores
