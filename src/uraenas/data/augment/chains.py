"""Mixtures of chains of operations, as AugMix makes them."""

from collections.abc import Callable

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.data.augment.augmentation import along, integers, uniform

CHAINS, DEEPEST = 3, 3

# images [n, C, H, W] and a key for each → the images after one operation, drawn by the key
Operation = Callable[[Tensor, Tensor], Tensor]


def mixed(images: Tensor, keys: Tensor, operation: Operation) -> Tensor:
    """Images blended with what becomes of them.

    (1 - m)·x + m·Σ_c w_c·chain_c(x), where w ~ Dirichlet(1, 1, 1), m ~ Beta(1, 1), and a chain is one to three
    operations. Every place of every chain is worked out and only then left out where a chain is shorter: to ask which
    they are would make the device wait for the host.
    """
    weights = -torch.log(uniform(keys, 0, CHAINS))
    weights = weights / weights.sum(dim=1, keepdim=True)
    depth = 1 + integers(keys, 1, CHAINS, DEEPEST)
    mixture = torch.zeros_like(images)
    for chain in range(CHAINS):
        moved = images
        for place in range(DEEPEST):
            further = operation(moved, draws.at(keys, 3 + chain * DEEPEST + place))
            moved = torch.where(along(place < depth[:, chain]), further, moved) if place else further
        mixture += along(weights[:, chain]) * moved
    return images + along(uniform(keys, 2, 1)) * (mixture - images)
