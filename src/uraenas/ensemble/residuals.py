"""What an ensemble said of held-out rows whose target is a number, and the intervals that this promises.

The conformal score of a row is |y − mean| / deviation, as said by its *panel*: the members that did not learn from it.
Of a new row each held-out row i makes an interval by the same panel, and so exchangeably with it (CV+, Barber and
others, 2021; one panel alone is split conformal prediction):

    mean_p(i) ± score_i · deviation_p(i),     the low end is the ⌊(n + 1)(1 − c)⌋-th smallest, the high end likewise.

With one panel the value of a new row like them lies between with a probability of at least c, with several of at least
2c − 1 whatever the prediction is worth, and of about c in practice. A temperature changes none of this.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.evaluation import conformal, numbers

NAMES = ("residual", "apart", "panel", "panels")
CHUNK = 2**22  # numbers at once where new rows meet held-out ones


@dataclass(frozen=True, eq=False)
class Residuals:
    """Of n held-out rows, and of M members."""

    residual: Tensor  # [n], in standard deviations, float64
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
            self.residual.ndim == self.panels.ndim == 1
            and self.apart.shape == self.panel.shape == self.residual.shape
            and set(self.panel.tolist()) <= set(self.panels.tolist())
            and len(self.residual) > 0
            and all(one.dtype.is_floating_point for one in self.tensors().values())
            and bool((self.residual >= 0).all())
            and bool(((self.apart == 0) | (self.apart == 1)).all())
        )

    @property
    def images_apart(self) -> int:
        return int(self.apart.sum())

    def interval(self, members_MN2: Tensor, coverage: float) -> Tensor:
        """For the numbers of new rows [N, 2], from what members say of them without a temperature."""
        place = conformal.conformal_place(self.images_apart, coverage)
        count, rows = self.images_apart, members_MN2.shape[1]
        if place > count:
            return torch.tensor([-torch.inf, torch.inf], dtype=torch.float64).expand(rows, 2)
        step = max(1, CHUNK // count)
        parts = members_MN2.double().split(step, dim=1)
        return torch.cat([self._ends(part, count, place) for part in parts])

    def _ends(self, members_MN2: Tensor, count: int, place: int) -> Tensor:
        lows, highs = [], []
        for number in self.panel[self.apart > 0].unique():
            mean_N, variance_N = numbers.moments(members_MN2[self.panels == number])
            own = self.residual[(self.apart > 0) & (self.panel == number)]
            reach = own[:, None] * variance_N.sqrt()
            lows.append(mean_N - reach)
            highs.append(mean_N + reach)
        low = torch.cat(lows).kthvalue(count + 1 - place, dim=0).values
        return torch.stack([low, torch.cat(highs).kthvalue(place, dim=0).values], dim=1)

    def judged(self, p_value_N: Tensor) -> "Residuals":
        """The same: every row has its interval, whether it is called foreign or not."""
        return self

    def doubts(self, risk: float, share: float, certainty: float, coverage: float) -> list[str]:
        """What so few held-out rows cannot promise, in words."""
        if conformal.conformal_place(self.images_apart, coverage) <= self.images_apart:
            return []
        apart = f"{self.images_apart:,} held-out rows apart"
        return [f"{apart} are too few to promise a coverage of {coverage:g}: intervals hold every number"]


def is_stored_in(tensors: Mapping[str, Tensor]) -> bool:
    return NAMES[0] in tensors
