"""Heads: one network whose last layer makes H predictions, each of which follows one member of a teacher.

    (logits_1, …, logits_H) = network(x),     loss = Σ_h CE(p_h, softmax(logits_h))

p_h is what the teacher's member h says of x (Hydra: Tran and others, 2020); without a teacher it is the label. With q_h
the heads' predictions the loss is Σ_h KL(p_h‖q_h) and a constant. KL is convex in both together, so

    KL(mean p_h ‖ mean q_h) ≤ mean_h KL(p_h ‖ q_h):

heads that follow members have a mean that follows theirs. Their disagreement follows, too, so uncertainty is split as
with members. Each head stands for the architecture of the member that it follows.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.engine import cross_entropy
from uraenas.spaces import Draw, Entry, Layout, Tensors
from uraenas.weights.descending import OneCosine
from uraenas.weights.method import Changes

MOST_HEADS = 1000


@dataclass(frozen=True)
class Heads(OneCosine):
    """Heads: one network makes several predictions at once, each a member; with a teacher, each follows one of its."""

    # for each head, the number of the architecture it stands for; without a teacher they have one
    architectures: tuple[int, ...] = (0, 0)

    section: ClassVar[str] = "heads"
    of_members: ClassVar[tuple[str, ...]] = ()
    trajectory: ClassVar[str] = "heads"
    forward = None

    def check_own(self) -> None:
        if not 1 <= len(self.architectures) <= MOST_HEADS or min(self.architectures) < 0:
            raise UraenasError(
                f"architectures = {self.architectures} is not allowed; it must be 1 to {MOST_HEADS} whole numbers"
            )

    @property
    def changes(self) -> Changes:
        heads = tuple(map(str, self.architectures))
        return Changes(layout=self._widened, heads=heads, as_plain=self._head, in_one_pass=True)

    def _head(self, weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
        return one_head(weights, layout, draw, len(self.architectures))

    def _widened(self, layout: Layout) -> Layout:
        return with_heads(layout, len(self.architectures))

    def objective(self, logits_MNK: Tensor, labels: Tensor, weights_MN: Tensor | None) -> Tensor:
        many = len(self.architectures)
        each = labels.shape == logits_MNK.shape  # what the teacher's members say, one after another
        own = labels.chunk(many, dim=2) if each else [labels] * many
        heads = zip(logits_MNK.chunk(many, dim=2), own, strict=True)
        losses_HM = torch.stack([cross_entropy(head, label, weights_MN) for head, label in heads])
        total = losses_HM.sum(dim=0)
        # Told is the mean, as a loss that can be read; the slope is the sum's: a head learns as if it were alone.
        return losses_HM.mean(dim=0).detach() + total - total.detach()

    @property
    def members_per_chain(self) -> int:
        return len(self.architectures)


def with_heads(layout: Layout, many: int) -> Layout:
    """The last layer gives so many times as many logits."""
    role = layout.last.role

    def widened(entry: Entry) -> Entry:
        if entry.role != role:
            return entry
        return replace(entry, shape=(many * entry.shape[0], *entry.shape[1:]))

    return Layout(tuple(map(widened, layout.entries)))


def one_head(weights: Tensors, layout: Layout, draw: Draw, many: int) -> Tensors:
    """The network with the draw's head alone, of so many."""
    last = layout.last.role
    own = {entry.name for entry in layout.entries if entry.role == last}
    number = 0 if draw.number is None else draw.number % many
    return {name: one.chunk(many)[number] if name in own else one for name, one in weights.items()}
