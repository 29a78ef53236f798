"""Which E of the candidates to keep."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, require_range, unknown
from uraenas.data.targets import CLASSES, Target
from uraenas.evaluation.metrics import groups_of

SELECTIONS = ("in-turn", "greedy", "repeated")


@dataclass(frozen=True)
class EnsembleSettings:
    """How many members an ensemble has, and how they are chosen; another choice needs no training."""

    members: int = 10
    # Among candidates: in turn over chains, greedy on held-out NLL, or so that a member may be taken repeatedly.
    selection: str = "in-turn"

    def __post_init__(self) -> None:
        require_range("members", self.members, 1, 1000)
        if self.selection not in SELECTIONS:
            raise unknown("selection", self.selection, SELECTIONS)

    @property
    def judges(self) -> bool:
        """Whether members are chosen by what they say of held-out images."""
        return self.selection != "in-turn"


def in_turn(sources: Sequence[Hashable], count: int) -> list[int]:
    """Positions of `count` candidates, taken in turn from all sources, within a source in the order given."""
    queues = groups_of(sources)
    depth = max(map(len, queues), default=0)
    order = [queue[turn] for turn in range(depth) for queue in queues if turn < len(queue)]
    if len(order) < count:
        raise UraenasError(f"{count} members were asked for, but only {len(order)} candidates exist")
    return order[:count]


def greedy(
    predictions_MNK: Tensor,
    labels_N: Tensor,
    count: int,
    target: Target = CLASSES,
    repeated: bool = False,
    weights_N: Tensor | None = None,
) -> list[int]:
    """Positions of `count` candidates that lower held-out NLL most, added one at a time, each at most once.

    If it may be repeated, one that is chosen more often weighs more (Caruana and others, 2004). Examples count as much
    as their weights say.
    """
    candidates = predictions_MNK.shape[0]
    if candidates < count and not repeated:
        raise UraenasError(f"{count} members were asked for, but only {candidates} candidates exist")
    right_MN = target.log_likelihood(predictions_MNK.double(), labels_N)
    chosen: list[int] = []
    total_N = torch.full_like(right_MN[0], -torch.inf)
    for _ in range(count):
        found_MN = torch.logaddexp(total_N, right_MN)
        nll_M = -(found_MN.mean(dim=1) if weights_N is None else found_MN @ weights_N.to(found_MN))
        free = [m for m in range(candidates) if repeated or m not in chosen]
        best = min(free, key=nll_M.tolist().__getitem__)
        chosen.append(best)
        total_N = torch.logaddexp(total_N, right_MN[best])
    return chosen
