"""A Dirichlet distribution over the options of each decision, independent across decisions (DrNAS).

θ_d ~ Dirichlet(β_d). A sample of θ mixes the options of the supernet; its argmax for every decision is an architecture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Dirichlet as TorchDirichlet
from torch.distributions import kl_divergence

from uraenas.architectures.distribution import adam, masked, option_mask, require_adam
from uraenas.base import draws
from uraenas.base.errors import require_not_negative, unknown
from uraenas.spaces import Tensors

REGULARISERS = ("l2", "kl", "none")


class _ReparameterisedSample(torch.autograd.Function):
    """θ = g / Σg with g ~ Gamma(β), with the implicit gradient dθ/dβ."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        log_gamma = draws.log_gamma(key, concentration)
        if mask is not None:
            log_gamma = torch.where(mask, log_gamma, -torch.inf)
        mixing = torch.softmax(log_gamma, dim=-1).clamp_min(1e-300)
        ctx.save_for_backward(mixing, concentration.to(mixing.dtype))
        ctx.mask = mask
        return mixing if mask is None else mixing * mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        mixing, concentration = ctx.saved_tensors
        if ctx.mask is not None:  # an option that is not there takes no part
            gradient = gradient * ctx.mask
            concentration = concentration * ctx.mask
        total = concentration.sum(dim=-1, keepdim=True).expand_as(concentration)
        # The function behind torch.distributions.Dirichlet.rsample, which cannot take a keyed draw.
        slope = torch._dirichlet_grad(mixing, concentration, total)
        if ctx.mask is not None:
            slope = torch.where(ctx.mask, slope, 0.0)
        return slope * (gradient - (mixing * gradient).sum(dim=-1, keepdim=True)), None, None


def sample(concentration: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """One θ [D, O] in float64, with gradients to the concentration."""
    return _ReparameterisedSample.apply(concentration.to(torch.float64), key, mask)


def concentration_of(raw: Tensor) -> Tensor:
    """β = elu(raw) + 1: positive, and 1 (uniform on the simplex) where the raw parameter is 0."""
    return F.elu(raw) + 1


def entropy(concentration: Tensor) -> Tensor:
    """Differential entropy of each row; of five options it is largest, −log 24, for the uniform Dirichlet(1)."""
    return _rows(concentration).entropy()


def kl_to_uniform(concentration: Tensor) -> Tensor:
    """KL(Dirichlet(β_d) ‖ Dirichlet(1)) of each row."""
    return kl_divergence(_rows(concentration), _rows(torch.ones_like(concentration)))


def _rows(concentration: Tensor) -> TorchDirichlet:
    return TorchDirichlet(concentration, validate_args=False)  # validation would make the device wait


def _per_decision(function: Any, state: Tensors) -> Tensor:
    """A function of rows, of each decision's own options."""
    concentration = concentration_of(state["raw"])
    if "mask" not in state:
        return function(concentration)
    rows = zip(concentration, state["mask"], strict=True)
    return torch.stack([function(row[present]) for row, present in rows])


@dataclass(frozen=True)
class Dirichlet:
    """A Dirichlet for each decision, learned by Adam on its implicit reparameterised gradient (DrNAS)."""

    step_size: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    regulariser: str = "l2"  # l2: decay of the raw parameter; kl: divergence from Dirichlet(1), summed
    regulariser_weight: float = 1e-3

    loop: ClassVar[str] = "supernet"
    hard: ClassVar[bool] = False
    learned: ClassVar[tuple[str, ...]] = ("raw",)
    kept: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[str] = "concentration"
    bars: ClassVar[str] = (
        "A bar is an option's concentration. A draw takes the option with the largest part of a random mixture: the "
        "larger a bar, the more often, though not in proportion."
    )

    def __post_init__(self) -> None:
        require_adam(self.step_size, self.betas)
        if self.regulariser not in REGULARISERS:
            raise unknown("regulariser", self.regulariser, REGULARISERS)
        require_not_negative("regulariser_weight", self.regulariser_weight)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        """A raw parameter close to 0: almost Dirichlet(1)."""
        shape = (len(options), max(options))
        raw = 1e-3 * draws.normal(draws.at(key, 0), shape[0] * shape[1], torch.float64).view(shape)
        mask = option_mask(options)
        moments = {
            name: torch.zeros(shape, dtype=torch.float64) for name in ("first_moment", "second_moment")
        }
        return {"raw": masked(raw, mask), **moments, **mask}

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        return sample(concentration_of(state["raw"]), key, state.get("mask"))

    def penalty(self, state: Tensors) -> Tensor | None:
        if self.regulariser != "kl":
            return None
        return self.regulariser_weight * _per_decision(kl_to_uniform, state).sum()

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        gradient, raw = gradients["raw"], state["raw"]
        if self.regulariser == "l2":
            gradient = gradient + self.regulariser_weight * raw
        moments = state["first_moment"], state["second_moment"]
        raw, first, second = adam(raw, *moments, gradient, step, self.step_size, self.betas)
        return {**state, "raw": raw, "first_moment": first, "second_moment": second}

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        """θ ~ Dirichlet(β/T): the same expected mixing; below 1 draws lie closer to it, above 1 farther from it."""
        return sample(concentration_of(state["raw"]) / temperature, key, state.get("mask"))

    def mode(self, state: Tensors) -> Tensor:
        """The argmax of the expected mixing."""
        return self.shares(state).argmax(dim=-1)

    def favour(self, state: Tensors) -> Tensor:
        return masked(concentration_of(state["raw"]), state)

    def spread(self, state: Tensors) -> Tensor | None:
        return None

    def shares(self, state: Tensors) -> Tensor:
        concentration = self.favour(state)
        return concentration / concentration.sum(dim=-1, keepdim=True)

    def facts(self, state: Tensors) -> dict[str, Any]:
        return {
            "entropy": float(_per_decision(entropy, state).sum()),
            "kl_to_uniform": float(_per_decision(kl_to_uniform, state).sum()),
        }
