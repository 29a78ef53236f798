"""MIMO: one network that reads M images at once and names the class of each (Havasi et al., 2021).

    (logits_1, …, logits_M) = network(x_1, …, x_M),     loss = Σ_m CE(logits_m, y_m)

In training the M images of a row are unlike: every input has an order of its own, but for a share of rows that are
left as they are. In prediction all M are the same image, and each head is a member.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError, require_range
from uraenas.engine import cross_entropy
from uraenas.spaces import Draw, Layout, Network, Tensors
from uraenas.weights.descending import OneCosine
from uraenas.weights.heads import one_head, with_heads
from uraenas.weights.method import Changes


@dataclass(frozen=True)
class Mimo(OneCosine):
    """MIMO: one network reads several images at once; each of its heads is a member."""

    inputs: int = 3
    repeats: int = 1  # how often an image stands in a batch, beside others each time; so many times the work
    alike: float = 0.0  # the share of rows that have one image in all inputs

    section: ClassVar[str] = "mimo"
    of_members: ClassVar[tuple[str, ...]] = ()
    trajectory: ClassVar[str] = "mimo"

    def check_own(self) -> None:
        require_range("inputs", self.inputs, 1, 100)
        require_range("repeats", self.repeats, 1, 100)
        if not 0 <= self.alike <= 1:
            raise UraenasError(f"alike = {self.alike} is out of range; it must lie in 0 … 1")

    @property
    def changes(self) -> Changes:
        return Changes(
            layout=self._widened, repeats=self.repeats, as_plain=self._of_one_image, in_one_pass=True
        )

    def _of_one_image(self, weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
        """One image in all inputs is read by the sum of their weights."""
        first, many = layout.first.name, self.inputs
        summed = weights[first].unflatten(1, (many, -1)).sum(dim=1)
        return one_head({**weights, first: summed}, layout, draw, many)

    def _widened(self, layout: Layout) -> Layout:
        """The first layer reads M times as many channels, the last gives M times as many logits."""
        first, many = layout.first, self.inputs
        shape = (first.shape[0], many * first.shape[1], *first.shape[2:])
        wide = replace(first, shape=shape, deviation=first.deviation / many**0.5)
        entries = with_heads(layout, many).entries
        return Layout(tuple(wide if entry is first else entry for entry in entries))

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        images, many = network.images, self.inputs
        if draw.number is not None:
            logits = network(weights, images=torch.cat([images] * many, dim=1))
            return logits.view(len(images), many, -1)[:, draw.number % many]
        orders = [self._order(draw, m, len(images)) for m in range(many)]
        logits = network(weights, images=torch.cat([images[order] for order in orders], dim=1))
        heads = logits.view(len(images), many, -1).unbind(dim=1)
        # Head m of row i is about image order[i]: back where the labels stand.
        back = [head[torch.argsort(order)] for head, order in zip(heads, orders, strict=True)]
        return torch.cat(back, dim=1)

    def _order(self, draw: Draw, m: int, count: int) -> Tensor:
        kept = round(self.alike * count)
        rows = torch.arange(count, device=draw.key.device)
        mixed = kept + draws.permutation(draws.at(draw.key, m), count - kept)
        return torch.cat([rows[:kept], mixed])

    def objective(self, logits_MNK: Tensor, labels: Tensor, weights_MN: Tensor | None) -> Tensor:
        heads = logits_MNK.chunk(self.inputs, dim=2)
        return torch.stack([cross_entropy(head, labels, weights_MN) for head in heads]).sum(dim=0)

    @property
    def members_per_chain(self) -> int:
        return self.inputs
