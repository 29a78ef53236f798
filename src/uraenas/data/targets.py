"""The seam `Target`: what is predicted. It knows the loss, how many numbers a network gives, and what they say.

Three entries: `Classes`, one of several names; `Numbers`, a real number with a Gaussian about it; and `Several` of
these. A target travels with the `Normalisation`, since both say how a network's numbers and those of the data belong
together. Its measures are the row of its name in `evaluation/measures.py`. Shapes: M members, N examples, K numbers
that a network gives.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields, is_table

FLOOR = 1e-6  # of a variance, relative to that of the training labels: none is surer than a thousandth of their spread
RARE = 6  # a class of fewer examples goes with the largest, where that is allowed
FAR = 1000  # deviations from 0 to the centre; float32 has an error of 6e-5 deviations there
MOST_LABEL = 1e14  # metrics are in units of the label, and stored numbers have limits
MOST_DEVIATIONS = 1e4  # from the training labels' mean, of any other label: NLL is then at most 5e13
LEAST_SPREAD = 1e-15  # the smallest variance, FLOOR times its square, is a number in float32, too
STRATA, PER_STRATUM = 10, 5  # of numbers, for splits; each of so many examples at least


Labels = dict[str, np.ndarray]  # of examples, by part of the dataset
Names = Mapping[str, Sequence[str] | None]  # the same


class Target(Protocol):
    """The protocol."""

    name: ClassVar[str]

    @property
    def parts(self) -> "tuple[Numbers, ...]":
        """The numbers that are predicted; of classes none."""

    def outputs(self, classes: int) -> int:
        """How many numbers a network gives for each example, where there are so many classes."""

    def check(self, where: str, classes: Sequence[str], labels: Labels, names: Names) -> None:
        """Refuse labels that cannot be predicted, by part of the dataset, where examples may have names."""

    def fitted(self, labels: np.ndarray) -> "Target":
        """The target in units of these training labels."""

    def strata(self, labels: np.ndarray) -> np.ndarray:
        """Whole numbers [N] that every part of a split should have in proportion."""

    def strata_names(self, classes: Sequence[str]) -> Sequence[str]:
        """What these are called, where each must be in every part."""

    def groups(self, labels: np.ndarray) -> np.ndarray:
        """Whole numbers [N]: examples of one look alike to a network."""

    def coded(self, labels: np.ndarray) -> Tensor:
        """Labels as the loss takes them."""

    def loss(self, outputs_MNK: Tensor, labels: Tensor, weights_MN: Tensor | None) -> Tensor:
        """The mean over examples, weighted where they have weights [M]."""

    def smoothed(
        self, losses_M: Tensor, outputs_MNK: Tensor, weights_MN: Tensor | None, smoothing_M: Tensor
    ) -> Tensor:
        """The losses, with each member's share of every label spread over all that there are."""

    def prediction(self, outputs: Tensor) -> Tensor:
        """What a network's numbers [..., N, K] say, in the units of the data."""

    def log_likelihood(self, predictions: Tensor, labels_N: Tensor) -> Tensor:
        """Of the labels under each prediction [..., N]."""

    def hessians(self, outputs_NK: Tensor) -> Tensor:
        """Of the loss of each example in what a network gives, or what is expected of it [N, K, K]."""

    def joined(self, variants_VMNK: Tensor) -> Tensor:
        """What is said of examples that may be any of V variants [M, N, K]: as unsure as the variants differ."""

    def scores(self, predictions_MNK: Tensor, labels: np.ndarray, weights: np.ndarray | None) -> list[float]:
        """How good members are [M], the larger the better, and never below 0."""

    def as_json(self) -> dict[str, Any]:
        """By which `target_of` makes it again."""


