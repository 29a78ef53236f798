"""A member as a CPU predicts with it: norms folded into convolutions, made ready once, its channels innermost."""

import torch
from torch import Tensor

from uraenas.spaces import Architecture, Features, Space, folded
from uraenas.spaces.layout import Tensors


class FoldedMember:
    """Logits, and what the network sees, of one member in evaluation; as it was when this was made."""

    def __init__(
        self, architecture: Architecture, weights: Tensors, statistics: Tensors, space: Space
    ) -> None:
        self.architecture, self.space = architecture, space
        with torch.no_grad():
            ready = folded(space, architecture, weights, statistics)
            self.weights = {name: _copied(tensor) for name, tensor in ready.items()}
            self.statistics = {name: tensor.clone() for name, tensor in statistics.items()}

    def logits(self, images: Tensor) -> Tensor:
        """[N, K] of normalised images [N, C, H, W]."""
        named = [self.weights], [self.statistics]
        return self.space.forward([self.architecture], *named, _innermost(images), False)[0]

    def trace(self, images: Tensor) -> tuple[Tensor, Features]:
        """The same, and what it sees on its way."""
        return self.space.trace(self.architecture, self.weights, self.statistics, _innermost(images))


def _innermost(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def _copied(tensor: Tensor) -> Tensor:
    """A convolution's weights with their channels innermost; others as they are."""
    return tensor.clone(memory_format=torch.channels_last if tensor.ndim == 4 else torch.preserve_format)
