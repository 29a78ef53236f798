"""The seam `ArchitectureDistribution`: a distribution over the decisions of a space that a search can learn.

An entry is a frozen dataclass whose fields are the settings `search.<name>.…`. It works on explicit state, a
dictionary of tensors that the search holds on its device, so a whole step can be captured and a checkpoint is that
dictionary. Shapes: D decisions, O options (the most that one has). Where decisions have different numbers of options,
`state["mask"]` is False where there is none.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from uraenas.spaces import Tensors


class ArchitectureDistribution(Protocol):
    """The protocol."""

    learned: ClassVar[
        tuple[str, ...]
    ]  # the state that the search takes gradients of, and that its result keeps
    numbers: ClassVar[str]  # what `favour` holds, for histories and reports

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        """The state before the search."""

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        """Mixing weights [D, O] in float64 for one pass of the supernet, differentiable in what is learned.

        `progress` goes from 0 to 1 over the search.
        """

    def penalty(self, state: Tensors) -> Tensor | None:
        """What is added to the loss on validation images."""

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        """The next state, given the gradients of what is learned; `step` counts from 0."""

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        """One draw [D, O]: the option with the largest score is taken. Below 1 draws lie closer to the mode."""

    def mode(self, state: Tensors) -> Tensor:
        """The options [D] of the architecture that stands for the distribution."""

    def favour(self, state: Tensors) -> Tensor:
        """The numbers that are learned, as [D, O]: the larger, the more an option is favoured."""

    def shares(self, state: Tensors) -> Tensor:
        """The expected mixing weights [D, O]; rows sum to 1."""

    def facts(self, state: Tensors) -> dict[str, Any]:
        """Numbers for the history. `entropy` is the spread, largest at the beginning."""


def option_mask(options: Sequence[int]) -> Tensors:
    """`mask` [D, O], where decisions have different numbers of options; else nothing."""
    if len(set(options)) == 1:
        return {}
    return {"mask": torch.arange(max(options)) < torch.tensor(options)[:, None]}


def masked(values: Tensor, state: Tensors, fill: float = 0.0) -> Tensor:
    """The values, with `fill` where there is no option."""
    return torch.where(state["mask"], values, fill) if "mask" in state else values


def adam(
    value: Tensor,
    first: Tensor,
    second: Tensor,
    gradient: Tensor,
    step: Tensor,
    step_size: float,
    betas: tuple[float, float],
) -> tuple[Tensor, Tensor, Tensor]:
    """Adam's next value and moments; `step` counts from 0."""
    first = first.lerp(gradient, 1 - betas[0])
    second = second.lerp(gradient**2, 1 - betas[1])
    count = (step + 1).to(torch.float64)
    mean = first / (1 - betas[0] ** count)
    deviation = torch.sqrt(second / (1 - betas[1] ** count)) + 1e-8
    return value - step_size * mean / deviation, first, second
