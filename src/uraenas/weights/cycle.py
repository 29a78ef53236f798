"""The cosine cycle: large steps explore, small noisy steps sample, then it starts anew."""

import math
from dataclasses import dataclass

from uraenas.base.errors import UraenasError


@dataclass(frozen=True)
class Cycle:
    """Step size and stage of every step of a chain: `cycles` cosines over `epochs`, all of equal length.

        α_k = floor + (α_0 − floor)/2 · [cos(π · mod(k, L)/L) + 1],   L = steps in a cycle, k = 0, 1, …

    Step k explores while mod(k, L)/L < exploration, and samples (noise is added) after that; weights are kept after the
    last epochs. With a `peak` the sampling stage is divided into short cosines instead, as many as there are
    samples per cycle: each begins with that fraction of α_0 and ends in a sample, so that samples lie farther apart.
    With a `level` it keeps that fraction of α_0 instead, and the cosine before it ends there. Either way the stage then
    begins at a whole epoch.
    """

    epochs: int
    steps_per_epoch: int
    step_size: float
    cycles: int = 1
    exploration: float = 1.0
    samples_per_cycle: int = 1
    floor: float = 0.0
    peak: float = 0.0  # 0: the sampling stage is the end of the one cosine
    level: float = 0.0  # likewise

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
        if not 0 <= self.peak <= 1:
            raise UraenasError(f"peak = {self.peak} is out of range; it must lie in 0 … 1")
        if not 0 <= self.level <= 1:
            raise UraenasError(f"level = {self.level} is out of range; it must lie in 0 … 1")
        if not 1 <= self.samples_per_cycle <= self.length:
            raise UraenasError(
                f"samples = {self.samples_per_cycle} is out of range; a cycle of {self.length} epochs gives "
                f"1 … {self.length}: take {self.cycles * self.samples_per_cycle} epochs or more, or change "
                "samples or cycles"
            )
        if (self.peak or self.level) and self.exploration > 0 and self.explored == 0:
            which = "peak" if self.peak else "level"
            raise UraenasError(
                f"with a {which}, exploration = {self.exploration} of a cycle of {self.length} epochs is less "
                "than one epoch; take more epochs, or exploration = 0"
            )
        if self.peak:
            self.require_sampling_stage()

    def require_sampling_stage(self) -> None:
        """Refuse to keep weights as samples that are still exploring."""
        if self._sampling >= self.samples_per_cycle:
            return
        advice = "change exploration or samples"
        if self.exploration < 1:
            enough = self.length
            while enough - _whole(self.exploration * enough) < self.samples_per_cycle:
                enough += 1
            advice = f"take {self.cycles * enough} epochs or more, or {advice}"
        raise UraenasError(
            f"exploration = {self.exploration} of a cycle of {self.length} epochs leaves {self._sampling} for its "
            f"{self.samples_per_cycle} samples, of which each needs one; {advice}"
        )

    @property
    def length(self) -> int:
        """Epochs of one cycle."""
        return self.epochs // self.cycles

    @property
    def explored(self) -> int:
        """Whole epochs at the beginning of a cycle that explore."""
        return _whole(self.exploration * self.length)

    @property
    def _sampling(self) -> int:
        """Whole epochs at the end of a cycle that sample."""
        return self.length - self.explored

    def _short(self, epoch: int) -> tuple[int, int]:
        """First epoch and end of the short cosine that this epoch of the sampling stage belongs to.

        All count from the stage's beginning. Cosine k ends before epoch ⌊(k + 1) · sampling / samples⌋, so they are of
        equal length where that is possible.
        """
        number = ((epoch + 1) * self.samples_per_cycle - 1) // self._sampling
        start, end = ((number + k) * self._sampling // self.samples_per_cycle for k in (0, 1))
        return start, end

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def number(self, epoch: int) -> int:
        """Which cycle this epoch belongs to."""
        return epoch // self.length

    def position(self, step: int) -> float:
        """How far the current cycle has come, in [0, 1)."""
        length = self.length * self.steps_per_epoch
        return step % length / length

    def step_size_at(self, step: int) -> float:
        start, position = self.step_size, self.position(step)
        if self.level:
            low, before = self.level * start, self.length / max(1, self.explored)
            if self.samples_at(step):
                return low
            return low + (start - low) / 2 * (math.cos(math.pi * position * before) + 1)
        if self.peak and self.samples_at(step):
            epoch, inside = divmod(step, self.steps_per_epoch)
            first, end = self._short(epoch % self.length - self.explored)
            into = (epoch % self.length - self.explored - first) * self.steps_per_epoch + inside
            start, position = self.peak * start, into / ((end - first) * self.steps_per_epoch)
        return self.floor + (start - self.floor) / 2 * (math.cos(math.pi * position) + 1)

    def samples_at(self, step: int) -> bool:
        """Whether this step belongs to the sampling stage."""
        if self.peak or self.level:
            return step // self.steps_per_epoch % self.length >= self.explored
        return self.position(step) >= self.exploration

    def renews_at(self, epoch: int) -> bool:
        """Whether a short cosine begins with this epoch, or, where there are none, a cycle after the first."""
        into = epoch % self.length
        if self.peak:
            return into >= self.explored and self._short(into - self.explored)[0] == into - self.explored
        return epoch > 0 and into == 0

    def collects_after(self, epoch: int) -> bool:
        """Whether a weight sample is kept at the end of this epoch."""
        before = epoch % self.length
        if self.peak:
            stage = before - self.explored
            return stage >= 0 and self._short(stage)[1] == stage + 1
        return before >= self.length - self.samples_per_cycle


def _whole(epochs: float) -> int:
    """Whole epochs, where a product that should be a whole number may lie a little below it."""
    return int(epochs + 1e-9)
