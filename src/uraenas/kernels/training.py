"""Losses and gradients of a training step of a stack, by own kernels."""

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.data.loader import EpochDraws, Loader
from uraenas.kernels.images import augment
from uraenas.kernels.stack import StackProgram
from uraenas.networks import Stack


class KernelGradients:
    """What `engine.PlainGradients` computes, with the images gathered straight into the program's buffer."""

    def __init__(self, stack: Stack, loader: Loader, dtype: torch.dtype) -> None:
        self.stack, self.loader = stack, loader
        device = stack.weights.device
        self.program = StackProgram(stack.genotypes, stack.skeleton, loader.batch, device, dtype)

    def __call__(self, drawn: EpochDraws, position: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [M] and the flat gradient of their sum, for the batch at this place of the epoch."""
        program, loader, normalise = self.program, self.loader, self.loader.normalise
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
        labels_MN, weights_MN = loader.labels_at(drawn, position)
        logits_MNK = program.forward(self.stack.weights, self.stack.statistics, True).requires_grad_()
        losses_MN = F.cross_entropy(logits_MNK.movedim(2, 1), labels_MN, reduction="none")
        losses_M = (losses_MN if weights_MN is None else losses_MN * weights_MN).mean(dim=1)
        (slope,) = torch.autograd.grad(losses_M.sum(), logits_MNK)
        return losses_M.detach(), program.backward(slope)
