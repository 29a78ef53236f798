"""Independent Gaussians, of which the largest of each row is taken: what BaLeNAS and BayesNAS have in common."""

import torch
from torch import Tensor

from uraenas.architectures.distribution import masked
from uraenas.base import draws
from uraenas.spaces import Tensors

_REACH, _NODES = 8.0, 801  # standard deviations to either side, and how many points in between


def largest(mean: Tensor, deviation: Tensor, state: Tensors) -> Tensor:
    """P(option o is the largest of its row) [D, O], by quadrature:

    ∫ φ(z) Π_{j ≠ o} Φ((μ_o + σ_o z − μ_j)/σ_j) dz.
    """
    z = torch.linspace(-_REACH, _REACH, _NODES, dtype=torch.float64)
    here = mean[..., None] + deviation[..., None] * z  # [D, O, Z]
    standard = (here[:, :, None] - mean[:, None, :, None]) / deviation[:, None, :, None]  # [D, O, other, Z]
    below = torch.special.log_ndtr(standard)
    if "mask" in state:
        below = torch.where(state["mask"][:, None, :, None], below, 0.0)
    own = torch.eye(mean.shape[1], dtype=torch.bool)[None, :, :, None]
    log_density = torch.where(own, 0.0, below).sum(dim=2) - z**2 / 2
    shares = masked(torch.exp(log_density).sum(dim=-1), state)
    return shares / shares.sum(dim=-1, keepdim=True)


def drawn(mean: Tensor, deviation: Tensor, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
    """μ + √T σ ε [D, O]."""
    noise = draws.normal(key, mean.numel(), torch.float64).view(mean.shape)
    return masked(mean + temperature**0.5 * deviation * noise, state, -torch.inf)
