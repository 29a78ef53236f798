"""A Dirichlet distribution over the operations of each edge, independent across edges.

θ_e ~ Dirichlet(β_e). A sample of θ mixes the operations of the supernet; its argmax on every edge is a genotype.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence

from uraenas import draws
from uraenas.errors import UraenasError
from uraenas.spaces import EDGES, OPERATIONS, Genotype

NONE = OPERATIONS.index("none")
MOST_REDRAWS = 10_000  # per genotype asked for


class _ReparameterisedSample(torch.autograd.Function):
    """θ = g / Σg with g ~ Gamma(β), with the implicit gradient dθ/dβ."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, key: Tensor) -> Tensor:
        mixing = torch.softmax(draws.log_gamma(key, concentration), dim=-1).clamp_min(1e-300)
        ctx.save_for_backward(mixing, concentration.to(mixing.dtype))
        return mixing

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        mixing, concentration = ctx.saved_tensors
        total = concentration.sum(dim=-1, keepdim=True).expand_as(concentration)
        # The function behind torch.distributions.Dirichlet.rsample, which cannot take a keyed draw.
        slope = torch._dirichlet_grad(mixing, concentration, total)
        return slope * (gradient - (mixing * gradient).sum(dim=-1, keepdim=True)), None


def concentration_of(raw: Tensor) -> Tensor:
    """β = elu(raw) + 1: positive, and 1 (uniform on the simplex) where the raw parameter is 0."""
    return F.elu(raw) + 1


@dataclass(frozen=True, eq=False)
class ArchitectureDistribution:
    """A distribution over genotypes: concentration β[E, O], one row per edge."""

    concentration: Tensor

    def __post_init__(self) -> None:
        expected = (len(EDGES), len(OPERATIONS))
        if tuple(self.concentration.shape) != expected:
            raise UraenasError(
                f"concentration must have shape {expected}, not {tuple(self.concentration.shape)}"
            )

    def rsample(self, key: Tensor) -> Tensor:
        """One mixing θ[E, O] in float64, with gradients to the concentration."""
        return _ReparameterisedSample.apply(self.concentration.to(torch.float64), key)

    @property
    def expected_mixing(self) -> Tensor:
        return self.concentration / self.concentration.sum(dim=-1, keepdim=True)

    def expected_genotype(self) -> Genotype:
        """The argmax of the expected mixing on every edge."""
        return Genotype.from_indices(self.expected_mixing.argmax(dim=-1).tolist())

    def tempered(self, temperature: float) -> "ArchitectureDistribution":
        """Dirichlet(β/T): the same expected mixing; below 1 draws lie closer to it, above 1 farther from it."""
        return ArchitectureDistribution(self.concentration / temperature)

    def sample_genotypes(self, count: int, seed: int, draw_none: bool = True) -> tuple[list[Genotype], int]:
        """`count` connected genotypes, and how many draws were thrown away because they cut input off from output.

        Unless `none` may be drawn, the largest of the other operations is taken on every edge. That is a draw from a
        Dirichlet too: without one of its parts, it is the Dirichlet of the others.
        """
        genotypes: list[Genotype] = []
        redrawn = 0
        draw = 0
        while len(genotypes) < count:
            key = draws.at(draws.key(seed, "genotype"), draw)
            mixing = self.rsample(key).detach()
            if not draw_none:
                mixing[:, NONE] = 0
            genotype = Genotype.from_indices(mixing.argmax(dim=-1).tolist())
            draw += 1
            if genotype.connected:
                genotypes.append(genotype)
            else:
                redrawn += 1
            if redrawn > MOST_REDRAWS * count:
                raise UraenasError(
                    "the learned distribution almost never draws a connected architecture; "
                    "search longer, or with a stronger regulariser"
                )
        return genotypes, redrawn

    def log_density(self, mixing: Tensor) -> Tensor:
        """log p(θ), summed over edges."""
        return self._edges().log_prob(mixing).sum()

    def entropy(self) -> Tensor:
        """Differential entropy per edge [E]; it is largest, −log 24, for the uniform Dirichlet(1)."""
        return self._edges().entropy()

    def kl_to_uniform(self) -> Tensor:
        """KL(Dirichlet(β_e) ‖ Dirichlet(1)) per edge [E]."""
        return kl_divergence(
            self._edges(), Dirichlet(torch.ones_like(self.concentration), validate_args=False)
        )

    def _edges(self) -> Dirichlet:
        # Validation would make the device wait for the host.
        return Dirichlet(self.concentration, validate_args=False)


def uniform() -> ArchitectureDistribution:
    """Every operation equally likely on every edge."""
    return ArchitectureDistribution(torch.ones(len(EDGES), len(OPERATIONS), dtype=torch.float64))
