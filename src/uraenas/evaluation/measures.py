"""How well a target was predicted, a row of MEASURES for each target: what the evaluator, members and ensembles ask.

A *prediction* is what an ensemble says as a whole: of classes log-probabilities [N, K], of a number the mixture of its
members' Gaussians [M, N, 2], of T numbers [M, N, T, 2]. A temperature flattens it: p^(1/temperature), normalised anew,
which makes a Gaussian's variance so many times as large. Each of several numbers has its own.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from uraenas.base.words import IN_UNITS
from uraenas.data.targets import Numbers, Target
from uraenas.evaluation import calibration, metrics, numbers
from uraenas.evaluation.architecture import PREFIX as ARCHITECTURE
from uraenas.evaluation.architecture import architecture_effect
from uraenas.evaluation.metrics import UncertaintyBySource
from uraenas.evaluation.temperature import Temperature, only

Value = TypeVar("Value", float, Tensor)

BOOTSTRAPPED = ("accuracy", "nll", "brier", "ece")  # of classes


class Measures(Protocol):
    """The protocol. Shapes: M members, N examples, S subsets of the members, R resamples of the examples."""

    def of_target(self, target: Target) -> "Measures":
        """The same, with what they must know of a target."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the metrics of a prediction."""

    def mean(self, members_MNK: Tensor) -> Tensor:
        """The prediction of an ensemble."""

    def scaled(self, prediction: Tensor, temperature: Temperature) -> Tensor: ...

    def fit(self, prediction: Tensor, labels_N: Tensor, weights_N: Tensor | None = None) -> Temperature:
        """The temperature of least NLL on held-out examples."""

    def of_more(self, temperature: Temperature, prediction: Tensor, members: int) -> Temperature:
        """The temperature of so many members, where it was fitted to this prediction, of as many or fewer."""

    def subset(self, prediction: Tensor, which_N: Tensor) -> Tensor:
        """The prediction for some of the examples."""

    def of(self, prediction: Tensor, labels_N: Tensor) -> dict[str, float]:
        """Each metric."""

    def of_members(
        self, members_MNK: Tensor, architectures: Sequence[Hashable], chains: Sequence[str]
    ) -> dict[str, float]:
        """How members differ, and mean uncertainty by source.

        `chain_uncertainty` is the control: the architecture part with chains in the place of architectures, which
        initialisation and noise alone bring about. In a deep ensemble it is the floor to hold the real one against.
        """

    def of_subsets(self, members_MNK: Tensor, labels_N: Tensor, subsets_SM: Tensor) -> dict[str, Tensor]:
        """Metrics of smaller ensembles [S]; row s of `subsets` is 1 for a member in it, else 0."""

    def bootstrap(self, prediction: Tensor, labels_N: Tensor, counts_RN: Tensor) -> dict[str, Tensor]:
        """Metrics on every resample [R]; `counts` says how often an example is in it."""

    def split(self, members_MNK: Tensor, architectures: Sequence[Hashable]) -> UncertaintyBySource:
        """By source [N], of several numbers [N, T]."""

    def uncertainty(self, members_MNK: Tensor) -> Tensor:
        """The total [N]."""


