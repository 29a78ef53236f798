"""A categorical distribution for each decision: what DARTS, SNAS, GDAS and REINFORCE have in common.

P(option o at decision d) = softmax(logits_d)_o. The largest of logits + Gumbel noise is an exact draw.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from uraenas.architectures.distribution import adam, entropy_of, masked, option_mask
from uraenas.base import draws
from uraenas.spaces import Tensors

LEARNED = ("logits",)


def initial_logits(options: Sequence[int], key: int) -> Tensors:
    """Logits close to 0, and Adam's moments."""
    shape, mask = (len(options), max(options)), option_mask(options)
    logits = 1e-3 * draws.normal(draws.at(key, 0), shape[0] * shape[1], torch.float64).view(shape)
    moments = {name: torch.zeros(shape, dtype=torch.float64) for name in ("first_moment", "second_moment")}
    return {"logits": masked(logits, mask), **moments, **mask}


def probabilities(state: Tensors) -> Tensor:
    """softmax(logits) [D, O]; 0 where there is no option."""
    return torch.softmax(masked(state["logits"], state, -torch.inf), dim=-1)


def perturbed(state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
    """logits/T + Gumbel noise [D, O]: the argmax is a draw from softmax(logits/T)."""
    logits = state["logits"]
    noise = -torch.log(-torch.log(draws.uniform(key, logits.numel(), torch.float64)))
    return masked(logits / temperature + noise.view(logits.shape), state, -torch.inf)


def stepped(
    state: Tensors,
    gradient: Tensor,
    step: Tensor,
    step_size: float,
    betas: tuple[float, float],
    decay: float = 0.0,
) -> Tensors:
    """The state after a step of Adam on the logits, which decay towards 0: towards the uniform distribution."""
    logits = state["logits"]
    moments = state["first_moment"], state["second_moment"]
    moved = adam(logits, *moments, gradient + decay * logits, step, step_size, betas)
    return {**state, **dict(zip(("logits", "first_moment", "second_moment"), moved, strict=True))}


def facts(state: Tensors) -> dict[str, Any]:
    return {"entropy": float(entropy_of(probabilities(state)).sum())}
