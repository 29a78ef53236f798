"""DARTS: every option of a decision at once, weighted by softmax(logits).

    θ_d = softmax(α_d),   no noise

The gradient is exact, and of first order unless `search.order` is 2. The logits are never trained as those of a
distribution: drawing from softmax(α) is a reading of them, not what DARTS does. It takes the argmax.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from uraenas.architectures import categorical
from uraenas.architectures.distribution import require_adam_with_decay
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Darts:
    """All options at once, weighted by a softmax: a point on the simplex, not a distribution over it (DARTS)."""

    step_size: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    decay: float = 1e-3  # of the logits

    loop: ClassVar[str] = "supernet"
    hard: ClassVar[bool] = False
    learned: ClassVar[tuple[str, ...]] = categorical.LEARNED
    kept: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[str] = "probability"

    def __post_init__(self) -> None:
        require_adam_with_decay(self.step_size, self.betas, self.decay)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        return categorical.initial_logits(options, key)

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        return categorical.probabilities(state)

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
