"""Swapout and stochastic depth: masks on the terms of sums, where a cell's edges meet in a node.

Swapout masks every value of every term, skips among them:

    y = Θ_1 ∘ x + Θ_2 ∘ F(x),     Θ ~ Bernoulli(1 − d (1 − keep)),

d the depth of the sum in the network, 1 at its end. Nothing is scaled, so batch norm's statistics are those of masked
values, and only passes with masks make sense. Stochastic depth masks whole terms F(x), image by image, in training
alone, and scales what is left: it is the control, a regulariser without an ensemble.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.base.errors import UraenasError, require_range
from uraenas.spaces import Draw, Network, Passage, Tensors, Term
from uraenas.weights.descending import OneCosine
from uraenas.weights.masks import MOST_DRAWS, masked
from uraenas.weights.method import UNCHANGED, Changes


@dataclass(frozen=True)
class Swapout(OneCosine):
    """Swapout: a member is a pass with its own masks on every term of every sum."""

    keep: float = 0.5  # the chance to be kept at the network's end; it falls from 1 in proportion to depth
    draws: int = 10  # passes of one network

    section: ClassVar[str] = "swapout"
    of_members: ClassVar[tuple[str, ...]] = ("draws",)
    trajectory: ClassVar[str] = "swapout"
    objective = None
    changes = UNCHANGED

    def check_own(self) -> None:
        _require_keep(self.keep)
        require_range("draws", self.draws, 1, MOST_DRAWS)

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        def term(one: Term, x: Tensor) -> Tensor:
            return masked(draw, one.name, x, x.dim(), _chance(one, self.keep), scaled=False)

        return network(weights, Passage(term=term))

    @property
    def members_per_chain(self) -> int:
        return self.draws


@dataclass(frozen=True)
class StochasticDepth(OneCosine):
    """Stochastic depth: operations are left out in training, image by image; one member, without masks."""

    keep: float = 0.5  # the chance to be kept at the network's end; it falls from 1 in proportion to depth

    section: ClassVar[str] = "stochastic_depth"
    of_members: ClassVar[tuple[str, ...]] = ()
    trajectory: ClassVar[str] = "stochastic_depth"
    members_per_chain: ClassVar[int] = 1
    objective = None
    changes = Changes(as_plain=lambda weights, layout, draw: weights)

    def check_own(self) -> None:
        _require_keep(self.keep)

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        if draw.number is not None:
            return network(weights)

        def term(one: Term, x: Tensor) -> Tensor:
            if one.skips or one.alone:  # what is left must still reach the output
                return x
            return masked(draw, one.name, x, 1, _chance(one, self.keep))

        return network(weights, Passage(term=term))


def _chance(one: Term, keep: float) -> float:
    return 1 - one.depth * (1 - keep)


def _require_keep(keep: float) -> None:
    if not 0 < keep <= 1:
        raise UraenasError(f"keep = {keep} is out of range; it must lie in 0 … 1, 0 excluded")
