"""Stages of a search in a supernet, as DrNAS's progressive search has them.

In stage s operations run on 1/partial[s] of the channels, and each decision keeps keep[s] options: those favoured most
when the stage begins. At the start of each stage the weights go ahead, and the distribution stands still.
"""

import math
from dataclasses import dataclass

import torch

from uraenas.architectures import Mixed
from uraenas.base import draws
from uraenas.base.errors import UraenasError, require_range
from uraenas.spaces import InParts, Space, Tensors


@dataclass(frozen=True)
class Stages:
    """Which stage an epoch belongs to: they are of one length, as nearly as epochs allow."""

    epochs: int
    partial: tuple[int, ...]
    keep: tuple[int, ...]
    still: float

    def __post_init__(self) -> None:
        for parts in self.partial:
            require_range("partial", parts, 1, 1000)
        if not self.partial or any(a % b for a, b in zip(self.partial, self.partial[1:], strict=False)):
            raise UraenasError(f"partial = {self.partial} is not allowed; each must divide the one before")
        if len(self.partial) > self.epochs:
            raise UraenasError(
                f"partial = {self.partial} is not allowed; {self.epochs} epochs are too few for a stage each"
            )
        if self.keep and (len(self.keep) != len(self.partial) or min(self.keep) < 1):
            raise UraenasError(f"keep = {self.keep} is not allowed; there is one number for each of partial")
        if any(after > before for before, after in zip(self.keep, self.keep[1:], strict=False)):
            raise UraenasError(f"keep = {self.keep} is not allowed; what is left out does not come back")
        if not 0 <= self.still < 1:
            raise UraenasError(f"still = {self.still} is not allowed; allowed: 0 or more, below 1")
        shortest = self.epochs // len(self.partial)  # epochs of a stage
        if self.still * shortest > shortest - 1:
            most = math.floor(100 * (shortest - 1) / shortest) / 100
            raise UraenasError(
                f"still = {self.still} is not allowed; of a stage's {shortest} epochs none would be left in which the "
                f"distribution moves; allowed: 0 … {most:g}, or more epochs"
            )

    def at(self, epoch: int) -> int:
        """The last one also at the end, where a search has a checkpoint, too."""
        return min(max(0, epoch), self.epochs - 1) * len(self.partial) // self.epochs

    def begins(self, epoch: int) -> bool:
        """Whether another stage does."""
        return self.at(epoch) != self.at(epoch - 1)

    def parts(self, epoch: int) -> int:
        """One of so many parts of the channels goes through operations."""
        return self.partial[self.at(epoch)]

    def is_still(self, epoch: int) -> bool:
        """Whether the distribution does not move; the part that is still is rounded up to whole epochs."""
        own = [e for e in range(self.epochs) if self.at(e) == self.at(epoch)]
        return epoch - own[0] < self.still * len(own)

    def still_before(self, epoch: int) -> int:
        """How many epochs before this one it did not move in."""
        return sum(map(self.is_still, range(epoch))) if self.still else 0

    def mask(self, distribution: Mixed, state: Tensors, epoch: int) -> Tensors:
        """`mask` [D, O] from this epoch on, where there is a stage that does not keep all options."""
        if not self.keep:
            return {}
        favour = distribution.favour(state)
        before = state.get("mask", torch.ones_like(favour, dtype=torch.bool))
        ranks = torch.where(before, favour, -torch.inf).argsort(dim=-1, descending=True, stable=True)
        return {"mask": before & (ranks.argsort(dim=-1) < self.keep[self.at(epoch)])}

    def widened(self, space: Space, flat: Tensors, epoch: int, seed: int) -> Tensors:
        """The supernet's weights, and what goes with them, at the beginning of the stage of this epoch."""
        before, after = self.parts(epoch - 1), self.parts(epoch)
        if before == after:
            return flat
        assert isinstance(space, InParts)  # `check` has seen to it
        key = draws.key(seed, "search", "stage", self.at(epoch))
        return {name: space.widened(one, before, after, key) for name, one in flat.items()}

    def check(self, space: Space) -> None:
        """Refuse parts of channels that there are not."""
        channels = space.channels if isinstance(space, InParts) else 0
        if max(self.partial) > 1 and (not channels or channels % max(self.partial)):
            raise UraenasError(
                f"search.partial = {self.partial} is not allowed; networks of {space.name} with "
                f"{channels or 'no'} channels have no such parts"
            )
