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

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from uraenas.architectures import categorical
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Gdas(categorical.Concrete):
    """One drawn option at a time, with the gradient of a Concrete sample (GDAS)."""

    last: float = 0.1  # and at its end

    hard: ClassVar[bool] = True

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        soft = self.sample(state, key, progress)
        places = torch.arange(soft.shape[-1], device=soft.device)
        hard = (places == soft.argmax(dim=-1, keepdim=True)).to(soft.dtype)
        return hard + (soft - soft.detach())  # the bracket is exactly 0: others than the chosen have weight 0
