"""A stack of members with their own genotypes as one program."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from uraenas.errors import UraenasError
from uraenas.kernels.plan import IMAGE_CHANNELS
from uraenas.kernels.program import Program
from uraenas.kernels.wiring import wiring_of
from uraenas.spaces import Genotype, Skeleton


class StackProgram(Program):
    """Forward and backward of M members; the flat vectors are those of `networks.Stack`."""

    def __init__(
        self,
        genotypes: Sequence[Genotype],
        skeleton: Skeleton,
        batch: int,
        device: torch.device | str = "cuda",
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        for genotype in genotypes:
            if not genotype.connected:
                raise UraenasError(f"genotype {genotype} cuts the input off from the output")
        check(skeleton)
        super().__init__([wiring_of(g, skeleton) for g in genotypes], skeleton, batch, device, dtype)

    def __call__(self, flat_weights: Tensor, statistics: Tensor, images: Tensor, training: bool) -> Tensor:
        """Logits [M, N, K] of normalised images, differentiable with respect to the flat weights."""
        self.put_images(images)
        return _Run.apply(flat_weights, statistics, self, training)


class _Run(torch.autograd.Function):
    """The program as one node of autograd's graph."""

    @staticmethod
    def forward(
        ctx: Any, flat_weights: Tensor, statistics: Tensor, program: StackProgram, training: bool
    ) -> Tensor:
        ctx.program = program
        return program.forward(flat_weights, statistics, training)

    @staticmethod
    def backward(ctx: Any, logits_gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.program.backward(logits_gradient).clone(), None, None, None


def fits(skeleton: Skeleton) -> bool:
    """Whether own kernels can run networks of this skeleton."""
    sides = (skeleton.height, skeleton.width)
    return (
        skeleton.channels in (16, 32, 64)
        and all(side % 4 == 0 and side >= 8 for side in sides)
        and skeleton.image_channels <= IMAGE_CHANNELS
    )


def check(skeleton: Skeleton) -> None:
    """Refuse what does not fit."""
    if not fits(skeleton):
        raise UraenasError(
            "these networks cannot run on own kernels, which take 16, 32 or 64 channels, sides that are multiples of 4 "
            f"from 8 up, and at most {IMAGE_CHANNELS} image channels"
        )
