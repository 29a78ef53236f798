"""What a search has found: a distribution with what it has learned, to draw architectures from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from uraenas.architectures.distribution import ArchitectureDistribution
from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.spaces import Architecture, Space, Tensors, option_counts

MOST_REDRAWS = 10_000  # per architecture asked for


@dataclass(frozen=True, eq=False)
class Searched:
    """A distribution over the architectures of a space."""

    space: Space
    distribution: ArchitectureDistribution
    state: Tensors
    history: Sequence[dict[str, Any]] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        counts = option_counts(self.space)
        for name in self.distribution.learned:
            shape = self.state[name].shape[:2] if name in self.state else ()
            if tuple(shape) not in ((len(counts), max(counts)), (len(counts), 1)):
                raise UraenasError(
                    f"what was searched for is no {name} of the decisions of {self.space.name}"
                )
        for name in self.distribution.kept:
            if name not in self.state:
                raise UraenasError(f"what was searched for lacks its {name}")

    @classmethod
    def nothing(cls, space: Space, distribution: ArchitectureDistribution) -> "Searched":
        """The distribution before anything is learned, without its random beginning: nothing is favoured."""
        state = distribution.initial(option_counts(space), key=0)
        learned = {name: torch.zeros_like(state[name]) for name in distribution.learned}
        return cls(space, distribution, {**state, **learned})

    @property
    def expected(self) -> Architecture:
        """The architecture that stands for the distribution."""
        return self.space.architecture(self.distribution.mode(self.state).tolist())

    @property
    def favour(self) -> Tensor:
        return self.distribution.favour(self.state)

    def drawn_shares(self, count: int = 1000, seed: int = 0) -> Tensor:
        """How often each option is drawn [D, O]: by sampling, so that all kinds of distributions compare."""
        found = torch.zeros(len(self.space.decisions), max(option_counts(self.space)), dtype=torch.float64)
        key = draws.key(seed, "shares")
        for number in range(count):
            options = self._best(self.distribution.scores(self.state, draws.at(key, number)).detach(), True)
            found[torch.arange(len(options)), torch.tensor(options)] += 1
        return found / count

    def draw(
        self, count: int, seed: int, temperature: float = 1.0, draw_absent: bool = True
    ) -> tuple[list[Architecture], int]:
        """`count` valid architectures, and how many draws were thrown away because they are no networks.

        Unless the option that leaves a decision out may be drawn, the best of the others is taken. Of a Dirichlet that
        is a draw too: without one of its parts, it is the Dirichlet of the others.
        """
        found: list[Architecture] = []
        redrawn = draw = 0
        while len(found) < count:
            key = draws.at(draws.key(seed, "genotype"), draw)
            scores = self.distribution.scores(self.state, key, temperature).detach()
            architecture = self.space.architecture(self._best(scores, draw_absent))
            draw += 1
            if self.space.is_valid(architecture):
                found.append(architecture)
            else:
                redrawn += 1
            if redrawn > MOST_REDRAWS * count:
                raise UraenasError(
                    "the learned distribution almost never draws a connected architecture; "
                    "search longer, or with a stronger regulariser"
                )
        return found, redrawn

    def _best(self, scores: Tensor, draw_absent: bool) -> list[int]:
        lowest = scores.min() - 1
        for d, decision in enumerate(self.space.decisions):
            scores[d, len(decision.options) :] = lowest
            if not draw_absent and decision.absent is not None:
                scores[d, decision.absent] = lowest
        return scores.argmax(dim=-1).tolist()
