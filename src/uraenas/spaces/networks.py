"""Networks of any space as functions of one flat weight vector: a stack of members, and the supernet."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from uraenas.spaces.layout import Tensors, aligned
from uraenas.spaces.space import Architecture, Features, Space, require_valid

# (network, its weights by name, key) → logits [N, K]; `network` takes weights by name. See `weights.method`.
Forward = Callable[[Callable[[Tensors], Tensor], Tensors, Tensor], Tensor]


class Stack(nn.Module):
    """M members, each with its own architecture, in one module: one flat weight vector, one forward, one backward.

    M = 1 is the plain network. Shapes: M members, N images of a batch, K classes.
    """

    def __init__(self, architectures: Sequence[Architecture], space: Space) -> None:
        super().__init__()
        for architecture in architectures:
            require_valid(space, architecture)
        self.architectures = tuple(architectures)
        self.space = space
        self.weight_layouts = [space.weight_layout(architecture) for architecture in architectures]
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

    def initialise(self, keys: Sequence[int]) -> None:
        """Draw fresh weights, each member's from its own key."""
        for m, (layout, key) in enumerate(zip(self.weight_layouts, keys, strict=True)):
            self.put(m, layout.initial(key), self.statistics_layouts[m].initial())

    def put(self, m: int, weights: Tensor, statistics: Tensor) -> None:
        """Make these flat vectors the weights and statistics of member m."""
        with torch.no_grad():
            self.weights.split(self.weight_sizes)[m].copy_(weights)
            self.statistics.split(self.statistics_sizes)[m].copy_(statistics)

    def take(self, m: int) -> tuple[Tensor, Tensor]:
        """A copy of member m's flat weights and statistics."""
        weights = self.weights.detach().split(self.weight_sizes)[m].clone()
        return weights, self.statistics.split(self.statistics_sizes)[m].clone()

    def forward(self, images: Tensor) -> Tensor:
        """Logits [M, N, K] of images [N, C, H, W], or [M, N, C, H, W] where each member has its own."""
        return self.run(range(len(self)), self.weights.split(self.weight_sizes), images)

    def run(
        self,
        members: Sequence[int],
        weights: Sequence[Tensor],
        images: Tensor,
        forward: Forward | None = None,
        keys: Sequence[Tensor] = (),
    ) -> Tensor:
        """Logits of some members with these flat weights; `forward`, if there is one, is wrapped around each of them.

        Images [M, N, C, H, W] are those of these members alone.
        """
        running = self.statistics.split(self.statistics_sizes)
        named = [aligned(self.weight_layouts[m].views(w)) for m, w in zip(members, weights, strict=True)]
        statistics = [self.statistics_layouts[m].views(running[m]) for m in members]
        chosen = [self.architectures[m] for m in members]
        if forward is None:
            return self.space.forward(chosen, named, statistics, images, self.training)
        wrapped = []
        for place, key in enumerate(keys):
            own = images if images.dim() == 4 else images[place]

            def network(weights: Tensors, place: int = place, own: Tensor = own) -> Tensor:
                one = slice(place, place + 1)
                return self.space.forward(chosen[one], [weights], statistics[one], own, self.training)[0]

            wrapped.append(forward(network, named[place], key))
        return torch.stack(wrapped)

    def named(self, m: int) -> tuple[Architecture, Tensors, Tensors]:
        """Member m's architecture, and its weights and statistics by name."""
        weights = self.weights.detach().split(self.weight_sizes)[m]
        statistics = self.statistics.split(self.statistics_sizes)[m]
        views = self.weight_layouts[m].views(weights), self.statistics_layouts[m].views(statistics)
        return self.architectures[m], aligned(views[0]), views[1]

    @torch.no_grad()
    def trace(
        self, m: int, images: Tensor, forward: Forward | None = None, key: Tensor | None = None
    ) -> tuple[Tensor, Features]:
        """Logits [N, K] of one member in evaluation, and what its network sees (the last time that it is called)."""
        architecture, weights, statistics = self.named(m)
        seen: Features = ()

        def network(weights: Tensors) -> Tensor:
            nonlocal seen
            logits, seen = self.space.trace(architecture, weights, statistics, images)
            return logits

        logits = network(weights) if forward is None or key is None else forward(network, weights, key)
        return logits, seen


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

    def forward(self, images: Tensor, mixing: Tensor, frozen: bool = False) -> Tensor:
        """Logits [N, K]; with `frozen` weights no gradient is computed for them."""
        weights = aligned(self.layout.views(self.weights.detach() if frozen else self.weights))
        return self.space.supernet_forward(weights, images, mixing.to(self.weights.dtype))
