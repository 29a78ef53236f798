"""Batch norm and the sums at nodes, for the edges of all members at once.

Batch norm is z = γ (y − mean) r + β with r = 1/√(variance + ε): one scale and one shift per channel once the mean and
variance of y are known. Its gradient is just as plain: with g the gradient of the node that z is added to, and mean(·)
over all pixels of the batch,

    dγ = r Σ g (y − mean),   dβ = Σ g,   dy = γ r (g − mean(g) − (y − mean) r² mean(g (y − mean))) = a g + b y + c.

`norms` holds scale, shift, mean and r of each edge; `slopes` holds a, b and c.
"""

import triton
import triton.language as tl

from uraenas.engine.kernels.cells.tables import (
    EDGE_ARRIVING,
    EDGE_COLUMNS,
    EDGE_FACTOR,
    EDGE_MEAN,
    EDGE_SCALE,
    EDGE_SHIFT,
    EDGE_VARIANCE,
    KIND_NORMED,
    KIND_NOTHING,
    KIND_POOL,
    KIND_SKIP,
    PASSAGE_ARRIVING,
    PASSAGE_COLUMNS,
    PASSAGE_INPUT,
    PASSAGE_POOL,
    PASSAGE_SKIP,
    SUM_OUTPUT,
    SUM_TERMS,
    TERM_COLUMNS,
    TERM_FACTOR,
    TERM_KIND,
    TERM_MAP,
)

NORM_ROWS = tl.constexpr(4)
SLOPE_ROWS = tl.constexpr(3)


