"""Mean-field variational inference: every weight of a layer is N(w̄, σ²), and training maximises the evidence's bound.

    loss = E[−log p(D | w)] / N + KL / N,     KL = Σ w̄²/(2 prior²) + log(prior/σ) + σ²/(2 prior²) − ½

The first part of KL is weight decay, the means' Gaussian prior of all kinds of weights (`train.prior_deviation`); the
rest is added here. With both priors alike this is the bound for the prior N(0, prior²). By default they are not: as
published, the spread has a prior of its own, and KL grows from 0 over the first part of training.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base.errors import require_positive, require_range
from uraenas.spaces import Draw, Layout, Network, Passage, Tensors
from uraenas.weights.descending import OneCosine
from uraenas.weights.masks import MOST_DRAWS
from uraenas.weights.method import Changes
from uraenas.weights.normal import SPREAD, divergence_of_spread, drawn_weights, normal_layers, spreads


@dataclass(frozen=True)
class MeanField(OneCosine):
    """Mean-field variational inference: a member is a draw of all weights, each with its own deviation."""

    deviation: float = 1e-3  # of each weight, when it starts
    prior: float = 0.1  # the deviation of the prior of spreads
    annealing: float = 0.8  # the part of training over which the divergence comes to count in full
    draws: int = 10  # passes of one network

    section: ClassVar[str] = "variational"
    of_members: ClassVar[tuple[str, ...]] = ("draws",)
    trajectory: ClassVar[str] = "variational"
    objective = None

    def check_own(self) -> None:
        require_positive("deviation", self.deviation)
        require_positive("prior", self.prior)
        require_range("annealing", self.annealing, 0, 1)
        require_range("draws", self.draws, 1, MOST_DRAWS)

    @property
    def changes(self) -> Changes:
        return Changes(layout=self._with_spreads, penalty=self._divergence, as_plain=drawn_weights)

    def _with_spreads(self, layout: Layout) -> Layout:
        return Layout((*layout.entries, *spreads(layout, self.deviation)))

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        return network(weights, Passage(layer=normal_layers(weights, draw, len(network.images))))

    def _divergence(self, weights: Tensors, progress: Tensor, images: int) -> Tensor:
        raw = torch.cat([one.flatten() for name, one in weights.items() if name.endswith(SPREAD)])
        share = (progress / self.annealing).clamp(max=1) if self.annealing else 1.0
        return share * divergence_of_spread(F.softplus(raw), self.prior).sum() / images

    @property
    def members_per_chain(self) -> int:
        return self.draws