@dataclass(frozen=True)
class Classes:
    """One of several classes; a network gives a logit for each, and says log-probabilities."""

    # Whether classes of few examples are welcome, which then need not be in every part of a split.
    rare: bool = False

    name: ClassVar[str] = "classes"

    @property
    def parts(self) -> "tuple[Numbers, ...]":
        return ()

    def outputs(self, classes: int) -> int:
        return classes

    def check(self, where: str, classes: Sequence[str], labels: Labels, names: Names) -> None:
        if len(classes) < 2:
            raise UraenasError(f"{where}: {len(classes)} class(es) leave nothing to tell apart; needed: 2")
        for kind, own in labels.items():
            low, high = int(own.min()), int(own.max())
            if low < 0 or high >= len(classes):
                raise UraenasError(
                    f"{where}: {kind} labels reach from {low} to {high}; allowed: 0 … {len(classes) - 1}"
                )

    def fitted(self, labels: np.ndarray) -> "Classes":
        return self

    def strata(self, labels: np.ndarray) -> np.ndarray:
        if not self.rare:
            return labels
        counts = np.bincount(labels)
        joined = np.where(counts[labels] < RARE, counts.argmax(), labels)
        return np.unique(joined, return_inverse=True)[1].astype(np.int64)

    def strata_names(self, classes: Sequence[str]) -> Sequence[str]:
        return () if self.rare else classes

    def groups(self, labels: np.ndarray) -> np.ndarray:
        return labels

    def coded(self, labels: np.ndarray) -> Tensor:
        return torch.from_numpy(labels)

    def loss(self, outputs_MNK: Tensor, labels: Tensor, weights_MN: Tensor | None) -> Tensor:
        """Cross-entropy; labels may be class probabilities [M, N, K]."""
        targets = labels.movedim(2, 1) if labels.ndim == 3 else labels
        losses_MN = F.cross_entropy(outputs_MNK.movedim(2, 1), targets, reduction="none")
        return _weighted_mean(losses_MN, weights_MN)

    def smoothed(
        self, losses_M: Tensor, outputs_MNK: Tensor, weights_MN: Tensor | None, smoothing_M: Tensor
    ) -> Tensor:
        spread_MN = -torch.log_softmax(outputs_MNK, dim=-1).mean(dim=-1)
        return losses_M + smoothing_M * (_weighted_mean(spread_MN, weights_MN) - losses_M)

    def prediction(self, outputs: Tensor) -> Tensor:
        return torch.log_softmax(outputs, dim=-1)

    def log_likelihood(self, predictions: Tensor, labels_N: Tensor) -> Tensor:
        return predictions[..., torch.arange(len(labels_N)), labels_N]

    def hessians(self, outputs_NK: Tensor) -> Tensor:
        """diag(p) − p pᵀ."""
        p = torch.softmax(outputs_NK, dim=1)
        return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]

    def joined(self, variants_VMNK: Tensor) -> Tensor:
        return torch.logsumexp(variants_VMNK, dim=0) - math.log(len(variants_VMNK))

    def scores(self, predictions_MNK: Tensor, labels: np.ndarray, weights: np.ndarray | None) -> list[float]:
        """Accuracies."""
        right = predictions_MNK.argmax(dim=-1).numpy() == labels
        return np.average(right, axis=1, weights=weights).tolist()

    def as_json(self) -> dict[str, Any]:
        return {}


CLASSES = Classes()