@triton.jit
def _add_partials(
    partials, splits, channel, CHANNELS: tl.constexpr, GROUP: tl.constexpr, SPLITS: tl.constexpr
):
    """Both partial sums of this program's edge, added in a fixed order; each part holds GROUP sums per channel."""
    part = tl.arange(0, SPLITS)
    place = (tl.program_id(0) * splits + part // GROUP) * (2 * GROUP * CHANNELS) + part % GROUP * CHANNELS
    place = partials + place[:, None] + channel[None, :]
    present = (part < splits * GROUP)[:, None]
    one = tl.load(place, mask=present, other=0.0)
    two = tl.load(place + GROUP * CHANNELS, mask=present, other=0.0)
    return tl.sum(one, axis=0), tl.sum(two, axis=0)


@triton.jit
def finish_statistics(
    partials, norms, weights, statistics, mixing, edges, first, splits, pixels, momentum, epsilon,
    CHANNELS: tl.constexpr, GROUP: tl.constexpr, SPLITS: tl.constexpr, TRAINING: tl.constexpr, SKIPS: tl.constexpr,
):  # fmt: skip
    """Scale and shift of one edge, from the batch (and then the running statistics move) or from the running ones."""
    edge = first + tl.program_id(0)
    table = edges + edge * EDGE_COLUMNS
    at_scale = tl.load(table + EDGE_SCALE)
    if at_scale < 0:  # a shortcut has no norm
        return
    if SKIPS:
        if tl.load(mixing + tl.load(table + EDGE_FACTOR)) == 0:
            return
    channel = tl.arange(0, CHANNELS)
    running_mean = statistics + tl.load(table + EDGE_MEAN) + channel
    running_variance = statistics + tl.load(table + EDGE_VARIANCE) + channel
    if TRAINING:
        total, squares = _add_partials(partials, splits, channel, CHANNELS, GROUP, SPLITS)
        old_mean, old_variance = tl.load(running_mean), tl.load(running_variance)
        move = total / pixels  # sums are around the running mean
        mean = old_mean + move
        variance = tl.maximum(squares / pixels - move * move, 0.0)
        unbiased = variance * (pixels / (pixels - 1))
        tl.store(running_mean, old_mean + momentum * move)
        tl.store(running_variance, old_variance + momentum * (unbiased - old_variance))
    else:
        mean, variance = tl.load(running_mean), tl.load(running_variance)
    inverse = 1.0 / tl.sqrt(variance + epsilon)
    scale = tl.load(weights + at_scale + channel) * inverse
    shift = tl.load(weights + tl.load(table + EDGE_SHIFT) + channel) - mean * scale
    row = norms + edge * (NORM_ROWS * CHANNELS) + channel
    tl.store(row, scale)
    tl.store(row + CHANNELS, shift)
    tl.store(row + 2 * CHANNELS, mean)
    tl.store(row + 3 * CHANNELS, inverse)


@triton.jit
def combine(
    maps, norms, mixing, sums, first, pixels,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, TERMS: tl.constexpr, SKIPS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One node for one pixel block: the sum of normed convolutions, skips and pools that arrive there."""
    table = sums + (first + tl.program_id(0)) * (SUM_TERMS + TERMS * TERM_COLUMNS)
    pixel, channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, CHANNELS)
    offset, present = pixel[:, None] * CHANNELS + channel[None, :], (pixel < pixels)[:, None]
    total = tl.zeros([BLOCK, CHANNELS], tl.float32)
    for term in tl.static_range(TERMS):
        row = table + SUM_TERMS + term * TERM_COLUMNS
        kind, number = tl.load(row + TERM_KIND), tl.load(row + TERM_MAP)
        factor = tl.load(mixing + tl.load(row + TERM_FACTOR))
        if SKIPS:
            kind = tl.where(factor == 0, KIND_NOTHING, kind)
        source = maps + number * (pixels * CHANNELS)
        if kind == KIND_NORMED:
            norm = norms + number * (NORM_ROWS * CHANNELS) + channel
            scale, shift = tl.load(norm), tl.load(norm + CHANNELS)
            y = tl.load(source + offset, mask=present, other=0.0).to(tl.float32)
            total += y * scale[None, :] + shift[None, :]
        if kind == KIND_SKIP:
            total += factor * tl.load(source + offset, mask=present, other=0.0).to(tl.float32)
        if kind == KIND_POOL:
            total += factor * _pool(source, pixel, pixels, channel, HEIGHT, WIDTH, CHANNELS)
    target = maps + tl.load(table + SUM_OUTPUT) * (pixels * CHANNELS)
    tl.store(target + offset, total.to(maps.dtype.element_ty), mask=present)


@triton.jit
def _pool(source, pixel, pixels, channel, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr):
    """3×3 average; padding is not counted."""
    row, column = pixel // WIDTH % HEIGHT, pixel % WIDTH
    total = tl.zeros([pixel.shape[0], CHANNELS], tl.float32)
    for tap in range(9):
        down, right = tap // 3 - 1, tap % 3 - 1
        inside = (row + down >= 0) & (row + down < HEIGHT) & (column + right >= 0) & (column + right < WIDTH)
        place = (pixel + down * WIDTH + right)[:, None] * CHANNELS + channel[None, :]
        total += tl.load(source + place, mask=(inside & (pixel < pixels))[:, None], other=0.0).to(tl.float32)
    rows = 3 - (row == 0).to(tl.int32) - (row == HEIGHT - 1).to(tl.int32)
    columns = 3 - (column == 0).to(tl.int32) - (column == WIDTH - 1).to(tl.int32)
    return total / (rows * columns).to(tl.float32)[:, None]


@triton.jit
def sum_gradients(
    maps, norms, partials, mixing, edges, order, first, pixels, blocks_each,
    CHANNELS: tl.constexpr, SKIPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Σ g and Σ g (y − mean) per channel of one edge, for a run of pixel blocks."""
    edge = tl.load(order + first + tl.program_id(0))
    if SKIPS:
        if tl.load(mixing + tl.load(edges + edge * EDGE_COLUMNS + EDGE_FACTOR)) == 0:
            return
    g = maps + tl.load(edges + edge * EDGE_COLUMNS + EDGE_ARRIVING) * (pixels * CHANNELS)
    y = maps + edge * (pixels * CHANNELS)
    channel = tl.arange(0, CHANNELS)
    mean = tl.load(norms + edge * (NORM_ROWS * CHANNELS) + 2 * CHANNELS + channel)
    one, two = tl.zeros([BLOCK, CHANNELS], tl.float32), tl.zeros([BLOCK, CHANNELS], tl.float32)
    start = tl.program_id(1) * blocks_each
    # Unrolled, so that several reads are under way.
    for block in tl.range(start, start + blocks_each, loop_unroll_factor=4):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        offset, present = pixel[:, None] * CHANNELS + channel[None, :], (pixel < pixels)[:, None]
        value = tl.load(g + offset, mask=present, other=0.0).to(tl.float32)
        centred = tl.load(y + offset, mask=present, other=0.0).to(tl.float32) - mean[None, :]
        one += value
        two += value * centred
    place = partials + (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * (2 * CHANNELS) + channel
    tl.store(place, tl.sum(one, axis=0))
    tl.store(place + CHANNELS, tl.sum(two, axis=0))


@triton.jit
def finish_gradients(
    partials, norms, slopes, weights, gradient, mixing, edges, order, first, splits, pixels,
    CHANNELS: tl.constexpr, SPLITS: tl.constexpr, SKIPS: tl.constexpr,
):  # fmt: skip
    """dγ and dβ of one edge, and a, b, c."""
    edge = tl.load(order + first + tl.program_id(0))
    table = edges + edge * EDGE_COLUMNS
    if SKIPS:
        if tl.load(mixing + tl.load(table + EDGE_FACTOR)) == 0:
            return
    channel = tl.arange(0, CHANNELS)
    sum_g, sum_gy = _add_partials(partials, splits, channel, CHANNELS, 1, SPLITS)
    row = norms + edge * (NORM_ROWS * CHANNELS) + channel
    mean, inverse = tl.load(row + 2 * CHANNELS), tl.load(row + 3 * CHANNELS)
    at_scale = tl.load(table + EDGE_SCALE)
    tl.store(gradient + at_scale + channel, inverse * sum_gy)
    tl.store(gradient + tl.load(table + EDGE_SHIFT) + channel, sum_g)
    a = tl.load(weights + at_scale + channel) * inverse
    b = -a * inverse * inverse * (sum_gy / pixels)
    place = slopes + edge * (SLOPE_ROWS * CHANNELS) + channel
    tl.store(place, a)
    tl.store(place + CHANNELS, b)
    tl.store(place + 2 * CHANNELS, -a * (sum_g / pixels) - b * mean)


@triton.jit
def apply_gradients(
    maps, slopes, mixing, edges, order, first, pixels,
    CHANNELS: tl.constexpr, SKIPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y becomes dy = a g + b y + c, for one pixel block of one edge."""
    edge = tl.load(order + first + tl.program_id(0))
    if SKIPS:
        if tl.load(mixing + tl.load(edges + edge * EDGE_COLUMNS + EDGE_FACTOR)) == 0:
            return
    g = maps + tl.load(edges + edge * EDGE_COLUMNS + EDGE_ARRIVING) * (pixels * CHANNELS)
    y = maps + edge * (pixels * CHANNELS)
    pixel, channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, CHANNELS)
    offset, present = pixel[:, None] * CHANNELS + channel[None, :], (pixel < pixels)[:, None]
    row = slopes + edge * (SLOPE_ROWS * CHANNELS) + channel
    a, b, c = tl.load(row), tl.load(row + CHANNELS), tl.load(row + 2 * CHANNELS)
    value = tl.load(g + offset, mask=present, other=0.0).to(tl.float32) * a[None, :]
    value += tl.load(y + offset, mask=present, other=0.0).to(tl.float32) * b[None, :] + c[None, :]
    tl.store(y + offset, value.to(maps.dtype.element_ty), mask=present)


@triton.jit
def sum_passages(
    maps, partials, mixing, passages, first, pixels, blocks_each,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, SKIPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Σ g x and Σ g pool(x) of one passage, for a run of pixel blocks: the slopes of its skip's and pool's factors."""
    table = passages + (first + tl.program_id(0)) * PASSAGE_COLUMNS
    skips, pools = True, True
    if SKIPS:
        skips = tl.load(mixing + tl.load(table + PASSAGE_SKIP)) != 0
        pools = tl.load(mixing + tl.load(table + PASSAGE_POOL)) != 0
        if not (skips | pools):
            return
    x = maps + tl.load(table + PASSAGE_INPUT) * (pixels * CHANNELS)
    g = maps + tl.load(table + PASSAGE_ARRIVING) * (pixels * CHANNELS)
    channel = tl.arange(0, CHANNELS)
    skip, pool = tl.zeros([BLOCK, CHANNELS], tl.float32), tl.zeros([BLOCK, CHANNELS], tl.float32)
    for block in range(tl.program_id(1) * blocks_each, (tl.program_id(1) + 1) * blocks_each):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        offset, present = pixel[:, None] * CHANNELS + channel[None, :], (pixel < pixels)[:, None]
        slope = tl.load(g + offset, mask=present, other=0.0).to(tl.float32)
        if skips:
            skip += slope * tl.load(x + offset, mask=present, other=0.0).to(tl.float32)
        if pools:
            pool += slope * _pool(x, pixel, pixels, channel, HEIGHT, WIDTH, CHANNELS)
    place = partials + ((first + tl.program_id(0)) * tl.num_programs(1) + tl.program_id(1)) * 2
    tl.store(place, tl.sum(tl.sum(skip, axis=0), axis=0))
    tl.store(place + 1, tl.sum(tl.sum(pool, axis=0), axis=0))