@dataclass(frozen=True)
class ClassMeasures:
    """Of classes."""

    def of_target(self, target: Target) -> "ClassMeasures":
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(metrics.METRICS)

    def mean(self, members_MNK: Tensor) -> Tensor:
        return metrics.mixture(members_MNK)

    def scaled(self, prediction: Tensor, temperature: Temperature) -> Tensor:
        return calibration.scale(prediction, only(temperature))

    def fit(self, prediction: Tensor, labels_N: Tensor, weights_N: Tensor | None = None) -> float:
        return calibration.fit_temperature(prediction, labels_N, weights_N)

    def of_more(self, temperature: Temperature, prediction: Tensor, members: int) -> float:
        return only(temperature)  # how much surer more members may be is not known

    def subset(self, prediction: Tensor, which_N: Tensor) -> Tensor:
        return prediction[which_N]

    def of(self, prediction: Tensor, labels_N: Tensor) -> dict[str, float]:
        return {name: function(prediction, labels_N) for name, function in metrics.METRICS.items()}

    def of_members(
        self, members_MNK: Tensor, architectures: Sequence[Hashable], chains: Sequence[str]
    ) -> dict[str, float]:
        effect = architecture_effect(members_MNK, architectures, chains)
        nested = {} if effect is None else asdict(effect)
        return {
            "disagreement": metrics.disagreement(members_MNK),
            **_mean_uncertainty(self, members_MNK, architectures, chains),
            **{f"{ARCHITECTURE}{name}": value for name, value in nested.items()},
        }

    def of_subsets(self, members_MNK: Tensor, labels_N: Tensor, subsets_SM: Tensor) -> dict[str, Tensor]:
        values = metrics.of_each(metrics.mixtures(members_MNK, subsets_SM), labels_N)
        size = int(subsets_SM[0].sum())
        pairs_MM = metrics.disagreement_matrix(members_MNK)
        differing_S = torch.einsum("sm,mn,sn->s", subsets_SM, pairs_MM, subsets_SM)
        return {**values, "disagreement": differing_S / max(1, size * (size - 1))}

    def bootstrap(self, prediction: Tensor, labels_N: Tensor, counts_RN: Tensor) -> dict[str, Tensor]:
        bins, confidence, right = metrics.confidence_bins(prediction, labels_N)
        gaps = torch.nn.functional.one_hot(bins, metrics.BINS) * (confidence - right)[:, None]
        per_image = torch.stack(
            [
                right,
                metrics.nll_per_image(prediction, labels_N),
                metrics.brier_per_image(prediction, labels_N),
            ],
            dim=1,
        )
        sums = counts_RN @ torch.cat([per_image, gaps], dim=1).float() / len(labels_N)
        ece = sums[:, 3:].abs().sum(dim=1)
        found = (*sums[:, :3].unbind(dim=1), ece)
        return dict(zip(BOOTSTRAPPED, found, strict=True))

    def split(self, members_MNK: Tensor, architectures: Sequence[Hashable]) -> UncertaintyBySource:
        return metrics.uncertainty_by_source(members_MNK, architectures)

    def uncertainty(self, members_MNK: Tensor) -> Tensor:
        return metrics.entropy(metrics.mixture(members_MNK))


@dataclass(frozen=True)
class NumberMeasures:
    """Of a number."""

    def of_target(self, target: Target) -> "NumberMeasures":
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return numbers.METRICS

    def mean(self, members_MNK: Tensor) -> Tensor:
        return members_MNK.double()

    def scaled(self, prediction: Tensor, temperature: Temperature) -> Tensor:
        return numbers.scaled(prediction, temperature)

    def fit(self, prediction: Tensor, labels_N: Tensor, weights_N: Tensor | None = None) -> float:
        return numbers.fit_temperature(prediction, labels_N, weights_N)

    def of_more(self, temperature: Temperature, prediction: Tensor, members: int) -> float:
        return numbers.temperature_of_more(only(temperature), prediction, members)

    def subset(self, prediction: Tensor, which_N: Tensor) -> Tensor:
        return prediction[:, which_N]

    def of(self, prediction: Tensor, labels_N: Tensor) -> dict[str, float]:
        return numbers.metrics_of(prediction, labels_N)

    def of_members(
        self, members_MNK: Tensor, architectures: Sequence[Hashable], chains: Sequence[str]
    ) -> dict[str, float]:
        return _mean_uncertainty(self, members_MNK, architectures, chains)

    def of_subsets(self, members_MNK: Tensor, labels_N: Tensor, subsets_SM: Tensor) -> dict[str, Tensor]:
        return numbers.of_subsets(members_MNK.double(), labels_N, subsets_SM)

    def bootstrap(self, prediction: Tensor, labels_N: Tensor, counts_RN: Tensor) -> dict[str, Tensor]:
        per_row = numbers.per_row(prediction, labels_N)
        means = {name: counts_RN.double() @ values / len(labels_N) for name, values in per_row.items()}
        return {"rmse": means.pop("squared").sqrt(), **means}

    def split(self, members_MNK: Tensor, architectures: Sequence[Hashable]) -> UncertaintyBySource:
        return numbers.variance_by_source(members_MNK, architectures)

    def uncertainty(self, members_MNK: Tensor) -> Tensor:
        return numbers.moments(members_MNK.double())[1]


