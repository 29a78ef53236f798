"""SWAG: a Gaussian through the end of a descent. After a cosine, steps stay large enough to keep moving; each epoch
leaves a sample of the trajectory, and S of them make a Gaussian of a diagonal and a low rank (Maddox et al., 2019):

    w = mean + √scale · ( σ ∘ z_1 + D z_2 / √(K − 1) ),     z ~ N(0, I),

σ² the variance of each weight over the samples, D the deviations of the K newest from the mean. Its covariance is
scale · (diag σ² + D Dᵀ / (K − 1)); at scale ½ the diagonal and the low rank each count half. Draws are members, each
with batch-norm statistics measured anew. From several chains it is MultiSWAG.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import require_not_negative, require_range
from uraenas.weights.cycle import Cycle
from uraenas.weights.descending import Descending
from uraenas.weights.masks import MOST_DRAWS
from uraenas.weights.method import UNCHANGED, Candidate, as_they_are


@dataclass(frozen=True)
class Swag(Descending):
    """SWAG: members are draws from a Gaussian through the end of a descent, diagonal plus low rank."""

    level: float = 0.1  # the step size while samples are taken, relative to the first
    exploration: float = 0.5  # the part of training before that, on a cosine down to the level
    samples: int = 20  # one after each of so many last epochs
    rank: int = 20  # of the covariance, at most: as many newest samples
    scale: float = 0.5  # of the covariance; 0: every member is the mean, as in SWA
    draws: int = 10  # members of one chain

    section: ClassVar[str] = "swag"
    of_members: ClassVar[tuple[str, ...]] = ("rank", "scale", "draws")
    trajectory: ClassVar[str] = "swag"
    objective = None
    forward = None
    changes = UNCHANGED

    def check_own(self) -> None:
        require_range("level", self.level, 1e-6, 1)
        require_range("samples", self.samples, 2, 100_000)
        require_range("rank", self.rank, 2, 100_000)
        require_not_negative("scale", self.scale)
        require_range("draws", self.draws, 1, MOST_DRAWS)

    def cycle(self, epochs: int, steps_per_epoch: int) -> Cycle:
        stages = (self.step_size, 1, self.exploration, self.samples, self.floor)
        return Cycle(epochs, steps_per_epoch, *stages, level=self.level)

    def check(self, epochs: int) -> None:
        self.cycle(epochs, 1).require_sampling_stage()

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        if len(samples) < 2:  # a chain that was cut short has no spread to draw from
            return as_they_are(samples)
        gaussian, every = Gaussian.through(samples, self.rank), tuple(range(len(samples)))
        return [
            Candidate(every, gaussian.draw(draws.at(key, number), self.scale), draw=number)
            for number in range(self.draws)
        ]

    @property
    def members_per_chain(self) -> int:
        return self.draws


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A normal distribution of weights [W]: mean, deviation of each, and a low rank [K, W]."""

    mean: Tensor
    deviation: Tensor
    low_rank: Tensor

    @classmethod
    def through(cls, samples: Sequence[Tensor], rank: int) -> "Gaussian":
        """From samples, the newest first."""
        every = torch.stack(list(samples))
        mean = every.mean(dim=0)
        apart = every - mean
        return cls(mean, apart.square().mean(dim=0).sqrt(), apart[:rank])

    def draw(self, key: Tensor, scale: float) -> Tensor:
        count, rank = self.mean.numel(), len(self.low_rank)
        dtype = self.mean.dtype
        alone = draws.normal(draws.at(key, 0), count, dtype)
        together = draws.normal(draws.at(key, 1), rank, dtype) / math.sqrt(rank - 1)
        return self.mean + math.sqrt(scale) * (self.deviation * alone + together @ self.low_rank)
