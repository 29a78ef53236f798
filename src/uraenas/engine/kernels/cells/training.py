"""Losses and gradients of a step by own kernels, of a stack and of the supernet.

They compute what the classes of `engine.gradients` do, with the images gathered straight into
the program's buffer.
"""

from typing import Any

import torch
from torch import Tensor

from uraenas.data.loader import EpochDraws, Loader
from uraenas.data.targets import CLASSES
from uraenas.engine.gradients import of_chosen
from uraenas.engine.kernels.cells.images import augment
from uraenas.engine.kernels.cells.program import Program
from uraenas.engine.kernels.cells.stack import StackProgram
from uraenas.engine.kernels.cells.supernet import SupernetProgram
from uraenas.spaces import Stack, Supernet


class KernelGradients:
    """A stack's."""

    def __init__(
        self, stack: Stack, loader: Loader, dtype: torch.dtype, smoothing: Tensor | None = None
    ) -> None:
        self.stack, self.loader, self.smoothing = stack, loader, smoothing
        space: Any = stack.space  # a cell space, or these kernels would not have been asked
        device = stack.weights.device
        self.program = StackProgram(stack.architectures, space.skeleton, loader.batch, device, dtype)

    def __call__(self, drawn: EpochDraws, position: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [M] and the flat gradient of their sum, for the batch at this place of the epoch."""
        _fill(self.program, self.loader, drawn, position)
        logits_MNK = self.program.forward(self.stack.weights, self.stack.statistics, True)
        losses_M, slope_MNK = _losses(logits_MNK, self.loader, drawn, position, self.smoothing)
        return losses_M, self.program.backward(slope_MNK)


class KernelSearchGradients:
    """The supernet's. One program serves both steps, so both loaders must have one batch size."""

    def __init__(self, supernet: Supernet, batch: int, dtype: torch.dtype, hard: bool = False) -> None:
        self.supernet, self.hard = supernet, hard
        space: Any = supernet.space
        device = supernet.weights.device
        self.program = SupernetProgram(space.cell, space.skeleton, batch, device, dtype, hard)

    def begin_epoch(self) -> None:
        """Running means, which sums are taken around, would have other last digits after a resume."""
        self.program.statistics.zero_()

    def of_mixing(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of a batch and its slope with respect to θ."""
        loss, slope = self._loss(loader, drawn, position, mixing)
        slopes = self.program.mixing_gradient(slope)
        return loss, of_chosen(slopes, mixing) if self.hard else slopes

    def of_weights(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of a batch and its gradient with respect to the weights."""
        loss, slope = self._loss(loader, drawn, position, mixing)
        return loss, self.program.backward(slope)[: len(self.supernet.weights)]

    def _loss(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]:
        _fill(self.program, loader, drawn, position)
        losses_M, slope_MNK = _losses(
            self.program.run(self.supernet.weights, mixing), loader, drawn, position
        )
        return losses_M[0], slope_MNK


def _fill(program: Program, loader: Loader, drawn: EpochDraws, position: Tensor) -> None:
    normalise = loader.normalise
    augment(
        loader.images,
        drawn.order,
        drawn.corner,
        drawn.flip,
        position,
        normalise.mean,
        normalise.deviation,
        program.images,
    )


def _losses(
    logits_MNK: Tensor, loader: Loader, drawn: EpochDraws, position: Tensor, smoothing: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Losses [M], and the slope of their sum with respect to the logits."""
    labels, weights_MN = loader.labels_at(drawn, position)
    logits_MNK = logits_MNK.requires_grad_()
    losses_M = CLASSES.loss(logits_MNK, labels, weights_MN)
    if smoothing is not None:
        importance_MN = loader.importance(labels, weights_MN)
        losses_M = CLASSES.smoothed(losses_M, logits_MNK, importance_MN, smoothing)
    (slope_MNK,) = torch.autograd.grad(losses_M.sum(), logits_MNK)
    return losses_M.detach(), slope_MNK