@dataclass(frozen=True)
class Numbers:
    """A real number; a network gives the mean and the variance of a Gaussian, and says mean and log-variance.

    In units of the training labels, y' = (y − centre) / scale,

        μ' = o_1,     σ'² = FLOOR + softplus(o_2),     loss = ½ [log 2π σ'² + (y' − μ')² / σ'²].
    """

    column: str = "y"  # what it is called
    centre: float = 0.0
    scale: float = 1.0

    name: ClassVar[str] = "numbers"

    @property
    def parts(self) -> "tuple[Numbers, ...]":
        return (self,)

    def outputs(self, classes: int) -> int:
        return 2

    def check(self, where: str, classes: Sequence[str], labels: Labels, names: Names) -> None:
        for kind, own in labels.items():
            if own.dtype != np.float64 or not np.isfinite(own).all():
                raise UraenasError(f"{where}: {kind} values of {self.column} must be finite float64 numbers")
            if (largest := float(np.abs(own).max(initial=0))) > MOST_LABEL:
                large = f"as large as {largest:g}, and at most {MOST_LABEL:g} is allowed; divide it"
                raise UraenasError(f"{where}: {self.column} is {large}")
        if (spread := float(np.ptp(labels["training"]))) == 0:
            constant = f"{labels['training'][0]:g} in all training rows"
            raise UraenasError(f"{where}: {self.column} is {constant}; a constant leaves nothing to predict")
        if spread < LEAST_SPREAD:
            few = f"differ by {spread:g}, and at least {LEAST_SPREAD:g} is needed; multiply it"
            raise UraenasError(f"{where}: values of {self.column} {few}")
        units = self.fitted(labels["training"])
        for kind, own in labels.items():
            apart = np.abs(own - units.centre) / units.scale
            if (most := apart.max(initial=0)) > MOST_DEVIATIONS:
                first = int(apart.argmax())
                row = (names.get(kind) or {first: "a row"})[first]
                far = f"{own[first]:g} in {row} ({kind}), {most:.2g} standard deviations from the training rows' mean"
                raise UraenasError(f"{where}: {self.column} is {far}; correct it or leave it out")

    @property
    def is_far(self) -> bool:
        """Whether float32 hardly tells its values apart: their spread is in the last digits."""
        return abs(self.centre) > FAR * self.scale

    def fitted(self, labels: np.ndarray) -> "Numbers":
        return Numbers(self.column, float(labels.mean()), float(labels.std()) or 1.0)

    def strata(self, labels: np.ndarray) -> np.ndarray:
        """Tenths of the values, or fewer parts where examples are few."""
        count = max(1, min(STRATA, len(labels) // PER_STRATUM))
        rank = np.argsort(np.argsort(labels, kind="stable"), kind="stable")
        return (rank * count // len(labels)).astype(np.int64)

    def strata_names(self, classes: Sequence[str]) -> Sequence[str]:
        return ()

    def groups(self, labels: np.ndarray) -> np.ndarray:
        return np.zeros(len(labels), np.int64)

    def coded(self, labels: np.ndarray) -> Tensor:
        return torch.from_numpy(((labels - self.centre) / self.scale).astype(np.float32))

    def loss(self, outputs_MNK: Tensor, labels: Tensor, weights_MN: Tensor | None) -> Tensor:
        variance = FLOOR + F.softplus(outputs_MNK[..., 1])
        losses_MN = _negative_log_density(labels - outputs_MNK[..., 0], variance.log())
        return _weighted_mean(losses_MN, weights_MN)

    def smoothed(
        self, losses_M: Tensor, outputs_MNK: Tensor, weights_MN: Tensor | None, smoothing_M: Tensor
    ) -> Tensor:
        return losses_M  # a number has no others to be spread over

    def prediction(self, outputs: Tensor) -> Tensor:
        if self.is_far:
            outputs = outputs.double()
        log_variance = torch.log(FLOOR + F.softplus(outputs[..., 1])) + 2 * math.log(self.scale)
        return torch.stack([self.centre + self.scale * outputs[..., 0], log_variance], dim=-1)

    def log_likelihood(self, predictions: Tensor, labels_N: Tensor) -> Tensor:
        return -_negative_log_density(labels_N - predictions[..., 0].double(), predictions[..., 1].double())

    def hessians(self, outputs_NK: Tensor) -> Tensor:
        """Fisher's information: 1/σ'² for the mean, ½ (dσ'²/do_2 / σ'²)² for the variance, and nothing between them."""
        variance = FLOOR + F.softplus(outputs_NK[:, 1])
        slope = torch.sigmoid(outputs_NK[:, 1])
        return torch.diag_embed(torch.stack([1 / variance, 0.5 * (slope / variance) ** 2], dim=1))

    def joined(self, variants_VMNK: Tensor) -> Tensor:
        """Mean and variance of the variants' mixture."""
        means, variances = variants_VMNK[..., 0], variants_VMNK[..., 1].exp()
        whole = variances.mean(dim=0) + means.var(dim=0, correction=0)
        return torch.stack([means.mean(dim=0), whole.log()], dim=-1)

    def scores(self, predictions_MNK: Tensor, labels: np.ndarray, weights: np.ndarray | None) -> list[float]:
        """exp(−NLL): densities at the labels, in units of the training labels, and their geometric mean."""
        logs_MN = self.log_likelihood(predictions_MNK, torch.from_numpy(labels)).numpy()
        return (self.scale * np.exp(np.average(logs_MN, axis=1, weights=weights))).tolist()

    def as_json(self) -> dict[str, Any]:
        return {"target": asdict(self)}


@dataclass(frozen=True)
class Several:
    """Several numbers, each with a Gaussian of its own from the one network; labels are [N, T] of T targets.

    A network gives 2 T numbers, two for each target in turn, and says as many. The loss is the sum of the targets'
    losses: given the row and the network they are taken to be independent.
    """

    parts: tuple[Numbers, ...]

    name: ClassVar[str] = "several"

    def __post_init__(self) -> None:
        names = [part.column for part in self.parts]
        if len(names) < 2 or len(set(names)) < len(names):
            raise UraenasError(f"several targets are two or more, each once, not {', '.join(names)}")

    def outputs(self, classes: int) -> int:
        return 2 * len(self.parts)

    def check(self, where: str, classes: Sequence[str], labels: Labels, names: Names) -> None:
        for k, part in enumerate(self.parts):
            part.check(where, classes, {kind: own[:, k] for kind, own in labels.items()}, names)

    def fitted(self, labels: np.ndarray) -> "Several":
        return Several(tuple(part.fitted(labels[:, k]) for k, part in enumerate(self.parts)))

    def strata(self, labels: np.ndarray) -> np.ndarray:
        """Those of the mean of all targets, each in its own standard units."""
        deviation = labels.std(axis=0)
        scaled = (labels - labels.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        return self.parts[0].strata(scaled.mean(axis=1))

    def strata_names(self, classes: Sequence[str]) -> Sequence[str]:
        return ()

    def groups(self, labels: np.ndarray) -> np.ndarray:
        return self.parts[0].groups(labels)

    def coded(self, labels: np.ndarray) -> Tensor:
        return torch.stack([part.coded(labels[:, k]) for k, part in enumerate(self.parts)], dim=1)

    def loss(self, outputs_MNK: Tensor, labels: Tensor, weights_MN: Tensor | None) -> Tensor:
        own = zip(self.parts, _pairs(outputs_MNK), labels.unbind(dim=-1), strict=True)
        return torch.stack([part.loss(pair, label, weights_MN) for part, pair, label in own]).sum(dim=0)

    def smoothed(
        self, losses_M: Tensor, outputs_MNK: Tensor, weights_MN: Tensor | None, smoothing_M: Tensor
    ) -> Tensor:
        return losses_M

    def prediction(self, outputs: Tensor) -> Tensor:
        own = zip(self.parts, _pairs(outputs), strict=True)
        return torch.cat([part.prediction(pair) for part, pair in own], dim=-1)

    def log_likelihood(self, predictions: Tensor, labels_N: Tensor) -> Tensor:
        """Of all labels [N, T] of an example together."""
        own = zip(self.parts, _pairs(predictions), labels_N.unbind(dim=-1), strict=True)
        return torch.stack([part.log_likelihood(pair, label) for part, pair, label in own]).sum(dim=0)

    def hessians(self, outputs_NK: Tensor) -> Tensor:
        """Those of the targets along the diagonal, and nothing between them."""
        found = outputs_NK.new_zeros(len(outputs_NK), outputs_NK.shape[1], outputs_NK.shape[1])
        for k, (part, pair) in enumerate(zip(self.parts, _pairs(outputs_NK), strict=True)):
            found[:, 2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = part.hessians(pair)
        return found

    def joined(self, variants_VMNK: Tensor) -> Tensor:
        own = zip(self.parts, _pairs(variants_VMNK), strict=True)
        return torch.cat([part.joined(pair) for part, pair in own], dim=-1)

    def scores(self, predictions_MNK: Tensor, labels: np.ndarray, weights: np.ndarray | None) -> list[float]:
        """The geometric means of the targets' scores."""
        own = zip(self.parts, _pairs(predictions_MNK), labels.T, strict=True)
        found = [part.scores(pair, np.ascontiguousarray(label), weights) for part, pair, label in own]
        return np.exp(np.log(np.maximum(found, 1e-300)).mean(axis=0)).tolist()

    def as_json(self) -> dict[str, Any]:
        return {"targets": [asdict(part) for part in self.parts]}


def numbers_of(columns: Sequence[str]) -> Target:
    """The target that these columns of numbers are."""
    parts = tuple(Numbers(column) for column in columns)
    return parts[0] if len(parts) == 1 else Several(parts)


def centred(target: Target) -> Target:
    """The same numbers without their centres: what differs between members is then in the first digits."""
    parts = tuple(replace(part, centre=0.0) for part in target.parts)
    return parts[0] if len(parts) == 1 else Several(parts)


def names_of(target: Target, name: str) -> tuple[str, ...]:
    """What a field is called that is said of each number: of several with the target's name before it."""
    return (name,) if len(target.parts) < 2 else tuple(f"{part.column}.{name}" for part in target.parts)


def target_of(stored: Fields) -> Target:
    """What `as_json` wrote among other fields."""
    if stored.has("targets"):
        tables = stored.list_of("targets", is_table, "targets")
        return Several(tuple(_numbers_in(Fields(stored.where, one)) for one in tables))
    return _numbers_in(stored.table("target")) if stored.has("target") else CLASSES


def _numbers_in(facts: Fields) -> Numbers:
    return Numbers(facts.text("column"), facts.number("centre"), facts.number("scale", 1e-300))


def _pairs(numbers: Tensor) -> tuple[Tensor, ...]:
    """Numbers [..., 2 T] by target."""
    return numbers.split(2, dim=-1)


def _weighted_mean(values_MN: Tensor, weights_MN: Tensor | None) -> Tensor:
    return (values_MN if weights_MN is None else values_MN * weights_MN).mean(dim=1)


def _negative_log_density(residual: Tensor, log_variance: Tensor) -> Tensor:
    return 0.5 * (math.log(2 * math.pi) + log_variance + residual**2 * torch.exp(-log_variance))
