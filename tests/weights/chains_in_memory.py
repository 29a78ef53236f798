"""Chains of any kind of weights on a loss that is a formula, moved as the training loop moves them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.learning.pace import Pace
from uraenas.weights import Cycle, Step, WeightMethod

DOUBLE = torch.float64
Gradient = Callable[[Tensor], Tensor]  # of the mean loss and the prior


@dataclass(frozen=True)
class Formula:
    """A loss to descend on or to sample from, and how many images its noise is for."""

    gradient: Gradient
    images: int = 1
    key: int = 11  # of the noise
    noisy: bool = True


def beginning(method: WeightMethod, start: Tensor) -> dict[str, Tensor]:
    return {"weights": start, **{name: torch.zeros_like(start) for name in method.state}}


def moved(
    method: WeightMethod, cycle: Cycle, state: dict[str, Tensor], formula: Formula, steps: Sequence[int]
) -> Iterator[dict[str, Tensor]]:
    """The state after each of these steps of a chain."""
    weights = state["weights"]
    pace = Pace(method, cycle, formula.images, weights.device, weights.dtype)
    for number in steps:
        deviation, noise = pace.deviation_at(number), None
        if formula.noisy and deviation > 0:
            drawn = draws.normal(draws.at(formula.key, number), weights.numel(), weights.dtype)
            noise = deviation * drawn.view_as(weights)
        place = torch.tensor(number)
        step = Step(place, pace.step_size(place), not cycle.samples_at(number), noise)
        state = method.update(state, formula.gradient(state["weights"]), step)
        yield state


def last(states: Iterator[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The last of them, without keeping the others."""
    return deque(states, maxlen=1).pop()


def quadratic(seed: int, size: int = 200) -> tuple[Tensor, Tensor, Tensor]:
    """Start, centre and curvature of a quadratic loss."""
    key = draws.key(seed, "quadratic")
    start, centre, curvature = (draws.normal(draws.at(key, n), size, DOUBLE) for n in range(3))
    return start, centre, curvature.abs() + 0.1
