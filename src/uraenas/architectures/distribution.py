"""The seam `ArchitectureDistribution`: a distribution over the decisions of a space that a search can learn.

An entry is a frozen dataclass whose fields are the settings `search.<name>.…`. It works on explicit state, a
dictionary of tensors, so a checkpoint is that dictionary. Shapes: D decisions, O options (the most that one has). Where
decisions have different numbers of options, `state["mask"]` is False where there is none.

There are two ways to learn one, and `loop` says which. `Mixed` ones weigh the options of a supernet and follow the
gradient of its loss; the search holds their state on its device, so a whole step can be captured. `Queried` ones ask
for architectures to be trained, and learn from how well these do.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, require_positive
from uraenas.spaces import Tensors


class ArchitectureDistribution(Protocol):
    """What both kinds offer: how to begin, to draw from it, and to tell what it is."""

    loop: ClassVar[str]  # supernet, for a `Mixed` one; queries, for a `Queried` one
    # state [D, O, …] that gradients are taken of, or [D, 1]; the search's result keeps it
    learned: ClassVar[tuple[str, ...]]
    kept: ClassVar[tuple[str, ...]]  # further state that draws are made from, hence kept too
    numbers: ClassVar[str]  # what `favour` holds, for histories and reports
    bars: ClassVar[str]  # for readers of a report: what these numbers are as bars, and what a draw depends on

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        """The state before the search."""

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        """One draw [D, O]: the option with the largest score is taken. Below 1 draws lie closer to the mode."""

    def mode(self, state: Tensors) -> Tensor:
        """The options [D] of the architecture that stands for the distribution."""

    def favour(self, state: Tensors) -> Tensor:
        """The numbers that are learned, as [D, O]: the larger, the more an option is favoured."""

    def spread(self, state: Tensors) -> Tensor | None:
        """The standard deviation of these numbers [D, O], where they have one."""

    def shares(self, state: Tensors) -> Tensor:
        """The expected share of each option [D, O]; rows sum to 1.

        Of draws, where the numbers have a `spread`; of others it may be that of the mixing weights.
        """

    def facts(self, state: Tensors) -> dict[str, Any]:
        """Numbers for the history. `entropy` is the spread, largest at the beginning."""


class Mixed(ArchitectureDistribution, Protocol):
    """Learned by gradients, in a supernet."""

    hard: ClassVar[bool]  # mixing weights are one-hot: other options do not run, and their slopes are 0

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        """Mixing weights [D, O] in float64 for one pass of the supernet, differentiable in what is learned.

        `progress` goes from 0 to 1 over the search.
        """

    def penalty(self, state: Tensors) -> Tensor | None:
        """What is added to the loss on validation images."""

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        """The next state, given the gradients of what is learned; `step` counts from 0."""


# Whether these options are those of a network.
IsValid = Callable[[Sequence[int]], bool]
# Given the state, a number and a key: so many recipes to train with (`factors.py`).
AskForRecipes = Callable[[Tensors, int, Tensor], list[tuple[float, ...]]]


class Queried(ArchitectureDistribution, Protocol):
    """Learned from networks that are trained for it.

    Its state is all that was asked for: `queried` [Q, D] and `values` [Q], the accuracy of each. Whatever else it
    keeps, such as a population, follows from these, so there is nothing more to checkpoint.
    """

    together: int  # how many it asks for at a time
    recipes: AskForRecipes | None  # how it asks for recipes, too; most leave them as they are
    # Settings, and what of so many first queries is drawn at random, whatever it was told; in whole rounds.
    at_random: ClassVar[Mapping[str, str]]

    def propose(self, state: Tensors, count: int, key: Tensor, is_valid: IsValid) -> list[tuple[int, ...]]:
        """What to train next: options of so many valid architectures."""


def option_mask(options: Sequence[int]) -> Tensors:
    """`mask` [D, O], where decisions have different numbers of options; else nothing."""
    if len(set(options)) == 1:
        return {}
    return {"mask": torch.arange(max(options)) < torch.tensor(options)[:, None]}


def masked(values: Tensor, state: Tensors, fill: float = 0.0) -> Tensor:
    """The values, with `fill` where there is no option."""
    return torch.where(state["mask"], values, fill) if "mask" in state else values


def entropy_of(shares: Tensor) -> Tensor:
    """−Σ p log p of each row [D], in nats."""
    return torch.special.entr(shares).sum(dim=-1)


def require_adam(step_size: float, betas: tuple[float, float]) -> None:
    """Refuse settings of Adam that make no sense."""
    require_positive("step_size", step_size)
    if not all(0 <= beta < 1 for beta in betas):
        raise UraenasError(f"betas = {betas} is out of range; both: 0 or more, below 1")


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
