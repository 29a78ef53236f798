"""Fast geometric ensembles: after one long cosine, short ones, each of which ends in a member (Garipov et al., 2018).

The published short cycles are triangles from a high to a low step size; here they are cosines that begin high.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.base.errors import require_range
from uraenas.weights.cycle import Cycle
from uraenas.weights.descending import Descending
from uraenas.weights.method import UNCHANGED, Candidate, as_they_are


@dataclass(frozen=True)
class FastGeometric(Descending):
    """Fast geometric ensemble: members at the ends of short cosines after a long one."""

    peak: float = 0.5  # the step size that a short cosine begins with, relative to the first
    exploration: float = 0.8  # the part of training before them
    samples: int = 10  # short cosines, each of which gives a member

    section: ClassVar[str] = "fge"
    of_members: ClassVar[tuple[str, ...]] = ()
    trajectory: ClassVar[str] = "fge"
    objective = None
    forward = None
    changes = UNCHANGED

    def check_own(self) -> None:
        require_range("peak", self.peak, 1e-6, 1)
        require_range("samples", self.samples, 1, 100_000)

    def cycle(self, epochs: int, steps_per_epoch: int) -> Cycle:
        stages = (self.step_size, 1, self.exploration, self.samples, self.floor)
        return Cycle(epochs, steps_per_epoch, *stages, peak=self.peak)

    def check(self, epochs: int) -> None:
        self.cycle(epochs, 1).require_sampling_stage()

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        return as_they_are(samples)

    @property
    def members_per_chain(self) -> int:
        return self.samples
