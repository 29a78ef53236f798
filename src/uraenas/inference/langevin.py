"""Gradient descent and stochastic gradient Langevin dynamics, with and without momentum, on the *mean* loss.

Training minimises U(w)/N, U the negative log posterior of N images, with step size α. That is a Langevin step of size
α/N on U, so at temperature T

    v ← μ v − α ∇(U/N) + √(2 (1 − μ) α T / N) ε,     w ← w + v,     ε ~ N(0, I).

μ = 0 is SGLD, μ > 0 is SGHMC. T = 1 aims at the posterior itself; T = 0 is plain gradient descent with momentum.

A step that explores has no noise: it is optimisation, and may look ahead as Nesterov's does, w ← w + μ v − α ∇(U/N).
That is Keras's form; PyTorch's has the newest α before the whole velocity, which is the same while α does not change.
"""

import math

from torch import Tensor


def noise_deviation(step_size: float, temperature: float, images: int, momentum: float) -> float:
    """Standard deviation of the noise that one step injects into each weight."""
    return math.sqrt(2 * (1 - momentum) * step_size * temperature / images)


def prior_decay(deviation: float, images: int) -> float:
    """The weight decay on the mean loss that a prior N(0, deviation²) on every weight amounts to."""
    return 1 / (images * deviation**2)


def update(
    weights: Tensor,
    velocity: Tensor,
    gradient: Tensor,
    step_size: float | Tensor,
    momentum: float,
    noise: Tensor | None = None,
    look_ahead: bool = False,
) -> tuple[Tensor, Tensor]:
    """The next weights and velocity. `noise` is already scaled; there is none in a step that looks ahead."""
    descent = step_size * gradient
    velocity = momentum * velocity - descent
    if look_ahead:
        return weights + momentum * velocity - descent, velocity
    if noise is not None:
        velocity = velocity + noise
    return weights + velocity, velocity
