"""Predictions of a stack by own kernels, in batches as large as memory allows."""

from typing import Any

import torch
from torch import Tensor

from uraenas.engine.kernels.cells.stack import StackProgram
from uraenas.spaces import Stack

LARGEST_BATCH = 1000
SHARE_OF_MEMORY = 0.5  # of what is free
MAPS_PER_CELL = 12  # generous: nodes and convolution outputs of one cell, forward only


class KernelPredictor:
    """Normalised images [N, C, H, W], N up to `batch` → logits [M, N, K]."""

    def __init__(self, stack: Stack, dtype: torch.dtype, share: float = 1.0) -> None:
        self.stack = stack
        space: Any = stack.space
        device, skeleton = stack.weights.device, space.skeleton
        values = sum(block.channels * block.height * block.width for block in skeleton.blocks())
        bytes_per_image = values * MAPS_PER_CELL * dtype.itemsize * len(stack)
        free, _ = torch.cuda.mem_get_info(device)
        at_hand = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # with PyTorch
        fitting = int(share * SHARE_OF_MEMORY * (free + at_hand) / bytes_per_image)
        self.batch = max(8, min(LARGEST_BATCH, fitting) // 8 * 8)
        self.program = StackProgram(stack.architectures, skeleton, self.batch, device, dtype, learns=False)

    def __call__(self, images: Tensor) -> Tensor:
        count = len(images)
        if count < self.batch:  # a program has one batch size
            images = torch.cat([images, images[:1].expand(self.batch - count, *images.shape[1:])])
        self.program.put_images(images)
        logits = self.program.forward(self.stack.weights, self.stack.statistics, False)
        return logits[:, :count].clone()
