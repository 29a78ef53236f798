"""Networks of any space as functions of one flat weight vector: a stack of members, and the supernet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor, nn

from uraenas.spaces.layout import Layout, Tensors, aligned
from uraenas.spaces.passage import PLAIN, Passage
from uraenas.spaces.space import Architecture, ChosenAlone, Features, InParts, Space, Together, require_valid


@dataclass(frozen=True)
class Draw:
    """What is random about one pass of one member."""

    key: Tensor
    number: int | None = None  # of the pass, in prediction; None: a step of training


class Network(Protocol):
    """One member with its images [N, C, H, W], a function of weights by name, to be called once."""

    @property
    def images(self) -> Tensor: ...

    def __call__(self, weights: Tensors, passage: Passage = PLAIN, images: Tensor | None = None) -> Tensor:
        """Logits [N, K], of other images than its own where some are given."""


# (network, its weights by name, draw) → logits [N, K]: what a kind of weights wraps around a network
Forward = Callable[[Network, Tensors, Draw], Tensor]


def as_it_is(layout: Layout) -> Layout:
    """The layout of a kind of weights that has none of its own."""
    return layout


class Stack(nn.Module):
    """M members, each with its own architecture, in one module: one flat weight vector, one forward, one backward.

    M = 1 is the plain network. Shapes: M members, N images of a batch, K classes.
    """

    def __init__(
        self,
        architectures: Sequence[Architecture],
        space: Space,
        layout: Callable[[Layout], Layout] = as_it_is,
    ) -> None:
        super().__init__()
        for architecture in architectures:
            require_valid(space, architecture)
        self.architectures = tuple(architectures)
        self.space = space
        self.weight_layouts = [layout(space.weight_layout(architecture)) for architecture in architectures]
        self.statistics_layouts = [space.statistics_layout(architecture) for architecture in architectures]
        self.weight_sizes = [layout.size for layout in self.weight_layouts]
        self.statistics_sizes = [layout.size for layout in self.statistics_layouts]
        self.weights = nn.Parameter(torch.zeros(sum(self.weight_sizes)))
        self.statistics: Tensor
        self.register_buffer(
            "statistics", torch.cat([layout.initial() for layout in self.statistics_layouts])
        )

    def __len__(self) -> int:
        return len(self.architectures)

    @cached_property
    def runs_together(self) -> bool:
        """Whether many members in training are one batch, in a space that is `Together` and knows all their weights."""
        return isinstance(self.space, Together) and self.is_plain

    @property
    def is_plain(self) -> bool:
        """Whether its weights are those of its space, and no others."""
        plain = map(self.space.weight_layout, self.architectures)
        return all(own == theirs for own, theirs in zip(self.weight_layouts, plain, strict=True))

    def initialise(self, keys: Sequence[int]) -> None:
        """Draw fresh weights, each member's from its own key."""
        for m, (layout, key) in enumerate(zip(self.weight_layouts, keys, strict=True)):
            self.put(m, layout.initial(key), self.statistics_layouts[m].initial())

    def put(self, m: int, weights: Tensor, statistics: Tensor) -> None:
        """Make these flat vectors the weights and statistics of member m."""
        with torch.no_grad():
            for own, given in zip(self._own(m), (weights, statistics), strict=True):
                own.copy_(given)

    def take(self, m: int) -> tuple[Tensor, Tensor]:
        """A copy of member m's flat weights and statistics."""
        weights, statistics = self._own(m)
        return weights.clone(), statistics.clone()

    def weights_of(self, members: range) -> Tensor:
        """The flat weights of members in a row, themselves."""
        return self.weights[self._starts[0][members.start] : self._starts[0][members.stop]]

    def _own(self, m: int) -> tuple[Tensor, Tensor]:
        start, stop = self._starts[1][m : m + 2]
        return self.weights_of(range(m, m + 1)).detach(), self.statistics[start:stop]

    @cached_property
    def _starts(self) -> tuple[list[int], list[int]]:
        """Where the weights and the statistics of each member begin, and where the last end."""
        weights, statistics = self.weight_sizes, self.statistics_sizes
        return [*accumulate(weights, initial=0)], [*accumulate(statistics, initial=0)]

    def forward(self, images: Tensor) -> Tensor:
        """Logits [M, N, K] of images [N, C, H, W], or [M, N, C, H, W] where each member has its own."""
        return self.run(range(len(self)), self.weights, images)

    def run(
        self,
        members: Sequence[int],
        weights: Tensor,
        images: Tensor,
        forward: Forward | None = None,
        draws: Sequence[Draw] = (),
    ) -> Tensor:
        """Logits of some members, whose flat weights are one after another.

        `forward`, if there is one, is wrapped around each of them. Images [M, N, C, H, W] are those of these members
        alone.
        """
        chosen = [self.architectures[m] for m in members]
        if self.runs_together and forward is None and self.training:
            assert isinstance(self.space, Together)
            return self.space.together(chosen, weights, images)
        flat = weights.split([self.weight_sizes[m] for m in members])
        named = [aligned(self.weight_layouts[m].views(w)) for m, w in zip(members, flat, strict=True)]
        statistics = [self.statistics_layouts[m].views(self._own(m)[1]) for m in members]
        if forward is None:
            return self.space.forward(chosen, named, statistics, images, self.training)
        wrapped = []
        for place, draw in enumerate(draws):
            own = images if images.dim() == 4 else images[place]
            network = _Member(self.space, chosen[place], statistics[place], own, self.training)
            wrapped.append(forward(network, named[place], draw))
        return torch.stack(wrapped)

    def named(self, m: int) -> tuple[Architecture, Tensors, Tensors]:
        """Member m's architecture, and its weights and statistics by name."""
        weights, statistics = self._own(m)
        named = aligned(self.weight_layouts[m].views(weights))
        return self.architectures[m], named, self.statistics_layouts[m].views(statistics)

    @torch.no_grad()
    def trace(
        self, m: int, images: Tensor, forward: Forward | None = None, draw: Draw | None = None
    ) -> tuple[Tensor, Features]:
        """Logits [N, K] of one member in evaluation, and what its network sees."""
        architecture, weights, statistics = self.named(m)
        network = _Traced(self.space, architecture, statistics, images)
        logits = network(weights) if forward is None or draw is None else forward(network, weights, draw)
        return logits, network.seen


