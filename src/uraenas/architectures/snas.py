"""SNAS: options mixed by a sample of the Concrete distribution, which is nearly one-hot at low temperatures.

    θ_d = softmax((α_d + g)/τ),   g ~ Gumbel(0, 1),   τ falling from `first` to `last`

The gradient is that of the sample (pathwise). For τ > 0 it is biased for the loss of drawn architectures; as τ → 0 the
bias goes and the variance grows. The argmax of α + g is an exact draw from softmax(α), whatever τ is.
"""

from dataclasses import dataclass

from torch import Tensor

from uraenas.architectures import categorical
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Snas(categorical.Concrete):
    """Concrete samples, whose temperature falls over the search (SNAS)."""

    def mixing(self, state: Tensors, key: Tensor, progress: Tensor) -> Tensor:
        return self.sample(state, key, progress)
