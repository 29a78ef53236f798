"""Point estimates by Adam on one cosine (Kingma and Ba, 2015): for perceptrons, whose losses differ in scale.

m ← β₁ m + (1 − β₁) g,     s ← β₂ s + (1 − β₂) g²,     w ← w − α m̂ / (√ŝ + ε),     m̂ = m / (1 − β₁ᵗ), ŝ alike
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, require_not_negative, require_positive
from uraenas.spaces import Tensors
from uraenas.weights.cycle import Cycle
from uraenas.weights.method import UNCHANGED, Candidate, Step, as_they_are

EPSILON = 1e-8


@dataclass(frozen=True)
class Adam:
    """One set of weights, the end of a descent by Adam."""

    step_size: float = 0.01
    first: float = 0.9  # β₁: how long gradients are remembered
    second: float = 0.999  # β₂: how long their squares are
    floor: float = 0.0  # the step size at the end

    section: ClassVar[str] = "adam"
    state: ClassVar[tuple[str, ...]] = ("mean", "square")
    of_members: ClassVar[tuple[str, ...]] = ()
    trajectory: ClassVar[str] = "adam"
    members_per_chain: ClassVar[int] = 1
    objective = None
    forward = None
    changes = UNCHANGED

    def __post_init__(self) -> None:
        require_positive("step_size", self.step_size)
        require_not_negative("floor", self.floor)
        for name in ("first", "second"):
            if not 0 <= getattr(self, name) < 1:
                raise UraenasError(
                    f"{name} = {getattr(self, name)} is out of range; it must lie in 0 … 1, 1 excluded"
                )

    def cycle(self, epochs: int, steps_per_epoch: int) -> Cycle:
        return Cycle(epochs, steps_per_epoch, self.step_size, floor=self.floor)

    def check(self, epochs: int) -> None:
        self.cycle(epochs, 1)

    def noise_deviation(self, step_size: float, images: int) -> float:
        return 0.0

    def update(self, state: Tensors, gradient: Tensor, step: Step) -> Tensors:
        mean = torch.lerp(gradient, state["mean"], self.first)
        square = torch.lerp(gradient**2, state["square"], self.second)
        time = (step.number + 1).to(torch.float64)
        unbiased = (1 - self.first**time).to(gradient.dtype), (1 - self.second**time).to(gradient.dtype)
        direction = (mean / unbiased[0]) / ((square / unbiased[1]).sqrt() + EPSILON)
        return {"weights": state["weights"] - step.size * direction, "mean": mean, "square": square}

    def moves(self, cycle: Cycle, epoch: int) -> Hashable:
        return self  # no other kind moves so

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        return as_they_are(samples)
