"""BayesNAS: switches of options and gates of decisions, with relevance determination and a Laplace approximation.

    θ_do = u_d w_do, both ≥ 0, no simplex;   w_do ~ N(0, γ_do),   u_d ~ N(0, γ_d);   C = 1/(1/γ + N h)
    γ_d ← (1 − r) γ_d + r (u² + C_d),   γ_do ← (1 − r) γ_do + r min(w² (1 − γ_do/γ_d)² + C_do, γ_d)

u and w are learned by Adam on the loss and −log N(·; 0, γ)/N. h is the diagonal of the Hessian of the loss, for which
the mean of squared gradients stands, and N(w, C) the Laplace approximation. An option that does not help has w → 0, and
then γ → 0, which holds it there. A decision that does not matter has u → 0 and γ_d → 0, and so have all its options.

The authors penalise Σ ω|w| with ω² = 1/γ − C/γ², set |w|/ω for γ, and 1/(ω/|w| + 1/γ_d) for an option's: it is relevant
no more than its edge. Where that rests, γ_d = u² + C_d, γ_do = w² (1 − γ_do/γ_d)² + C_do and the pull on a switch is
w/γ: so does this, and it needs no |w|/ω where ω = 0. They sum over the cells, which here share their
switches, gate the input of an edge rather than its output, which norms would undo here, compute the Hessian layer by
layer, and draw nothing: operations of large γ are assembled by hand. Here the option of the largest switch is taken,
and a draw takes that of switches drawn from N(w, C). `none` has a switch that no image can see: it keeps its prior.
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
    """A switch for every option, and for every decision, each with a prior of its own width (BayesNAS)."""

    step_size: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    images: int = 25_000  # N: the more, the less the prior counts, and the narrower the Laplace approximation
    # images of a step: the square of their mean gradient is so many times less than the Hessian
    batch: int = 64
    variance: float = 1.0  # γ of every switch at the start
    rate: float = 0.01  # r: how much of its way γ goes in a step

    loop: ClassVar[str] = "supernet"
    hard: ClassVar[bool] = False
    learned: ClassVar[tuple[str, ...]] = ("switch", "gate")
    kept: ClassVar[tuple[str, ...]] = ("relevance", "variance")
    numbers: ClassVar[str] = "switch"
    bars: ClassVar[str] = (
        "A bar is an option's switch. A draw draws all switches from their Laplace approximation and takes the option "
        "of the largest, so an option of a small bar and a wide deviation may be drawn most often. That of none in a "
        "cell is wide: no image tells anything of its switch."
    )

    def __post_init__(self) -> None:
        require_adam(self.step_size, self.betas)
        require_range("images", self.images, 1, 10**12)
        require_range("batch", self.batch, 1, 10**9)
        require_positive("variance", self.variance)
        require_range("rate", self.rate, 0, 1)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        """Switches close to 1/O: about as much of every option as others mix at the start. Gates are open."""
        shape, mask = (len(options), max(options)), option_mask(options)
        noise = draws.normal(draws.at(key, 0), shape[0] * shape[1], torch.float64).view(shape)
        switch = 1 / torch.tensor(options, dtype=torch.float64)[:, None] + 1e-3 * noise
        gate = torch.ones(len(options), 1, dtype=torch.float64)
        return {
            **self._begun("switch", "", masked(switch, mask)),
            **self._begun("gate", "gate_", gate),
            **mask,
        }

    def _begun(self, name: str, prefix: str, value: Tensor) -> Tensors:
        prior, zeros = torch.full_like(value, self.variance), torch.zeros_like(value)
        kept = {"relevance": prior, "variance": prior.clone()}
        kept |= {key: zeros.clone() for key in ("first_moment", "second_moment", "curvature")}
        return {name: value, **{f"{prefix}{key}": tensor for key, tensor in kept.items()}}

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        return masked(state["gate"] * state["switch"], state)

    def penalty(self, state: Tensors) -> Tensor | None:
        """−log N(·; 0, γ)/N of switches and gates, up to a constant."""
        of_options = masked(state["switch"] ** 2 / state["relevance"], state).sum()
        return (of_options + (state["gate"] ** 2 / state["gate_relevance"]).sum()) / (2 * self.images)

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        gates = self._moved("gate", "gate_", state, gradients, step)
        options = self._moved("switch", "", state, gradients, step)
        of_gate = state["gate_relevance"].lerp(gates["gate"] ** 2 + gates["gate_variance"], self.rate)
        prior = state["relevance"]
        left = 1 - (prior / of_gate).clamp_max(1)
        rest = torch.minimum((options["switch"] * left) ** 2 + options["variance"], of_gate)
        relevance = masked(prior.lerp(rest, self.rate), state, self.variance)
        return {**state, **gates, **options, "relevance": relevance, "gate_relevance": of_gate}

    def _moved(self, name: str, prefix: str, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        """Switches or gates after a step of Adam, and their variance in the Laplace approximation."""
        value, gradient, prior = state[name], gradients[name], state[f"{prefix}relevance"]
        moments = state[f"{prefix}first_moment"], state[f"{prefix}second_moment"]
        moved, first, second = adam(value, *moments, gradient, step, self.step_size, self.betas)
        loss_slope = gradient - value / (self.images * prior)  # without the prior's part
        curvature = state[f"{prefix}curvature"].lerp(loss_slope**2, 1 - self.betas[1])
        hessian = self.batch * curvature / (1 - self.betas[1] ** (step + 1).to(torch.float64))
        return {
            name: moved.clamp_min(0),  # a convolution can turn the sign itself
            f"{prefix}variance": 1 / (1 / prior + self.images * hessian),
            f"{prefix}first_moment": first,
            f"{prefix}second_moment": second,
            f"{prefix}curvature": curvature,
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
        counts = {"switched_off": int(off.sum()), "gates_shut": int((state["gate"] == 0).sum())}
        return {"entropy": float(entropy_of(self.shares(state)).sum()), **counts}
