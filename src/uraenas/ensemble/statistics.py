"""What batch norms see of images: statistics that are measured, not learned."""

from collections.abc import Iterable

import torch
from torch import Tensor

from uraenas.engine import Engine
from uraenas.spaces import Draw, Forward, Stack
from uraenas.spaces.layout import MOMENTUM


@torch.no_grad()
def measured_statistics(
    stack: Stack,
    weights: Tensor,
    batches: Iterable[Tensor],
    engine: Engine,
    forward: Forward | None = None,
    drawn: tuple[Draw, ...] = (),
) -> Tensor:
    """The mean over batches of normalised images, for the only member of a stack, which is in training."""
    zeros = torch.zeros_like(stack.statistics)
    total, count = torch.zeros_like(zeros, dtype=torch.float64), 0
    with engine.threads():
        for images in batches:
            stack.put(0, weights, zeros)  # so that a batch leaves MOMENTUM times its own statistics
            stack.run([0], stack.weights, images, forward, drawn)
            total += stack.statistics
            count += 1
    return (total / (count * MOMENTUM)).to(weights)
