"""What kinds of weights have in common that are learned by descent, as in `point.py`. Entries add to it."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from uraenas.base.errors import require_not_negative, require_positive, require_range
from uraenas.base.parts import given
from uraenas.spaces import Tensors
from uraenas.weights.cycle import Cycle
from uraenas.weights.descent import move, require_momentum
from uraenas.weights.method import Candidate, Step, passes


@dataclass(frozen=True)
class Descending(ABC):
    """Descent with Nesterov momentum. An entry adds a cycle and members, and overrides nothing."""

    step_size: float = 0.1
    momentum: float = 0.9
    floor: float = 0.0  # the least step size, at the end of a cosine
    nesterov: bool = given(default=True)

    state: ClassVar[tuple[str, ...]] = ("velocity",)

    def __post_init__(self) -> None:
        require_positive("step_size", self.step_size)
        require_momentum(self.momentum)
        require_not_negative("floor", self.floor)
        self.check_own()

    @abstractmethod
    def check_own(self) -> None:
        """Refuse settings of the entry that make no sense."""

    def noise_deviation(self, step_size: float, images: int) -> float:
        return 0.0

    def update(self, state: Tensors, gradient: Tensor, step: Step) -> Tensors:
        return move(state, gradient, step.size, self.momentum, look_ahead=self.nesterov)

    def moves(self, cycle: Cycle, epoch: int) -> Hashable:
        return self  # what it does besides is no other kind's


@dataclass(frozen=True)
class OneCosine(Descending):
    """Descent on one cosine, the benchmark's recipe."""

    def cycle(self, epochs: int, steps_per_epoch: int) -> Cycle:
        return Cycle(epochs, steps_per_epoch, self.step_size, floor=self.floor)

    def check(self, epochs: int) -> None:
        self.cycle(epochs, 1)

    @property
    @abstractmethod
    def members_per_chain(self) -> int:
        """How many passes of the one network at its end are members."""

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        return passes(samples, self.members_per_chain)


@dataclass(frozen=True)
class ShortCosines(Descending):
    """Descent on one long cosine, then on short ones, each of which ends in a sample."""

    peak: float = 0.5  # the step size that a short cosine begins with, relative to the first
    exploration: float = 0.8  # the part of training before them
    samples: int = 10  # short cosines, each of which gives a member

    def cycle(self, epochs: int, steps_per_epoch: int) -> Cycle:
        stages = (self.step_size, 1, self.exploration, self.samples, self.floor)
        return Cycle(epochs, steps_per_epoch, *stages, peak=self.peak)

    def check(self, epochs: int) -> None:
        self.cycle(epochs, 1).require_sampling_stage()

    def require_short_cosines(self) -> None:
        """Refuse a peak or a number of samples that makes no sense."""
        require_range("peak", self.peak, 1e-6, 1)
        require_range("samples", self.samples, 1, 100_000)
