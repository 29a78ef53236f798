"""A categorical distribution for each decision: what DARTS, SNAS, GDAS and REINFORCE have in common.

P(option o at decision d) = softmax(logits_d)_o. The largest of logits + Gumbel noise is an exact draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from uraenas.architectures.distribution import adam, entropy_of, masked, option_mask, require_adam
from uraenas.base import draws
from uraenas.base.errors import require_not_negative, require_positive
from uraenas.spaces import Tensors


def initial_logits(options: Sequence[int], key: int) -> Tensors:
    """Logits close to 0, and Adam's moments."""
    shape, mask = (len(options), max(options)), option_mask(options)
    logits = 1e-3 * draws.normal(draws.at(key, 0), shape[0] * shape[1], torch.float64).view(shape)
    moments = {name: torch.zeros(shape, dtype=torch.float64) for name in ("first_moment", "second_moment")}
    return {"logits": masked(logits, mask), **moments, **mask}


def probabilities(state: Tensors) -> Tensor:
    """softmax(logits) [D, O]; 0 where there is no option."""
    return torch.softmax(masked(state["logits"], state, -torch.inf), dim=-1)


def perturbed(state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
    """logits/T + Gumbel noise [D, O]: the argmax is a draw from softmax(logits/T)."""
    logits = state["logits"]
    noise = -torch.log(-torch.log(draws.uniform(key, logits.numel(), torch.float64)))
    return masked(logits / temperature + noise.view(logits.shape), state, -torch.inf)


def stepped(
    state: Tensors,
    gradient: Tensor,
    step: Tensor,
    step_size: float,
    betas: tuple[float, float],
    decay: float = 0.0,
) -> Tensors:
    """The state after a step of Adam on the logits, which decay towards 0: towards the uniform distribution."""
    logits = state["logits"]
    moments = state["first_moment"], state["second_moment"]
    moved = adam(logits, *moments, gradient + decay * logits, step, step_size, betas)
    return {**state, **dict(zip(("logits", "first_moment", "second_moment"), moved, strict=True))}


@dataclass(frozen=True)
class Logits:
    """Logits that are learned in a supernet. Abstract: an entry adds how they mix the options."""

    step_size: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    decay: float = 1e-3  # of the logits

    loop: ClassVar[str] = "supernet"
    hard: ClassVar[bool] = False
    learned: ClassVar[tuple[str, ...]] = ("logits",)
    kept: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[str] = "probability"
    bars: ClassVar[str] = "A bar is an option's probability: how often it is drawn."

    def __post_init__(self) -> None:
        require_adam(self.step_size, self.betas)
        require_not_negative("decay", self.decay)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        return initial_logits(options, key)

    def penalty(self, state: Tensors) -> Tensor | None:
        return None  # the decay of the logits is all

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        return stepped(state, gradients["logits"], step, self.step_size, self.betas, self.decay)

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return perturbed(state, key, temperature)

    def mode(self, state: Tensors) -> Tensor:
        return self.favour(state).argmax(dim=-1)

    def favour(self, state: Tensors) -> Tensor:
        return probabilities(state)

    def spread(self, state: Tensors) -> Tensor | None:
        return None

    def shares(self, state: Tensors) -> Tensor:
        return self.favour(state)

    def facts(self, state: Tensors) -> dict[str, Any]:
        return {"entropy": float(entropy_of(probabilities(state)).sum())}


@dataclass(frozen=True)
class Concrete(Logits):
    """Logits of which samples of the Concrete distribution are taken. Abstract, too."""

    first: float = 10.0  # temperature at the start of the search; it falls linearly
    last: float = 1.0  # and at its end

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("first", self.first)
        require_positive("last", self.last)

    def sample(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        """softmax((logits + Gumbel noise)/τ) [D, O], τ as it is now."""
        temperature = self.first + (self.last - self.first) * progress
        return torch.softmax(perturbed(state, key) / temperature, dim=-1)
