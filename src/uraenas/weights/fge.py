"""Fast geometric ensembles: after one long cosine, short ones, each of which ends in a member (Garipov et al., 2018).

The published short cycles are triangles from a high to a low step size; here they are cosines that begin high.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.weights.descending import ShortCosines
from uraenas.weights.method import UNCHANGED, Candidate, as_they_are


@dataclass(frozen=True)
class FastGeometric(ShortCosines):
    """Fast geometric ensemble: members at the ends of short cosines after a long one."""

    section: ClassVar[str] = "fge"
    of_members: ClassVar[tuple[str, ...]] = ()
    trajectory: ClassVar[str] = "fge"
    objective = None
    forward = None
    changes = UNCHANGED

    def check_own(self) -> None:
        self.require_short_cosines()

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        return as_they_are(samples)

    @property
    def members_per_chain(self) -> int:
        return self.samples
