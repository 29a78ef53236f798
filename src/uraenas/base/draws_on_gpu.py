"""The draws of `draws.py`, each by one GPU kernel (Triton) where tensor operations take ten to thirty.

Words, uniform numbers and coins have the same bits. Normal ones differ by rounding: their logarithms and cosines are
other implementations.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from uraenas.base import draws

BLOCK = 1024
_GOLDEN, _FIRST, _SECOND = (tl.constexpr(word) for word in (draws.GOLDEN, draws.FIRST, draws.SECOND))
_WORDS, _UNIFORM, _COINS, _NORMAL = (tl.constexpr(kind) for kind in range(4))


def at(keys: Tensor, step: Tensor | None, number: int) -> Tensor:
    """The key of a step for each key: of a step on the device, or of a number that the host has mixed."""
    found = torch.empty_like(keys)
    _at[(keys.numel(),)](keys, keys if step is None else step, found, number, HAS_STEP=step is not None)
    return found


def words(key: Tensor, count: int) -> Tensor:
    return _drawn(key, count, torch.int64, _WORDS)


def uniform(key: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return _drawn(key, count, dtype, _UNIFORM)


def coins(key: Tensor, count: int, below: int) -> Tensor:
    """Whether 16 bits, as a signed number, lie below this one."""
    return _drawn(key, count, torch.bool, _COINS, below)


def normal(key: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return _drawn(key, count, dtype, _NORMAL)


def masked(key: Tensor, x: Tensor, axes: int, each: bool, below: int, scale: float) -> Tensor:
    """Values times `scale` where a coin keeps them; no mask is stored, for the gradient neither."""
    return _Masked.apply(x, key, axes, each, below, scale)


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, key: Tensor, *settings: Any) -> Tensor:
        ctx.save_for_backward(key)
        ctx.settings = (_innermost(x), *settings)
        return _times_mask(x, key, *ctx.settings)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        return _times_mask(slope, *ctx.saved_tensors, *ctx.settings), None, None, None, None, None


def _times_mask(
    x: Tensor, key: Tensor, innermost: bool, axes: int, each: bool, below: int, scale: float
) -> Tensor:
    """By images, rows and columns, a row being what lies side by side. Coins are numbered as where images lie whole.

    Channels of the result are innermost, or images whole.
    """
    channels, pixels = x.shape[1:2].numel(), x.shape[2:].numel()
    of_image, of_channel, of_pixel = {1: (1, 0, 0), 2: (channels, 1, 0)}.get(
        axes, (channels * pixels, pixels, 1)
    )
    layout = torch.channels_last if innermost else torch.contiguous_format
    if not (innermost and _innermost(x)):
        x = x.contiguous(memory_format=layout)
    if innermost:
        rows, columns, of_row, of_column, apart = pixels, channels, of_pixel, of_channel, x.stride(3)
    else:
        rows, columns, of_row, of_column, apart = channels, pixels, of_channel, of_pixel, pixels
    found = torch.empty_like(x, memory_format=layout)
    wide = min(triton.next_power_of_2(columns), BLOCK)
    tall = BLOCK // wide
    grid = (x.shape[0], triton.cdiv(rows, tall), triton.cdiv(columns, wide))
    steps = (x.stride(0), apart, of_image if each else 0, of_row, of_column)
    _mask[grid](x, found, key, rows, columns, *steps, below, scale, TALL=tall, WIDE=wide)
    return found


def _innermost(x: Tensor) -> bool:
    """Whether channels lie side by side, as in some channels of a tensor that has them innermost."""
    return x.dim() == 4 and x.stride(1) == 1 and x.stride(2) == x.shape[3] * x.stride(3)


def _drawn(key: Tensor, count: int, dtype: torch.dtype, kind: tl.constexpr, below: int = 0) -> Tensor:
    """So many of each key [], or [n, 1]."""
    found = torch.empty(*key.shape[:-1], count, dtype=dtype, device=key.device)
    if found.numel():
        _draw[(triton.cdiv(count, BLOCK), key.numel())](key, found, count, below, KIND=kind, BLOCK=BLOCK)
    return found


@triton.jit
def _mix(word):
    word = (word ^ ((word >> 30) & 0x3FFFFFFFF)) * _FIRST
    word = (word ^ ((word >> 27) & 0x1FFFFFFFFF)) * _SECOND
    return word ^ ((word >> 31) & 0x1FFFFFFFF)


@triton.jit(do_not_specialize=["number"])
def _at(keys, step, found, number, HAS_STEP: tl.constexpr):
    place = tl.program_id(0)
    if HAS_STEP:
        number = _mix(tl.load(step) * _GOLDEN)
    tl.store(found + place, _mix(tl.load(keys + place) + number))


@triton.jit(do_not_specialize=["count", "below"])
def _draw(keys, found, count, below, KIND: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1)
    source = place.to(tl.int64)
    half = (count + 1) // 2
    if KIND == _COINS:
        source = source // 4
    if KIND == _NORMAL:
        source = tl.where(place < half, source, source - half)
    word = _mix(tl.load(keys + row) + (source + 1) * _GOLDEN)
    number: tl.constexpr = found.dtype.element_ty
    if KIND == _WORDS:
        value = word
    elif KIND == _UNIFORM:
        BITS: tl.constexpr = 52 if number == tl.float64 else 23
        value = (((word >> (64 - BITS)) & ((1 << BITS) - 1)).to(number) + 0.5) * (1.0 / (1 << BITS))
    elif KIND == _COINS:
        value = (word >> (16 * (place % 4))).to(tl.int16).to(tl.int32) < below
    else:
        high, low = (word >> 32) & 0xFFFFFFFF, word & 0xFFFFFFFF
        radius = tl.sqrt(-2 * tl.log((high.to(number) + 1) * (1.0 / (1 << 32))))
        angle = low.to(number) * (6.283185307179586 / (1 << 32))
        value = radius * tl.where(place < half, tl.cos(angle), tl.sin(angle))
    tl.store(found + row.to(tl.int64) * count + place, value, mask=place < count)


@triton.jit(do_not_specialize=["below", "scale"])
def _mask(
    x,
    found,
    key,
    rows,
    columns,
    image_apart,
    row_apart,
    of_image,
    of_row,
    of_column,
    below,
    scale,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * TALL + tl.arange(0, TALL)[:, None]
    column = tl.program_id(2) * WIDE + tl.arange(0, WIDE)[None, :]
    inside = (row < rows) & (column < columns)
    place = image * rows * columns + row * columns + column
    coin = image * of_image + row * of_row + column * of_column
    word = _mix(tl.load(key) + (coin // 4 + 1) * _GOLDEN)
    kept = (word >> (16 * (coin % 4))).to(tl.int16).to(tl.int32) < below
    value = tl.load(x + image * image_apart + row * row_apart + column, mask=inside)
    value = tl.where(kept, value * scale, 0.0).to(found.dtype.element_ty)
    tl.store(found + place, value, mask=inside)
