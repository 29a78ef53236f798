"""BaLeNAS: Gaussian logits, learned by natural-gradient variational inference (Vadam).

    α = μ + ε/√(N s + λ),   θ_d = softmax(α_d),   g = ∇L(α)
    m ← β₁ m + (1 − β₁)(g + λ μ/N),   s ← β₂ s + (1 − β₂) g²,   μ ← μ − lr · m̂/(√ŝ + λ/N)

That is Adam on a perturbed mean; N images and the prior N(0, 1/λ) on each logit set how far it is perturbed. A draw is
the argmax of a draw of α. The authors published no code; this is the update that their paper names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from uraenas.architectures import gaussian
from uraenas.architectures.distribution import entropy_of, masked, option_mask, require_adam
from uraenas.base import draws
from uraenas.base.errors import require_not_negative, require_positive, require_range
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Balenas:
    """Gaussian logits, learned by a natural gradient: Adam with perturbed parameters (BaLeNAS)."""

    step_size: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    images: int = 25_000  # N: the more, the narrower the Gaussians become
    precision: float = 25.0  # λ, of the prior on each logit; λ/N is the decay of the means
    first_precision: float = 25.0  # of the Gaussians at the start; λ or more
    noise: float = 1.0  # a factor of the perturbation while learning; 0: Adam with ε = λ/N

    loop: ClassVar[str] = "supernet"
    hard: ClassVar[bool] = False
    learned: ClassVar[tuple[str, ...]] = ("mean",)
    kept: ClassVar[tuple[str, ...]] = ("square",)
    numbers: ClassVar[str] = "mean logit"
    bars: ClassVar[str] = (
        "A bar is the mean of an option's logit, which is normal. A draw draws all logits and takes the option of the "
        "largest, so an option of a small bar and a wide deviation may be drawn most often."
    )

    def __post_init__(self) -> None:
        require_adam(self.step_size, self.betas)
        require_range("images", self.images, 1, 10**12)
        require_positive("precision", self.precision)
        require_range("first_precision", self.first_precision, self.precision, 1e12)
        require_not_negative("noise", self.noise)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        shape, mask = (len(options), max(options)), option_mask(options)
        mean = 1e-3 * draws.normal(draws.at(key, 0), shape[0] * shape[1], torch.float64).view(shape)
        square = torch.full(shape, (self.first_precision - self.precision) / self.images, dtype=torch.float64)
        moment = torch.zeros(shape, dtype=torch.float64)
        return {"mean": masked(mean, mask), "moment": moment, "square": square, **mask}

    def _deviation(self, state: Tensors) -> Tensor:
        """1/√(N s + λ)."""
        return torch.rsqrt(self.images * state["square"] + self.precision)

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        deviation = self.noise * self._deviation(state)
        return torch.softmax(gaussian.drawn(state["mean"], deviation, state, key), dim=-1)

    def penalty(self, state: Tensors) -> Tensor | None:
        return None  # the prior is in the update

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        mean, gradient, decay = state["mean"], gradients["mean"], self.precision / self.images
        moment = state["moment"].lerp(gradient + decay * mean, 1 - self.betas[0])
        square = state["square"].lerp(gradient**2, 1 - self.betas[1])
        count = (step + 1).to(torch.float64)
        direction = moment / (1 - self.betas[0] ** count)
        scale = torch.sqrt(square / (1 - self.betas[1] ** count)) + decay
        moved = mean - self.step_size * direction / scale
        return {**state, "mean": moved, "moment": moment, "square": square}

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return gaussian.drawn(state["mean"], self._deviation(state), state, key, temperature)

    def mode(self, state: Tensors) -> Tensor:
        """The argmax of the means."""
        return masked(state["mean"], state, -torch.inf).argmax(dim=-1)

    def favour(self, state: Tensors) -> Tensor:
        return masked(state["mean"], state)

    def spread(self, state: Tensors) -> Tensor | None:
        return masked(self._deviation(state), state)

    def shares(self, state: Tensors) -> Tensor:
        """How likely each option is to be drawn."""
        return gaussian.largest(state["mean"], self._deviation(state), state)

    def facts(self, state: Tensors) -> dict[str, Any]:
        deviation = self._deviation(state)
        present = deviation[state["mask"]] if "mask" in state else deviation
        return {"entropy": float(entropy_of(self.shares(state)).sum()), "deviation": float(present.mean())}
