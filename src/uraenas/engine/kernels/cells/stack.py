"""A stack of members with their own genotypes as one program."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from uraenas.engine.kernels.cells.program import Program
from uraenas.engine.kernels.cells.wiring import wiring_of
from uraenas.spaces.cells import Genotype, Skeleton


class StackProgram(Program):
    """Forward and backward of M members; the flat vectors are those of `spaces.Stack`."""

    def __init__(
        self,
        genotypes: Sequence[Genotype],
        skeleton: Skeleton,
        batch: int,
        device: torch.device | str,
        dtype: torch.dtype = torch.bfloat16,
        learns: bool = True,
    ) -> None:
        wirings = [wiring_of(g, skeleton) for g in genotypes]
        super().__init__(wirings, skeleton, batch, device, dtype, learns=learns)

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
