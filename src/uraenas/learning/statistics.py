"""A loop without learning: batch-norm statistics of weights made of several samples, on training batches."""

import torch
from torch import Tensor

from uraenas.data.loader import Loader
from uraenas.engine import Engine
from uraenas.spaces import Architecture, Space, Stack
from uraenas.spaces.layout import MOMENTUM

BATCHES = 32  # at most, of those whose statistics are averaged


@torch.no_grad()
def measure_statistics(
    architecture: Architecture, weights: Tensor, space: Space, loader: Loader, engine: Engine, key: int
) -> Tensor:
    """The mean over some training batches."""
    stack = Stack([architecture], space).to(engine.device, engine.dtype).train()
    zeros = torch.zeros_like(stack.statistics)
    total = torch.zeros_like(zeros, dtype=torch.float64)
    drawn = loader.draw([key], epoch=0)
    batches = min(BATCHES, loader.steps)
    with engine.threads():
        for position in range(batches):
            stack.put(0, weights, zeros)  # so that a batch leaves MOMENTUM times its own statistics
            stack(loader.batch_at(drawn, position)[0])
            total += stack.statistics
    return (total / (batches * MOMENTUM)).to(weights)
