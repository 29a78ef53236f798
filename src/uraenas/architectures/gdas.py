"""GDAS: one option of each decision is drawn and runs alone; the gradient is that of a Concrete sample.

    p_d = softmax((α_d + g)/τ),   θ_d = onehot(argmax p_d) + p_d − [p_d],   g ~ Gumbel(0, 1)

[·] has no gradient, so forward θ is one-hot, exactly, and backward it is p: the straight-through estimate. The
supernet's weights are thus trained as those of single networks: only chosen operations have a gradient.

The estimate in full needs ∂L/∂θ_o of every option o, hence every output. As the authors have it, only the chosen
option c runs, and ∂L/∂θ_o = 0 for all others:

    ∂L/∂α_j = ∂L/∂θ_c · p_c (1{j = c} − p_j)/τ

so c is favoured more if its output lowers the loss, and all others less. (Their code for NAS-Bench-201 adds θ_o itself
for an option that does not run, whose slope is then that of a constant; that for the DARTS space adds nothing.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from uraenas.architectures import categorical
from uraenas.architectures.distribution import require_adam_with_decay
from uraenas.base.errors import require_positive
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Gdas:
    """One drawn option at a time, with the gradient of a Concrete sample (GDAS)."""

    step_size: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    decay: float = 1e-3  # of the logits
    first: float = 10.0  # temperature at the start of the search; it falls linearly
    last: float = 0.1  # and at its end

    loop: ClassVar[str] = "supernet"
    hard: ClassVar[bool] = True
    learned: ClassVar[tuple[str, ...]] = categorical.LEARNED
    kept: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[str] = "probability"

    def __post_init__(self) -> None:
        require_adam_with_decay(self.step_size, self.betas, self.decay)
        require_positive("first", self.first)
        require_positive("last", self.last)

    def initial(self, options: Sequence[int], key: int) -> Tensors:
        return categorical.initial_logits(options, key)

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        temperature = self.first + (self.last - self.first) * progress
        soft = torch.softmax(categorical.perturbed(state, key) / temperature, dim=-1)
        places = torch.arange(soft.shape[-1], device=soft.device)
        hard = (places == soft.argmax(dim=-1, keepdim=True)).to(soft.dtype)
        return hard + (soft - soft.detach())  # the bracket is exactly 0: others than the chosen have weight 0

    def penalty(self, state: Tensors) -> Tensor | None:
        return None  # the decay of the logits is all

    def update(self, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        gradient = gradients["logits"]
        return categorical.stepped(state, gradient, step, self.step_size, self.betas, self.decay)

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return categorical.perturbed(state, key, temperature)

    def mode(self, state: Tensors) -> Tensor:
        return self.favour(state).argmax(dim=-1)

    def favour(self, state: Tensors) -> Tensor:
        return categorical.probabilities(state)

    def spread(self, state: Tensors) -> Tensor | None:
        return None

    def shares(self, state: Tensors) -> Tensor:
        return self.favour(state)

    def facts(self, state: Tensors) -> dict[str, Any]:
        return categorical.facts(state)
