"""DARTS: every option of a decision at once, weighted by softmax(logits).

    θ_d = softmax(α_d),   no noise

The gradient is exact, and of first order unless `search.order` is 2. The logits are never trained as those of a
distribution: drawing from softmax(α) is a reading of them, not what DARTS does. It takes the argmax.
"""

from dataclasses import dataclass

from torch import Tensor

from uraenas.architectures import categorical
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Darts(categorical.Logits):
    """All options at once, weighted by a softmax: a point on the simplex, not a distribution over it (DARTS)."""

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        return categorical.probabilities(state)
