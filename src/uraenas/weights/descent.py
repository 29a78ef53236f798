"""Gradient descent with momentum: how point estimates move, and Langevin chains too, between their noise.

    v ← μ v − α ∇(U/N) [+ noise],     w ← w + v

or, looking ahead as Nesterov's does, w ← w + μ v − α ∇(U/N). That is Keras's form; PyTorch's has the newest α before
the whole velocity, which is the same while α does not change.
"""

from dataclasses import dataclass

from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Descent:
    """All that an epoch of descent depends on, in the first cycle of a chain."""

    step_size: float
    length: int  # of the cycle, in epochs
    floor: float
    momentum: float
    nesterov: bool


def move(
    state: Tensors,
    gradient: Tensor,
    step_size: float | Tensor,
    momentum: float,
    noise: Tensor | None = None,
    look_ahead: bool = False,
) -> Tensors:
    """The next weights and velocity. `noise` is already scaled; there is none in a step that looks ahead."""
    descent = step_size * gradient
    velocity = momentum * state["velocity"] - descent
    if look_ahead:
        return {**state, "weights": state["weights"] + momentum * velocity - descent, "velocity": velocity}
    if noise is not None:
        velocity = velocity + noise
    return {**state, "weights": state["weights"] + velocity, "velocity": velocity}


def require_momentum(momentum: float) -> None:
    if not 0 <= momentum < 1:
        raise UraenasError(f"momentum = {momentum} is out of range; it must lie in 0 … 1, 1 excluded")
