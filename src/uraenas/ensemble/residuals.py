"""What an ensemble said of held-out rows whose target is a number, and the intervals that this promises.

The conformal score of a row is |y − mean| in predicted standard deviations. With q the ⌈(n + 1)·c⌉-th smallest score of
n rows apart, mean ± q · deviation holds the value of a new row like them with a probability of at least c.
Where chains leave out rows in turn, fewer members judge a row than predict a new one, and that holds nearly.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from uraenas.evaluation import conformal, numbers

NAMES = ("residual", "apart")


@dataclass(frozen=True, eq=False)
class Residuals:
    """Of n held-out rows [n], temperature-scaled."""

    residual: Tensor  # in standard deviations, float64
    apart: Tensor  # 1 where neither temperature nor choice of members has seen the row

    @classmethod
    def of(cls, mixture_MN2: Tensor, labels_N: Tensor, apart_N: Tensor) -> "Residuals":
        """From the ensemble's temperature-scaled prediction."""
        return cls(numbers.residuals(mixture_MN2, labels_N), apart_N.float())

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
            self.residual.ndim == 1
            and self.apart.shape == self.residual.shape
            and len(self.residual) > 0
            and all(one.dtype.is_floating_point for one in self.tensors().values())
            and bool((self.residual >= 0).all())
            and bool(((self.apart == 0) | (self.apart == 1)).all())
        )

    @property
    def images_apart(self) -> int:
        return int(self.apart.sum())

    def quantile(self, coverage: float) -> float:
        """How many standard deviations an interval of this coverage reaches on both sides."""
        return conformal.conformal_quantile(self.residual[self.apart > 0], coverage)

    def judged(self, p_value_N: Tensor) -> "Residuals":
        """The same: every row has its interval, whether it is called foreign or not."""
        return self

    def doubts(self, risk: float, share: float, certainty: float, coverage: float) -> list[str]:
        """What so few held-out rows cannot promise, in words."""
        if not math.isinf(self.quantile(coverage)):
            return []
        apart = f"{self.images_apart:,} held-out rows apart"
        return [f"{apart} are too few to promise a coverage of {coverage:g}: intervals hold every number"]


def is_stored_in(tensors: Mapping[str, Tensor]) -> bool:
    return NAMES[0] in tensors
