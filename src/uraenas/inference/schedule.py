"""The cosine cycle: large steps explore, small noisy steps sample, then it starts anew."""

import math
from dataclasses import dataclass

from uraenas.errors import UraenasError


@dataclass(frozen=True)
class Cycle:
    """Step size and stage of every step of a chain: `cycles` cosines over `epochs`, all of equal length.

        α_k = floor + (α_0 − floor)/2 · [cos(π · mod(k, L)/L) + 1],   L = steps in a cycle, k = 0, 1, …

    Step k explores while mod(k, L)/L < exploration, and samples (noise is added) after that.
    """

    epochs: int
    steps_per_epoch: int
    step_size: float
    cycles: int = 1
    exploration: float = 1.0
    samples_per_cycle: int = 1
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.cycles < 1 or self.epochs < 1 or self.epochs % self.cycles:
            fewer = self.epochs // max(1, self.cycles) * self.cycles
            near = f"{fewer} or {fewer + self.cycles}" if fewer > 0 else f"{self.cycles}"
            raise UraenasError(
                f"epochs = {self.epochs} must be a multiple of cycles = {self.cycles}, so that every cycle ends: "
                f"take {near}, or change cycles"
            )
        if not 0 <= self.exploration <= 1:
            raise UraenasError(f"exploration = {self.exploration} is out of range; it must lie in 0 … 1")
        if not 1 <= self.samples_per_cycle <= self.cycle_epochs:
            raise UraenasError(
                f"{self.samples_per_cycle} samples per cycle are out of range; a cycle of {self.cycle_epochs} epochs "
                f"gives 1 … {self.cycle_epochs}: take {self.cycles * self.samples_per_cycle} epochs or more, or change "
                "weight_samples or cycles"
            )

    @property
    def cycle_epochs(self) -> int:
        return self.epochs // self.cycles

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def position(self, step: int) -> float:
        """How far the current cycle has come, in [0, 1)."""
        length = self.cycle_epochs * self.steps_per_epoch
        return (step % length) / length

    def step_size_at(self, step: int) -> float:
        return self.floor + (self.step_size - self.floor) / 2 * (math.cos(math.pi * self.position(step)) + 1)

    def samples_at(self, step: int) -> bool:
        """Whether this step belongs to the sampling stage."""
        return self.position(step) >= self.exploration

    def collects_after(self, epoch: int) -> bool:
        """Whether a weight sample is kept at the end of this epoch: one per epoch in the last epochs of a cycle."""
        return epoch % self.cycle_epochs >= self.cycle_epochs - self.samples_per_cycle