class _Member:
    """A member of a stack, as a `Network`."""

    def __init__(
        self, space: Space, architecture: Architecture, statistics: Tensors, images: Tensor, training: bool
    ) -> None:
        self.space, self.architecture, self.statistics = space, architecture, statistics
        self.images, self.training = images, training

    def __call__(self, weights: Tensors, passage: Passage = PLAIN, images: Tensor | None = None) -> Tensor:
        own = self.images if images is None else images
        facts = ([self.architecture], [weights], [self.statistics], own, self.training)
        if passage is PLAIN:  # a space need not know of passages to do without them
            return self.space.forward(*facts)[0]
        return self.space.forward(*facts, passage)[0]


class _Traced:
    """A member in evaluation, which keeps what it has seen, as a `Network`."""

    def __init__(self, space: Space, architecture: Architecture, statistics: Tensors, images: Tensor) -> None:
        self.space, self.architecture, self.statistics, self.images = space, architecture, statistics, images
        self.seen: Features = ()

    def __call__(self, weights: Tensors, passage: Passage = PLAIN, images: Tensor | None = None) -> Tensor:
        facts = (self.architecture, weights, self.statistics, self.images if images is None else images)
        more = () if passage is PLAIN else (passage,)
        logits, self.seen = self.space.trace(*facts, *more)
        return logits


class Supernet(nn.Module):
    """All architectures at once. `forward(images, mixing)`; mixing [D, O] has a row for each decision."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space
        self.layout = space.supernet_layout()
        self.weights = nn.Parameter(torch.zeros(self.layout.size))

    def initialise(self, key: int) -> None:
        with torch.no_grad():
            self.weights.copy_(self.layout.initial(key))

    def forward(
        self, images: Tensor, mixing: Tensor, frozen: bool = False, hard: bool = False, parts: int = 1
    ) -> Tensor:
        """Logits [N, K]; with `frozen` weights no gradient is computed for them.

        Options run on one of so many `parts` of the channels, in a space that is `InParts`. Where mixing is `hard`
        (one-hot), the chosen ones run alone in a space that is `ChosenAlone`, on a CPU: a GPU's steps are captured
        before it is known which these are.
        """
        weights = aligned(self.layout.views(self.weights.detach() if frozen else self.weights))
        mixing = mixing.to(self.weights.dtype)
        if parts > 1:
            assert isinstance(self.space, InParts)  # a search asks before it begins
            return self.space.partial_forward(weights, images, mixing, parts)
        if hard and images.device.type == "cpu" and isinstance(self.space, ChosenAlone):
            return self.space.chosen_forward(weights, images, mixing, mixing.argmax(dim=-1).tolist())
        return self.space.supernet_forward(weights, images, mixing)
