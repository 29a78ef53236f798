"""SNAS: options mixed by a sample of the Concrete distribution, which is nearly one-hot at low temperatures.

    θ_d = softmax((α_d + g)/τ),   g ~ Gumbel(0, 1),   τ falling from `first` to `last`

The gradient is that of the sample (pathwise). For τ > 0 it is biased for the loss of drawn architectures; as τ → 0 the
bias goes and the variance grows. The argmax of α + g is an exact draw from softmax(α), whatever τ is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from uraenas.architectures import categorical
from uraenas.architectures.distribution import require_adam_with_decay
from uraenas.base.errors import require_positive
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Snas:
    """Concrete samples, whose temperature falls over the search (SNAS)."""

    step_size: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    decay: float = 1e-3  # of the logits
    first: float = 10.0  # temperature at the start of the search; it falls linearly
    last: float = 1.0  # and at its end

    loop: ClassVar[str] = "supernet"
    hard: ClassVar[bool] = False
    learned: ClassVar[tuple[str, ...]] = categorical.LEARNED
    kept: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[str] = "probability"

    def __post_init__(self) -> None:
        require_adam_with_decay(self.step_size, self.betas, self.decay)
        require_positive("first", self.first)
        require_positive("last", self.last)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        return categorical.initial_logits(options, key)

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        temperature = self.first + (self.last - self.first) * progress
        return torch.softmax(categorical.perturbed(state, key) / temperature, dim=-1)

    def penalty(self, state: Tensors) -> Tensor | None:
        return None  # the decay of the logits is all

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        gradient = gradients["logits"]
        return categorical.stepped(state, gradient, step, self.step_size, self.betas, self.decay)

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return categorical.perturbed(state, key, temperature)

    def mode(self, state: Tensors) -> Tensor:
        return self.favour(state).argmax(dim=-1)

    def favour(self, state: Tensors) -> Tensor:
        return categorical.probabilities(state)

    def spread(self, state: Tensors) -> Tensor | None:
        return None

    def shares(self, state: Tensors) -> Tensor:
        return self.favour(state)

    def facts(self, state: Tensors) -> dict[str, Any]:
        return categorical.facts(state)
