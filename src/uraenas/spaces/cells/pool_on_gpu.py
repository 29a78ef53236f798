"""The operation `avg_pool_3x3` by one GPU kernel (Triton) for channels innermost, forward and backward.

A window's mean and its gradient are sums over windows both: y = box(x)/count, dx = box(dy/count).
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 1024


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _summed(x, backward=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return _summed(slope, backward=True)


def pool(x: Tensor) -> Tensor:
    """Means over 3×3 windows of [N, C, H, W]; padding is not counted."""
    return _Pool.apply(x)


def _summed(x: Tensor, backward: bool) -> Tensor:
    x = x.contiguous(memory_format=torch.channels_last)
    out, (_, channels, height, width) = torch.empty_like(x), x.shape
    grid = (triton.cdiv(x.numel(), BLOCK),)
    _box[grid](x, out, x.numel(), channels, height, width, BACKWARD=backward, BLOCK=BLOCK)
    return out


@triton.jit
def _box(x, out, size, channels, height, width, BACKWARD: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    pixel = place // channels
    column, row = pixel % width, pixel // width % height
    number: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    total = tl.zeros([BLOCK], number)
    for down in tl.static_range(-1, 2):
        for right in tl.static_range(-1, 2):
            r, c = row + down, column + right
            inside = (place < size) & (r >= 0) & (r < height) & (c >= 0) & (c < width)
            value = tl.load(x + place + (down * width + right) * channels, mask=inside, other=0.0).to(number)
            if BACKWARD:
                value = value / _count(r, height, c, width).to(number)
            total += value
    if not BACKWARD:
        total = total / _count(row, height, column, width).to(number)
    tl.store(out + place, total.to(out.dtype.element_ty), mask=place < size)


@triton.jit
def _count(row, height, column, width):
    """How many pixels the window around one has."""
    rows = 3 - (row == 0).to(tl.int32) - (row == height - 1).to(tl.int32)
    columns = 3 - (column == 0).to(tl.int32) - (column == width - 1).to(tl.int32)
    return rows * columns
