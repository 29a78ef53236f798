"""One network from several samples of a chain: the mean of their weights, with batch-norm statistics of its own."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from uraenas import draws
from uraenas.data.loader import Loader
from uraenas.engine import Engine
from uraenas.ensemble import Member
from uraenas.networks import Stack
from uraenas.networks.skeleton import MOMENTUM
from uraenas.spaces import Genotype, Skeleton

BATCHES = 32  # at most, of those whose statistics are averaged


def mean_of(
    samples: Sequence[Member], skeleton: Skeleton, loader: Loader, engine: Engine, seed: int
) -> Member:
    """The mean of samples from one cycle of a chain; one sample is its own mean."""
    newest = max(samples, key=lambda sample: sample.origin.epoch)
    if len(samples) == 1:
        return newest
    weights = torch.stack([sample.weights for sample in samples]).mean(dim=0)
    key = draws.key(seed, "statistics", newest.origin.chain, newest.origin.cycle)
    statistics = measure_statistics(newest.genotype, weights, skeleton, loader, engine, key)
    origin = replace(newest.origin, samples=len(samples))
    return Member(newest.genotype, weights, statistics, origin)


@torch.no_grad()
def measure_statistics(
    genotype: Genotype, weights: Tensor, skeleton: Skeleton, loader: Loader, engine: Engine, key: int
) -> Tensor:
    """Batch-norm statistics of a network with these weights, the mean over some training batches."""
    stack = Stack([genotype], skeleton).to(engine.device, engine.dtype).train()
    zeros = torch.zeros_like(stack.statistics)
    total = torch.zeros_like(zeros, dtype=torch.float64)
    drawn = loader.draw([key], epoch=0)
    batches = min(BATCHES, loader.steps)
    for position in range(batches):
        stack.put(0, weights, zeros)  # so that a batch leaves MOMENTUM times its own statistics
        stack(loader.batch_at(drawn, position)[0])
        total += stack.statistics
    return (total / (batches * MOMENTUM)).to(weights)