@dataclass(frozen=True)
class SeveralMeasures:
    """Of several numbers: what `NumberMeasures` say of each, called `column.metric`, and as `metric` their mean.

    The mean is over targets in units of their training labels' standard deviations: targets of large numbers count no
    more than others.
    """

    parts: tuple[Numbers, ...] = ()

    def of_target(self, target: Target) -> "SeveralMeasures":
        return SeveralMeasures(target.parts)

    @property
    def names(self) -> tuple[str, ...]:
        return (
            *numbers.METRICS,
            *(f"{part.column}.{name}" for part in self.parts for name in numbers.METRICS),
        )

    def mean(self, members_MNK: Tensor) -> Tensor:
        return members_MNK.double().unflatten(-1, (-1, 2))

    def scaled(self, prediction: Tensor, temperature: Temperature) -> Tensor:
        return numbers.scaled(prediction, temperature)

    def fit(self, prediction: Tensor, labels_N: Tensor, weights_N: Tensor | None = None) -> tuple[float, ...]:
        own = zip(prediction.unbind(dim=2), labels_N.unbind(dim=1), strict=True)
        return tuple(numbers.fit_temperature(one, labels, weights_N) for one, labels in own)

    def of_more(self, temperature: Temperature, prediction: Tensor, members: int) -> tuple[float, ...]:
        assert isinstance(temperature, tuple)
        own = zip(temperature, prediction.unbind(dim=2), strict=True)
        return tuple(numbers.temperature_of_more(factor, one, members) for factor, one in own)

    def subset(self, prediction: Tensor, which_N: Tensor) -> Tensor:
        return prediction[:, which_N]

    def of(self, prediction: Tensor, labels_N: Tensor) -> dict[str, float]:
        own = zip(prediction.unbind(dim=2), labels_N.unbind(dim=1), strict=True)
        return self._with_means([ONE.of(one, labels) for one, labels in own])

    def of_members(
        self, members_MNK: Tensor, architectures: Sequence[Hashable], chains: Sequence[str]
    ) -> dict[str, float]:
        own = members_MNK.split(2, dim=-1)
        return self._with_means([ONE.of_members(one, architectures, chains) for one in own])

    def of_subsets(self, members_MNK: Tensor, labels_N: Tensor, subsets_SM: Tensor) -> dict[str, Tensor]:
        own = zip(members_MNK.split(2, dim=-1), labels_N.unbind(dim=1), strict=True)
        return self._with_means([ONE.of_subsets(one, labels, subsets_SM) for one, labels in own])

    def bootstrap(self, prediction: Tensor, labels_N: Tensor, counts_RN: Tensor) -> dict[str, Tensor]:
        own = zip(prediction.unbind(dim=2), labels_N.unbind(dim=1), strict=True)
        return self._with_means([ONE.bootstrap(one, labels, counts_RN) for one, labels in own])

    def split(self, members_MNK: Tensor, architectures: Sequence[Hashable]) -> UncertaintyBySource:
        return numbers.variance_by_source(self.mean(members_MNK), architectures)

    def uncertainty(self, members_MNK: Tensor) -> Tensor:
        """The mean over targets of the variance in their own units [N]."""
        variance_NT = numbers.moments(self.mean(members_MNK))[1]
        return (variance_NT / variance_NT.new_tensor([part.scale**2 for part in self.parts])).mean(dim=1)

    def _with_means(self, found: Sequence[dict[str, Value]]) -> dict[str, Value]:
        """Metrics of each target by their names, after the means of all."""
        own = {
            f"{part.column}.{name}": value
            for part, values in zip(self.parts, found, strict=True)
            for name, value in values.items()
        }
        means: dict[str, Value] = {}
        for name in found[0]:
            total, *others = (
                _in_units(name, one[name], p.scale) for p, one in zip(self.parts, found, strict=True)
            )
            for one in others:
                total = total + one
            means[name] = total / len(found)
        return {**means, **own}


ONE = NumberMeasures()
MEASURES: dict[str, Measures] = {"classes": ClassMeasures(), "numbers": ONE, "several": SeveralMeasures()}


def measures_of(target: Target) -> Measures:
    return MEASURES[target.name].of_target(target)


def _in_units(metric: str, value: Value, scale: float) -> Value:
    """A metric of labels divided by this scale."""
    if metric == "nll":
        return value - math.log(scale)
    if metric.endswith("uncertainty"):
        return value / scale**2
    return value / scale if metric.startswith(IN_UNITS) else value


def _mean_uncertainty(
    measures: Measures, members_MNK: Tensor, architectures: Sequence[Hashable], chains: Sequence[str]
) -> dict[str, float]:
    split, control = measures.split(members_MNK, architectures), measures.split(members_MNK, chains)
    return {
        "total_uncertainty": float(split.total.mean()),
        "data_uncertainty": float(split.data.mean()),
        "weight_uncertainty": float(split.weights.mean()),
        "architecture_uncertainty": float(split.architecture.mean()),
        "chain_uncertainty": float(control.architecture.mean()),
    }
