"""What an ensemble said of held-out rows whose target is a number, and the intervals that this promises.

The conformal score of a row is |y − mean| / deviation, as said by its *panel*: the members that did not learn from it;
all of them, where rows are apart from all.
With q_p the quantile of the scores of panel p, a new row has the interval mean_p ± q_p deviation_p of each panel (split
conformal prediction), and these vote (Gasparin and Ramdas, 2024): an end is the median of theirs, the outer one where
two are in the middle.

Panels miss the value of a new row like their own with a probability of 1 − c on average, and it is outside only where
more than half of the K panels miss it. So it is inside with a probability of at least

    1 − (1 − c) K / (⌊K / 2⌋ + 1),     c for one panel and more than 2c − 1 for any number,

whatever the prediction is worth. Where panels agree it is c; where they do not, the middle of them errs less than each,
and it is more. A temperature changes none of this. Of several targets all of it holds for each by itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from uraenas.evaluation import conformal, numbers

NAMES = ("residual", "apart", "panel", "panels")


@dataclass(frozen=True, eq=False)
class Residuals:
    """Of n held-out rows, and of M members."""

    residual: Tensor  # [n], in standard deviations, float64; of T targets [n, T]
    apart: Tensor  # [n]: 1 where the choice of members has not seen the row
    panel: Tensor  # [n]: which one judged the row
    panels: Tensor  # [M]: which one each member is in; −1 for none

    @classmethod
    def of(
        cls, said_RN2: Tensor, labels_N: Tensor, unseen_N: Tensor, panel_N: Tensor, panels_M: Tensor
    ) -> "Residuals":
        """From what the panels said."""
        of_rows = numbers.residuals(said_RN2, labels_N), unseen_N.float(), panel_N.float()
        return cls(*of_rows, panels_M.float())

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Residuals":
        return cls(*(tensors[name] for name in NAMES))

    def tensors(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in NAMES}

    def __len__(self) -> int:
        return len(self.residual)

    @property
    def is_sound(self) -> bool:
        """Whether numbers are numbers, and shapes fit each other."""
        return (
            self.residual.ndim in (1, 2)
            and self.panels.ndim == 1
            and self.apart.shape == self.panel.shape == self.residual.shape[:1]
            and set(self.panel.tolist()) <= set(self.panels.tolist())
            and len(self.residual) > 0
            and all(one.dtype.is_floating_point for one in self.tensors().values())
            and bool((self.residual >= 0).all())
            and bool(((self.apart == 0) | (self.apart == 1)).all())
        )

    @property
    def images_apart(self) -> int:
        return int(self.apart.sum())

    @property
    def by_target(self) -> "list[Residuals]":
        """Of each target by itself."""
        own = self.residual.unbind(dim=1) if self.residual.ndim == 2 else (self.residual,)
        return [replace(self, residual=one) for one in own]

    def interval(self, members_MN2: Tensor, coverage: float) -> Tensor:
        """For the numbers of new rows [N, 2], from what members say of them without a temperature.

        Of T targets members say [M, N, T, 2], and intervals are [N, T, 2].
        """
        if members_MN2.ndim == 4:
            own = zip(self.by_target, members_MN2.unbind(dim=2), strict=True)
            return torch.stack([one.interval(said, coverage) for one, said in own], dim=1)
        ends = []
        for number, quantile in self.quantiles(coverage).items():
            mean_N, variance_N = numbers.moments(members_MN2[self.panels == number].double())
            reach_N = variance_N.sqrt() * quantile
            ends.append(torch.stack([mean_N - reach_N, mean_N + reach_N], dim=1))
        ends_KN2 = torch.stack(ends)
        low_N = ends_KN2[..., 0].kthvalue((len(ends) + 1) // 2, dim=0).values
        high_N = ends_KN2[..., 1].kthvalue(len(ends) // 2 + 1, dim=0).values
        return torch.stack([low_N, high_N], dim=1)

    def quantiles(self, coverage: float) -> dict[float, float]:
        """Of the scores apart, by panel, of one target; infinite where these are too few."""
        apart = self.apart > 0
        scores = {one: self.residual[apart & (self.panel == one)].sort().values for one in self._judges}
        places = conformal.conformal_places([len(own) for own in scores.values()], coverage)
        return {
            one: math.inf if place > len(own) else float(own[place - 1])
            for (one, own), place in zip(scores.items(), places, strict=True)
        }

    @property
    def _judges(self) -> list[float]:
        """Panels that have rows apart, or one where none has."""
        return self.panel[self.apart > 0].unique().tolist() or self.panel[:1].tolist()

    def judged(self, p_value_N: Tensor) -> "Residuals":
        """The same: every row has its interval, whether it is called foreign or not."""
        return self

    def doubts_of_risk(self, risk: float, share: float, certainty: float, example: str) -> list[str]:
        """None: a number is not right or wrong."""
        return []

    def doubts_of_coverage(self, coverage: float, example: str) -> list[str]:
        """In words, whether held-out examples, called so, are too few to promise this coverage."""
        quantiles = list(self.by_target[0].quantiles(coverage).values())  # as many rows as of any other
        if sum(map(math.isfinite, quantiles)) > len(quantiles) // 2:
            return []
        folds = len(quantiles)
        of_folds = f", in {folds} folds," if folds > 1 else ""
        mend = (
            "data.apart above 0" if folds > 1 else "a larger data.apart or, with train.folds=0, data.held_out"
        )
        return [
            f"intervals rest on {self.images_apart:,} held-out {example}s{of_folds} that no member judging them has "
            f"learned from: too few to promise a coverage of {coverage:g}, so that intervals hold every number; "
            f"needed: {conformal.least_for_coverage(coverage, folds):,} (more {example}s in all, or {mend})"
        ]


def is_stored_in(tensors: Mapping[str, Tensor]) -> bool:
    return NAMES[0] in tensors
