"""BayesNAS: a switch for every option, with relevance determination and a Laplace approximation.

    θ_do = w_do ≥ 0, no simplex;   w_do ~ N(0, γ_do);   C = 1/(1/γ + N h),   γ ← (1 − r) γ + r (w² + C)

w is learned by Adam on the loss and −log N(w; 0, γ)/N. h is the diagonal of the Hessian of the loss, for which the mean
of squared gradients stands, and N(w, C) the Laplace approximation. An option that does not help has w → 0, and then
γ → 0, which holds it there.

The authors penalise Σ ω|w| and set γ = |w|/ω with ω² = 1/γ − C/γ². Where that rests, γ = w² + C and the pull on w is
w/γ: so does this, and it needs no γ = |w|/ω where ω = 0. They sum over the cells, which here share their
switches, gate the operations of an edge by a switch of its own, compute the Hessian layer by layer, and draw nothing:
operations of large γ are assembled by hand. Here the option of the largest switch is taken, and a draw takes that of
switches drawn from N(w, C). `none` has a switch that no image can see: it keeps its prior, N(0, γ).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from uraenas.architectures import gaussian
from uraenas.architectures.distribution import adam, entropy_of, masked, option_mask, require_adam
from uraenas.base import draws
from uraenas.base.errors import require_positive, require_range
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class BayesNas:
    """A switch for every option, each with a prior of its own width (BayesNAS)."""

    step_size: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    images: int = 25_000  # N: the more, the less the prior counts, and the narrower the Laplace approximation
    batch: int = (
        64  # images of a step: the square of their mean gradient is so many times less than the Hessian
    )
    variance: float = 1.0  # γ of every switch at the start
    rate: float = 0.01  # r: how much of its way γ goes in a step

    loop: ClassVar[str] = "supernet"
    hard: ClassVar[bool] = False
    learned: ClassVar[tuple[str, ...]] = ("switch",)
    kept: ClassVar[tuple[str, ...]] = ("relevance", "variance")
    numbers: ClassVar[str] = "switch"

    def __post_init__(self) -> None:
        require_adam(self.step_size, self.betas)
        require_range("images", self.images, 1, 10**12)
        require_range("batch", self.batch, 1, 10**9)
        require_positive("variance", self.variance)
        require_range("rate", self.rate, 0, 1)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        """Switches close to 1/O: about as much of every option as others mix at the start."""
        shape, mask = (len(options), max(options)), option_mask(options)
        noise = draws.normal(draws.at(key, 0), shape[0] * shape[1], torch.float64).view(shape)
        switch = 1 / torch.tensor(options, dtype=torch.float64)[:, None] + 1e-3 * noise
        prior = torch.full(shape, self.variance, dtype=torch.float64)
        moments = {
            name: torch.zeros(shape, dtype=torch.float64) for name in ("first_moment", "second_moment")
        }
        learned = {"switch": masked(switch, mask), "relevance": prior, "variance": prior.clone()}
        return {**learned, **moments, "curvature": torch.zeros(shape, dtype=torch.float64), **mask}

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        return masked(state["switch"], state)

    def penalty(self, state: Tensors) -> Tensor | None:
        """−log N(w; 0, γ)/N, up to a constant."""
        return masked(state["switch"] ** 2 / (2 * self.images * state["relevance"]), state).sum()

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        switch, gradient, prior = state["switch"], gradients["switch"], state["relevance"]
        moments = state["first_moment"], state["second_moment"]
        moved, first, second = adam(switch, *moments, gradient, step, self.step_size, self.betas)
        moved = moved.clamp_min(0)  # a convolution can turn the sign itself
        loss_slope = gradient - switch / (self.images * prior)  # without the prior's part
        curvature = state["curvature"].lerp(loss_slope**2, 1 - self.betas[1])
        hessian = self.batch * curvature / (1 - self.betas[1] ** (step + 1).to(torch.float64))
        variance = 1 / (1 / prior + self.images * hessian)
        relevance = masked(prior.lerp(moved**2 + variance, self.rate), state, self.variance)
        return {
            **state,
            "switch": moved,
            "relevance": relevance,
            "variance": variance,
            "first_moment": first,
            "second_moment": second,
            "curvature": curvature,
        }

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return gaussian.drawn(state["switch"], state["variance"].sqrt(), state, key, temperature)

    def mode(self, state: Tensors) -> Tensor:
        """The options of the largest switches."""
        return masked(state["switch"], state, -torch.inf).argmax(dim=-1)

    def favour(self, state: Tensors) -> Tensor:
        return masked(state["switch"], state)

    def spread(self, state: Tensors) -> Tensor | None:
        return masked(state["variance"].sqrt(), state)

    def shares(self, state: Tensors) -> Tensor:
        """How likely each option is to be drawn."""
        return gaussian.largest(state["switch"], state["variance"].sqrt(), state)

    def facts(self, state: Tensors) -> dict[str, Any]:
        mask = state.get("mask", torch.ones_like(state["switch"], dtype=torch.bool))
        off = (state["switch"] == 0) & mask
        return {"entropy": float(entropy_of(self.shares(state)).sum()), "switched_off": int(off.sum())}
