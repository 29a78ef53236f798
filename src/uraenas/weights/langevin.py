"""Stochastic gradient Langevin dynamics, with and without momentum, on the *mean* loss.

Training minimises U(w)/N, U the negative log posterior of N images, with step size α. That is a Langevin step of size
α/N on U, so at temperature T

    v ← μ v − α ∇(U/N) + √(2 (1 − μ) α T / N) ε,     w ← w + v,     ε ~ N(0, I).

μ = 0 is SGLD, μ > 0 is SGHMC. T = 1 aims at the posterior itself; T = 0 is plain gradient descent with momentum.

A step that explores has no noise: it is optimisation, and may look ahead as Nesterov's does (`descent.py`).
"""

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, require_not_negative, require_positive, require_range
from uraenas.base.parts import given
from uraenas.spaces import Tensors
from uraenas.weights.cycle import Cycle
from uraenas.weights.descent import Descent, move, require_momentum
from uraenas.weights.method import UNCHANGED, Candidate, Step, as_they_are


@dataclass(frozen=True)
class Langevin:
    """Cyclical Langevin dynamics: a chain explores without noise, then samples with it."""

    step_size: float = 0.1
    momentum: float = 0.9
    floor: float = 0.0  # the step size at the end of a cycle
    cycles: int = 4
    samples: int = 3  # of each cycle, at the end of as many epochs
    exploration: float = 0.8  # the part of a cycle without noise
    peak: float = 0.0  # above 0: one short cosine per sample, from this part of the step size
    temperature: float = 1e-4
    mean_of: int = 0  # how many of a cycle's newest samples a mean is of; 0: all
    means: bool = given(default=False)  # a cycle gives one member, the mean of its samples, instead of each
    nesterov: bool = given(default=True)  # while exploring: with noise it would not be a Langevin step

    section: ClassVar[str] = "sampling"
    state: ClassVar[tuple[str, ...]] = ("velocity",)
    of_members: ClassVar[tuple[str, ...]] = ("mean_of",)
    objective = None
    forward = None
    changes = UNCHANGED

    def __post_init__(self) -> None:
        require_positive("step_size", self.step_size)
        require_momentum(self.momentum)
        require_not_negative("floor", self.floor)
        require_not_negative("temperature", self.temperature)
        for name in ("cycles", "samples"):
            require_range(name, getattr(self, name), 1, 100_000)
        require_range("mean_of", self.mean_of, 0, self.samples)

    def cycle(self, epochs: int, steps_per_epoch: int) -> Cycle:
        return Cycle(
            epochs,
            steps_per_epoch,
            self.step_size,
            self.cycles,
            self.exploration,
            self.samples,
            self.floor,
            self.peak,
        )

    def check(self, epochs: int) -> None:
        self.cycle(epochs, 1).require_sampling_stage()

    def noise_deviation(self, step_size: float, images: int) -> float:
        """√(2 (1 − μ) α T / N)."""
        return math.sqrt(2 * (1 - self.momentum) * step_size * self.temperature / images)

    def update(self, state: Tensors, gradient: Tensor, step: Step) -> Tensors:
        look_ahead = self.nesterov and step.exploring
        if look_ahead and step.noise is not None:
            raise UraenasError("noise was given to a step that explores with Nesterov momentum")
        return move(state, gradient, step.size, self.momentum, step.noise, look_ahead)

    def moves(self, cycle: Cycle, epoch: int) -> Hashable:
        """Descent until the first sample."""
        if epoch < min(cycle.explored, cycle.length - cycle.samples_per_cycle):
            return Descent(self.step_size, cycle.length, self.floor, self.momentum, self.nesterov)
        return self, epoch

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        if not self.means:
            return as_they_are(samples)
        found = []
        for _, of_cycle in itertools.groupby(range(len(samples)), key=cycles.__getitem__):
            positions = tuple(of_cycle)[: self.mean_of or None]
            if len(positions) == 1:
                found.append(Candidate(positions))
            else:
                mean = torch.stack([samples[position] for position in positions]).mean(dim=0)
                found.append(Candidate(positions, mean))
        return found

    @property
    def members_per_chain(self) -> int:
        return self.cycles * (1 if self.means else self.samples)

    @property
    def trajectory(self) -> str:
        """Means are made of samples: of SGHMC, or without momentum of SGLD; without noise of snapshots.

        What has neither is an SGHMC without them: no other chains of a run have this name then.
        """
        if bool(self.momentum) == bool(self.temperature):
            return "sghmc"
        return "snapshot" if self.momentum else "sgld"
