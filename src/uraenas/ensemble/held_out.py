"""What an ensemble said of its held-out images, and what that promises for new ones.

Half of the held-out images are *apart*: neither the temperature nor the choice of members has seen them. Promises rest
on these alone. The other half says where to look for thresholds, as it may.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.ensemble.residuals import Residuals, is_stored_in
from uraenas.ensemble.threshold import Threshold, estimated, promised
from uraenas.evaluation import conformal, metrics

CERTAINTY = 0.95  # with which the risk is kept
COVERAGE = 0.95  # of prediction sets
SHARE = 0.05  # of images like those of the training that may be called foreign
OTHER_RISKS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)  # that are named where a smaller one leaves no answer
NAMES = ("confidence", "right", "before", "rank", "label", "apart", "p_value")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Of n held-out images [n], temperature-scaled; probabilities in float64."""

    confidence: Tensor  # of the predicted class
    right: Tensor  # 1 where that is the true one
    before: Tensor  # probability of all classes that are more probable than the true one
    rank: Tensor  # of the true class, 0 for the most probable
    label: Tensor
    apart: Tensor  # 1 where neither temperature nor choice of members has seen the image
    p_value: Tensor  # among other held-out images: as small as the share, and it is called foreign

    @classmethod
    def of(
        cls, log_probabilities_NK: Tensor, labels_N: Tensor, apart_N: Tensor, p_value_N: Tensor | None = None
    ) -> "HeldOut":
        """From the ensemble's temperature-scaled prediction; without p-values no image is called foreign."""
        _, confidence, right = metrics.confidence_bins(log_probabilities_NK, labels_N)
        of_classes = conformal.set_scores(log_probabilities_NK.exp())
        before, rank = (one.gather(1, labels_N[:, None]).squeeze(1) for one in of_classes)
        p_value = torch.ones_like(confidence) if p_value_N is None else p_value_N
        return cls(
            confidence, right.float(), before, rank.float(), labels_N.float(), apart_N.float(), p_value
        )

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "HeldOut":
        return cls(**{name: tensors[name] for name in NAMES})

    def tensors(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in NAMES}

    def __len__(self) -> int:
        return len(self.right)

    @property
    def is_sound(self) -> bool:
        """Whether numbers are numbers, and shapes fit each other."""
        every = self.tensors().values()
        return (
            all(one.dtype.is_floating_point and one.shape == self.right.shape for one in every)
            and self.right.ndim == 1
            and len(self.right) > 0
            and not any(one.isnan().any() for one in every)
            and all(_lies_in_unit(one) for one in (self.confidence, self.before, self.p_value))
            and all(bool(((one == 0) | (one == 1)).all()) for one in (self.right, self.apart))
            and all(bool(((one >= 0) & (one == one.round())).all()) for one in (self.rank, self.label))
        )

    @property
    def images_apart(self) -> int:
        return int(self.apart.sum())

    def threshold(self, risk: float, certainty: float = CERTAINTY, share: float = SHARE) -> Threshold:
        """The confidence below which to abstain; an estimate where so few images can promise nothing.

        An image that is called foreign, at this share of false alarms, is not answered, however sure the ensemble is.
        """
        known, apart = self.p_value > share, self.apart > 0
        known = known if known.any() else torch.ones_like(known)
        ours, theirs = (
            (self.confidence[which & known], self.right[which & known]) for which in (apart, ~apart)
        )

        def at(risk: float) -> Threshold:
            found = promised(ours, theirs, risk, certainty)
            return found or estimated(self.confidence[known], self.right[known].double(), risk)

        found = at(risk)
        if found.passing:
            return found
        # A hint. To take it is a second look at these images, so its certainty holds only roughly.
        larger = (at(other) for other in OTHER_RISKS if other > risk)
        kept = list(takewhile(lambda one: one.passing and one.certainty >= found.certainty, larger))
        return replace(found, possible=kept[-1].risk if kept else 0.0)

    def judged(self, p_value_N: Tensor) -> "HeldOut":
        """The same, with these p-values: an image that is called foreign is not answered."""
        return replace(self, p_value=p_value_N)

    def doubts_of_risk(self, risk: float, share: float, certainty: float, example: str) -> list[str]:
        """In words, whether held-out examples, called so, are too few to promise this risk."""
        threshold = self.threshold(risk, certainty, share)
        if threshold.certainty:
            return []
        apart = f"{self.images_apart:,} held-out {example}s apart"
        return [f"{apart} are too few to promise this risk: {threshold.in_words(example)}"]

    def doubts_of_coverage(self, coverage: float, example: str) -> list[str]:
        """In words, whether held-out examples, called so, are too few to promise this coverage."""
        if not math.isinf(self.quantile(coverage)):
            return []
        return [
            f"sets rest on {self.images_apart:,} held-out {example}s that neither temperature nor choice of members "
            f"has seen: too few to promise a coverage of {coverage:g}: sets hold all classes; needed: "
            f"{conformal.least_for_coverage(coverage):,} (more {example}s in all or, without train.folds, a larger "
            "data.held_out)"
        ]

    def quantile(self, coverage: float = COVERAGE) -> float:
        """The score up to which classes belong to a prediction set of this coverage."""
        scores = conformal.regularised(self.before, self.rank)
        return conformal.conformal_quantile(scores[self.apart > 0], coverage)


def stored_held_out(tensors: Mapping[str, Tensor]) -> HeldOut | Residuals:
    """What was stored, whichever it is."""
    kind = Residuals if is_stored_in(tensors) else HeldOut
    return kind.from_tensors(tensors)


def drawn_apart(images: int, seed: int) -> Tensor:
    """Which half of the held-out images is kept from temperature and choice of members [N], at random."""
    order = draws.permutation(draws.at(draws.key(seed, "apart"), 0), images)
    return torch.zeros(images, dtype=torch.bool).index_fill(0, order[: images // 2], True)


def _lies_in_unit(one: Tensor) -> bool:
    return bool(((one >= -1e-6) & (one <= 1 + 1e-6)).all())
