"""The cosine cycle: large steps explore, small noisy steps sample, then it starts anew."""

import math
from dataclasses import dataclass

from uraenas.errors import UraenasError


@dataclass(frozen=True)
class Cycle:
    """Step size and stage of every step of a chain: `cycles` cosines over `epochs`, all of equal length.

        α_k = floor + (α_0 − floor)/2 · [cos(π · mod(k, L)/L) + 1],   L = steps in a cycle, k = 0, 1, …

    Step k explores while mod(k, L)/L < exploration, and samples (noise is added) after that. The first cycle can be a
    longer one, and the others begin with a fraction of its step size: they then stay near what the first has found.
    """

    epochs: int
    steps_per_epoch: int
    step_size: float
    cycles: int = 1
    exploration: float = 1.0
    samples_per_cycle: int = 1
    floor: float = 0.0
    first: int = 0  # epochs of the first cycle; 0: as many as the others have
    later_peak: float = 1.0  # the step size that later cycles begin with, relative to the first's

    def __post_init__(self) -> None:
        if self.first:
            self._check_first()
        elif self.cycles < 1 or self.epochs < 1 or self.epochs % self.cycles:
            fewer = self.epochs // max(1, self.cycles) * self.cycles
            near = f"{fewer} or {fewer + self.cycles}" if fewer > 0 else f"{self.cycles}"
            raise UraenasError(
                f"epochs = {self.epochs} must be a multiple of cycles = {self.cycles}, so that every cycle ends: "
                f"take {near}, or change cycles"
            )
        if not 0 <= self.exploration <= 1:
            raise UraenasError(f"exploration = {self.exploration} is out of range; it must lie in 0 … 1")
        if not 0 < self.later_peak <= 1:
            raise UraenasError(
                f"later_peak = {self.later_peak} is out of range; it must be more than 0, and at most 1"
            )
        shortest = min(self.first_epochs, self.later_epochs)
        if not 1 <= self.samples_per_cycle <= shortest:
            raise UraenasError(
                f"{self.samples_per_cycle} samples per cycle are out of range; a cycle of {shortest} epochs "
                f"gives 1 … {shortest}: take {self._epochs_for_samples} epochs or more, or change weight_samples or "
                "cycles"
            )

    @property
    def _epochs_for_samples(self) -> int:
        if not self.first:
            return self.cycles * self.samples_per_cycle
        return max(self.first, self.samples_per_cycle) + (self.cycles - 1) * self.samples_per_cycle

    def _check_first(self) -> None:
        if self.cycles < 2:
            raise UraenasError(f"first_cycle = {self.first} needs cycles of 2 or more, not {self.cycles}")
        rest, later = self.epochs - self.first, self.cycles - 1
        if self.first < 0 or rest < later or rest % later:
            raise UraenasError(
                f"after first_cycle = {self.first} of {self.epochs} epochs, {rest} are left, which must be a multiple "
                f"of the {later} other cycles; change epochs, cycles or first_cycle"
            )

    @property
    def first_epochs(self) -> int:
        """Length of the first cycle."""
        return self.first or self.epochs // self.cycles

    @property
    def later_epochs(self) -> int:
        """Length of each of the other cycles."""
        return (self.epochs - self.first) // (self.cycles - 1) if self.first else self.first_epochs

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def number(self, epoch: int) -> int:
        """Which cycle this epoch belongs to."""
        return 0 if epoch < self.first_epochs else 1 + (epoch - self.first_epochs) // self.later_epochs

    def _place(self, epoch: int) -> tuple[int, int]:
        """How many epochs of its cycle lie before this one, and how many the cycle has."""
        if epoch < self.first_epochs:
            return epoch, self.first_epochs
        return (epoch - self.first_epochs) % self.later_epochs, self.later_epochs

    def position(self, step: int) -> float:
        """How far the current cycle has come, in [0, 1)."""
        before, length = self._place(step // self.steps_per_epoch)
        return (before * self.steps_per_epoch + step % self.steps_per_epoch) / (length * self.steps_per_epoch)

    def step_size_at(self, step: int) -> float:
        start = self.step_size * (self.later_peak if self.number(step // self.steps_per_epoch) else 1)
        return self.floor + (start - self.floor) / 2 * (math.cos(math.pi * self.position(step)) + 1)

    def samples_at(self, step: int) -> bool:
        """Whether this step belongs to the sampling stage."""
        return self.position(step) >= self.exploration

    def collects_after(self, epoch: int) -> bool:
        """Whether a weight sample is kept at the end of this epoch: one per epoch in the last epochs of a cycle."""
        before, length = self._place(epoch)
        return before >= length - self.samples_per_cycle
