"""Point estimates: gradient descent with momentum on one cosine, the benchmark's recipe."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.base.errors import require_not_negative, require_positive
from uraenas.base.parts import given
from uraenas.spaces import Tensors
from uraenas.weights.cycle import Cycle
from uraenas.weights.descent import Descent, move, require_momentum
from uraenas.weights.method import UNCHANGED, Candidate, Step, as_they_are


@dataclass(frozen=True)
class Point:
    """One set of weights, the end of a descent with Nesterov momentum."""

    step_size: float = 0.1
    momentum: float = 0.9
    floor: float = 0.0  # the step size at the end
    nesterov: bool = given(default=True)

    section: ClassVar[str] = "point"
    state: ClassVar[tuple[str, ...]] = ("velocity",)
    of_members: ClassVar[tuple[str, ...]] = ()
    objective = None
    forward = None
    changes = UNCHANGED

    def __post_init__(self) -> None:
        require_positive("step_size", self.step_size)
        require_momentum(self.momentum)
        require_not_negative("floor", self.floor)

    def cycle(self, epochs: int, steps_per_epoch: int) -> Cycle:
        return Cycle(epochs, steps_per_epoch, self.step_size, floor=self.floor)

    def check(self, epochs: int) -> None:
        self.cycle(epochs, 1)

    def noise_deviation(self, step_size: float, images: int) -> float:
        return 0.0

    def update(self, state: Tensors, gradient: Tensor, step: Step) -> Tensors:
        return move(state, gradient, step.size, self.momentum, look_ahead=self.nesterov)

    def moves(self, cycle: Cycle, epoch: int) -> Hashable:
        return Descent(self.step_size, cycle.length, self.floor, self.momentum, self.nesterov)

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        return as_they_are(samples)

    @property
    def members_per_chain(self) -> int:
        return 1

    @property
    def trajectory(self) -> str:
        return "point"
