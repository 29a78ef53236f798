"""Stochastic gradient descent with Nesterov momentum, for point estimates.

v ← μ v + ∇,     w ← w − α (∇ + μ v)
"""

from torch import Tensor


def update(
    weights: Tensor, velocity: Tensor, gradient: Tensor, step_size: float | Tensor, momentum: float
) -> tuple[Tensor, Tensor]:
    """The next weights and velocity."""
    velocity = momentum * velocity + gradient
    return weights - step_size * (gradient + momentum * velocity), velocity


def prior_decay(deviation: float, images: int) -> float:
    """The weight decay on the mean loss that a prior N(0, deviation²) on every weight amounts to."""
    return 1 / (images * deviation**2)
