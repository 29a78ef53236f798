"""Which E of the candidates to keep."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, require_range, unknown
from uraenas.data.targets import CLASSES, Target
from uraenas.evaluation.metrics import groups_of

SELECTIONS = ("in-turn", "greedy", "repeated", "top-k")
VAGUE = 2.0  # deviations of the training labels


@dataclass(frozen=True)
class EnsembleSettings:
    """How many members an ensemble has, and how they are chosen; another choice needs no training."""

    members: int = 10
    # Among candidates, in turn over chains, unless the method chooses in its own way; or by held-out NLL: greedy,
    # repeated (greedy, a member may be taken again) or top-k (the best by themselves).
    selection: str = "in-turn"
    # chains to choose from by held-out NLL; 0: train.sampled.architectures, or as many as the method takes
    candidates: int = 0

    def __post_init__(self) -> None:
        require_range("members", self.members, 1, 1000)
        require_range("candidates", self.candidates, 0, 10_000)
        if self.selection not in SELECTIONS:
            raise unknown("selection", self.selection, SELECTIONS)

    def chosen_by(self, own: str) -> "EnsembleSettings":
        """The settings of a method whose own way to choose is this, where no other is asked for."""
        return self if self.judges else replace(self, selection=own)

    @property
    def judges(self) -> bool:
        """Whether members are chosen by what they say of held-out images."""
        return self.selection != "in-turn"


def in_turn(sources: Sequence[Hashable], count: int) -> list[int]:
    """Positions of `count` candidates, taken in turn from all sources, within a source in the order given."""
    queues = groups_of(sources)
    depth = max(map(len, queues), default=0)
    order = [queue[turn] for turn in range(depth) for queue in queues if turn < len(queue)]
    _require_enough(len(order), count)
    return order[:count]


def by_nll(
    selection: str,
    predictions_MNK: Tensor,
    labels_N: Tensor,
    count: int,
    target: Target = CLASSES,
    weights_N: Tensor | None = None,
) -> list[int]:
    """Positions of `count` candidates, chosen by their held-out NLL in one of the ways; vague ones only for want."""
    repeated = selection == "repeated"
    clear = torch.nonzero(~_vague(predictions_MNK, target))[:, 0]
    if len(clear) < (1 if repeated else count):
        clear = torch.arange(len(predictions_MNK))
    judged = predictions_MNK[clear], labels_N, count, target
    places = top(*judged, weights_N) if selection == "top-k" else greedy(*judged, repeated, weights_N)
    return clear[places].tolist()


def _vague(predictions_MNK: Tensor, target: Target) -> Tensor:
    """Which candidates give examples more variance, on average, than labels have that are told by nothing [M].

    Where a few labels lie far off, NLL welcomes one of them. Its variance would be most of the ensemble's.
    """
    found = torch.zeros(len(predictions_MNK), dtype=torch.bool)
    for place, part in enumerate(target.parts):
        variance_M = predictions_MNK[..., 2 * place + 1].double().exp().mean(dim=1).cpu()
        found |= variance_M > (VAGUE * part.scale) ** 2
    return found


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
    if not repeated:
        _require_enough(candidates, count)
    right_MN = target.log_likelihood(predictions_MNK.double(), labels_N)
    chosen: list[int] = []
    total_N = torch.full_like(right_MN[0], -torch.inf)
    for _ in range(count):
        found_MN = torch.logaddexp(total_N, right_MN)
        nll_M = _nll(found_MN, weights_N)
        free = [m for m in range(candidates) if repeated or m not in chosen]
        best = min(free, key=nll_M.tolist().__getitem__)
        chosen.append(best)
        total_N = torch.logaddexp(total_N, right_MN[best])
    return chosen


def top(
    predictions_MNK: Tensor,
    labels_N: Tensor,
    count: int,
    target: Target = CLASSES,
    weights_N: Tensor | None = None,
) -> list[int]:
    """Positions of the `count` candidates with the lowest held-out NLL of their own, the lowest first."""
    _require_enough(len(predictions_MNK), count)
    right_MN = target.log_likelihood(predictions_MNK.double(), labels_N)
    return _nll(right_MN, weights_N).argsort(stable=True)[:count].tolist()


def _nll(right_MN: Tensor, weights_N: Tensor | None) -> Tensor:
    """Of M predictions, from the log-likelihood of each label."""
    return -(right_MN.mean(dim=1) if weights_N is None else right_MN @ weights_N.to(right_MN))


def _require_enough(candidates: int, count: int) -> None:
    if candidates < count:
        raise UraenasError(f"{count} members were asked for, but only {candidates} candidates exist")
