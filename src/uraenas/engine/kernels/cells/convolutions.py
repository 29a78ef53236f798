"""The three products of a convolution, as matrix products over shifted pixels, for the edges of all members at once.

With p a pixel, t a tap (its shift in the map) and W_t the matrix [inputs, outputs] of that tap,

    forward           y[p]  = Σ_t relu(x[p + t]) W_t
    input gradient    dx[p] = relu'(x[p]) · Σ_edges Σ_t dy[p − t] W_tᵀ
    weight gradient   dW_t  = Σ_p relu(x[p + t])ᵀ dy[p]

Sixteen channels are too few for the matrix units, and reading nine shifted copies of a map is what costs most. So a
row of a product is a GROUP of two neighbouring pixels, and it is multiplied with all four source pixels that their
taps reach in one row of the map (SPAN), which lie side by side in memory:

    [y(p), y(p+1)] = Σ_rows [x(p−1), x(p), x(p+1), x(p+2)] · | W_left     0      |
                                                              | W_middle   W_left |
                                                              | W_right  W_middle |
                                                              | 0        W_right  |

A quarter of the arithmetic is wasted on zeros, half of the reads and products are saved. Wide maps (64 channels) use
GROUP = SPAN = 1, which is the plain sum over nine taps. A step is one row of taps and one span of columns; a 1×1
convolution takes the steps of the middle row only.

A program works on a run of blocks and leaves partial sums behind, which are added in a fixed order later: the result
does not depend on which program ran first. EXACT says that blocks end where the map ends, so that nothing need be
masked. Sums for the variance are taken around the running mean, so that a small variance beside a large mean does not
drown in rounding. With SKIPS, edges whose factor is 0 at this step do nothing: which ones is known on the device alone,
so a captured graph launches them all, and their programs return at once.
"""

import triton
import triton.language as tl

from uraenas.engine.kernels.cells.tables import (
    EDGE_COLUMNS,
    EDGE_FACTOR,
    EDGE_GRADIENT,
    EDGE_INPUT,
    EDGE_MEAN,
    EDGE_OUTPUT,
    EDGE_PACKED,
    EDGE_PARTIAL,
    EDGE_TAPS,
    KIND_NOTHING,
    KIND_POOL,
    KIND_SKIP,
    SOURCE_COUNT,
    SOURCE_FIRST,
    SOURCE_INPUT,
    SOURCE_OUTPUT,
    SOURCE_SHORTCUT,
    SOURCE_TERMS,
    TERM_COLUMNS,
    TERM_FACTOR,
    TERM_KIND,
    TERM_MAP,
    UNIT,
)


@triton.jit
def _rectify(x):
    """max(x, 0) by way of whole numbers: a float with its sign bit set is a negative one, and keeps its format."""
    word = x.to(tl.int32 if x.dtype == tl.float32 else tl.int16, bitcast=True)
    return tl.maximum(word, tl.zeros_like(word)).to(x.dtype, bitcast=True)


@triton.jit
def _step_range(taps, GROUP: tl.constexpr, SPAN: tl.constexpr, REACH: tl.constexpr):
    """First and last step of a convolution with so many taps; steps count spans of columns, then rows."""
    COLUMNS: tl.constexpr = (GROUP + REACH - 1) // SPAN
    if GROUP == 1:
        first, last = tl.where(taps == 1, COLUMNS + 1, 0), tl.where(taps == 1, COLUMNS + 2, REACH * COLUMNS)
    else:
        first, last = tl.where(taps == 1, COLUMNS, 0), tl.where(taps == 1, 2 * COLUMNS, REACH * COLUMNS)
    return first, last


@triton.jit
def _read_window(
    source, group, groups, step, k,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr,
    GROUP: tl.constexpr, SPAN: tl.constexpr, REACH: tl.constexpr, RECTIFY: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """The source pixels under one step of taps: rows are groups of output pixels, columns (source pixel, channel)."""
    COLUMNS: tl.constexpr = (GROUP + REACH - 1) // SPAN
    ORIGIN: tl.constexpr = 2 - REACH  # 3×3 taps start at −1, 2×2 taps at 0
    pixel = group * GROUP
    row = pixel // WIDTH % HEIGHT * STRIDE + (step // COLUMNS + ORIGIN)
    corner = pixel % WIDTH * STRIDE + (step % COLUMNS * SPAN + ORIGIN)
    column = corner[:, None] + (k // CHANNELS)[None, :]
    inside = ((group < groups) | EXACT) & (row >= 0) & (row < HEIGHT * STRIDE)
    inside = inside[:, None] & (column >= 0) & (column < WIDTH * STRIDE)
    place = (pixel // (HEIGHT * WIDTH) * (HEIGHT * STRIDE) + row) * (WIDTH * STRIDE) + corner
    x = tl.load(source + (place * CHANNELS)[:, None] + k[None, :], mask=inside, other=0.0)
    return _rectify(x) if RECTIFY else x


@triton.jit
def _read_weight(
    weight, taps, step, k, n,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, GROUP: tl.constexpr, SPAN: tl.constexpr, REACH: tl.constexpr,
):  # fmt: skip
    """The matrix [(source pixel, input), (pixel of the group, output)] of one step, zero where no tap connects them."""
    COLUMNS: tl.constexpr = (GROUP + REACH - 1) // SPAN
    across = (step % COLUMNS * SPAN + k // INPUTS)[:, None] - (n // OUTPUTS)[None, :]
    tap = tl.where(taps == 1, 0, step // COLUMNS * REACH + across)
    real = tl.where(taps == 1, across == 1, (across >= 0) & (across < REACH))
    place = (k % INPUTS * OUTPUTS)[:, None] + (n % OUTPUTS)[None, :]
    return tl.load(weight + tap * (INPUTS * OUTPUTS) + place, mask=real, other=0.0)


@triton.jit
def convolve(
    inputs, outputs, packed, statistics, partials, mixing, edges, first, pixels, blocks_each,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr, SPAN: tl.constexpr, REACH: tl.constexpr, RECTIFY: tl.constexpr, NORMED: tl.constexpr,
    SKIPS: tl.constexpr, BLOCK: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """y of one edge for a run of blocks, and the sums of y and y² around the running mean, per channel."""
    STEPS: tl.constexpr = REACH * ((GROUP + REACH - 1) // SPAN)
    WIDE: tl.constexpr = GROUP * OUTPUTS
    table = edges + (first + tl.program_id(0)) * EDGE_COLUMNS
    if SKIPS:
        if tl.load(mixing + tl.load(table + EDGE_FACTOR)) == 0:
            return
    taps = tl.load(table + EDGE_TAPS).to(tl.int32)
    source = inputs + tl.load(table + EDGE_INPUT) * (pixels * (STRIDE * STRIDE * INPUTS))
    target = outputs + tl.load(table + EDGE_OUTPUT) * (pixels * OUTPUTS)
    weight = packed + tl.load(table + EDGE_PACKED) * UNIT
    groups = pixels // GROUP

    k, n = tl.arange(0, SPAN * INPUTS), tl.arange(0, WIDE)
    if NORMED:
        centre = tl.load(statistics + tl.load(table + EDGE_MEAN) + n % OUTPUTS)
        if WIDE <= 32:  # a sum for every place in the block; wider ones would take too many registers
            total, squares = tl.zeros([BLOCK, WIDE], tl.float32), tl.zeros([BLOCK, WIDE], tl.float32)
        else:
            total, squares = tl.zeros([WIDE], tl.float32), tl.zeros([WIDE], tl.float32)
    first_step, last_step = _step_range(taps, GROUP, SPAN, REACH)
    if STEPS == 3:  # few enough to keep their weights at hand, and to have all reads under way at once
        w0 = _read_weight(weight, taps, 0, k, n, INPUTS, OUTPUTS, GROUP, SPAN, REACH)
        w1 = _read_weight(weight, taps, 1, k, n, INPUTS, OUTPUTS, GROUP, SPAN, REACH)
        w2 = _read_weight(weight, taps, 2, k, n, INPUTS, OUTPUTS, GROUP, SPAN, REACH)
    for block in range(tl.program_id(1) * blocks_each, (tl.program_id(1) + 1) * blocks_each):
        group = block * BLOCK + tl.arange(0, BLOCK)
        y = tl.zeros([BLOCK, WIDE], tl.float32)
        if STEPS == 3:
            x1 = _read_window(
                source, group, groups, 1, k, HEIGHT, WIDTH, STRIDE, INPUTS, GROUP, SPAN, REACH, RECTIFY, EXACT
            )  # fmt: skip
            if taps == 9:
                x0 = _read_window(
                    source, group, groups, 0, k, HEIGHT, WIDTH, STRIDE, INPUTS, GROUP, SPAN, REACH, RECTIFY, EXACT
                )  # fmt: skip
                x2 = _read_window(
                    source, group, groups, 2, k, HEIGHT, WIDTH, STRIDE, INPUTS, GROUP, SPAN, REACH, RECTIFY, EXACT
                )  # fmt: skip
                y = tl.dot(x0, w0, y, input_precision="ieee")
                y = tl.dot(x2, w2, y, input_precision="ieee")
            y = tl.dot(x1, w1, y, input_precision="ieee")
        else:
            for step in range(first_step, last_step):
                x = _read_window(
                    source, group, groups, step, k, HEIGHT, WIDTH, STRIDE, INPUTS, GROUP, SPAN, REACH, RECTIFY, EXACT
                )  # fmt: skip
                w = _read_weight(weight, taps, step, k, n, INPUTS, OUTPUTS, GROUP, SPAN, REACH)
                y = tl.dot(x, w, y, input_precision="ieee")
        present = ((group < groups) | EXACT)[:, None]
        tl.store(target + group[:, None] * WIDE + n[None, :], y.to(outputs.dtype.element_ty), mask=present)
        if NORMED:
            y = tl.where(present, y - centre[None, :], 0.0)
            total += y if WIDE <= 32 else tl.sum(y, axis=0)
            squares += y * y if WIDE <= 32 else tl.sum(y * y, axis=0)
    if NORMED:
        if WIDE <= 32:
            total, squares = tl.sum(total, axis=0), tl.sum(squares, axis=0)
        place = partials + (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * (2 * WIDE) + n
        tl.store(place, total)
        tl.store(place + WIDE, squares)


@triton.jit
def _gradient_step(
    dy, weight, taps, step, group, groups,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr, SPAN: tl.constexpr, REACH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dy at the outputs that one step of taps leads to, and the transposed weights of that step."""
    COLUMNS: tl.constexpr = (GROUP + REACH - 1) // SPAN
    k, n = tl.arange(0, SPAN * OUTPUTS), tl.arange(0, GROUP * INPUTS)
    pixel = group * GROUP
    row = pixel // WIDTH % HEIGHT + (REACH - 2 - step // COLUMNS)
    corner = pixel % WIDTH + (step % COLUMNS * SPAN - 1)
    column = corner[:, None] + (k // OUTPUTS)[None, :]
    inside = ((group < groups) | EXACT) & (row >= 0) & (row < HEIGHT)
    if STRIDE == 2:  # an input pixel lies under a tap of every second output only
        inside = inside & (row % 2 == 0) & (corner % 2 == 0)
    inside = inside[:, None] & (column >= 0) & (column < WIDTH)
    place = (pixel // (HEIGHT * WIDTH) * (HEIGHT // STRIDE) + row // STRIDE) * (
        WIDTH // STRIDE
    ) + corner // STRIDE
    g = tl.load(dy + (place * OUTPUTS)[:, None] + k[None, :], mask=inside, other=0.0)
    across = (n // INPUTS)[None, :] - (step % COLUMNS * SPAN + k // OUTPUTS)[:, None] + (REACH - 1)
    tap = tl.where(taps == 1, 0, step // COLUMNS * REACH + across)
    real = tl.where(taps == 1, across == 1, (across >= 0) & (across < REACH))
    place = (k % OUTPUTS)[:, None] + (n % INPUTS * OUTPUTS)[None, :]
    return g, tl.load(weight + tap * (INPUTS * OUTPUTS) + place, mask=real, other=0.0)


@triton.jit
def _add_edge(
    dx, gradients, packed, table, group, groups, pixels,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr, SPAN: tl.constexpr, REACH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dx + Σ_t dy[p − t] W_tᵀ of one edge, p on the edge's input (HEIGHT × WIDTH)."""
    STEPS: tl.constexpr = REACH * ((GROUP + REACH - 1) // SPAN)
    taps = tl.load(table + EDGE_TAPS).to(tl.int32)
    dy = gradients + tl.load(table + EDGE_GRADIENT) * (pixels // (STRIDE * STRIDE) * OUTPUTS)
    weight = packed + tl.load(table + EDGE_PACKED) * UNIT
    first_step, last_step = _step_range(taps, GROUP, SPAN, REACH)
    if STEPS == 3:
        g1, w1 = _gradient_step(
            dy, weight, taps, 1, group, groups, HEIGHT, WIDTH, STRIDE, INPUTS, OUTPUTS, GROUP, SPAN, REACH, EXACT
        )  # fmt: skip
        if taps == 9:
            g0, w0 = _gradient_step(
                dy, weight, taps, 0, group, groups, HEIGHT, WIDTH, STRIDE, INPUTS, OUTPUTS, GROUP, SPAN, REACH, EXACT
            )  # fmt: skip
            g2, w2 = _gradient_step(
                dy, weight, taps, 2, group, groups, HEIGHT, WIDTH, STRIDE, INPUTS, OUTPUTS, GROUP, SPAN, REACH, EXACT
            )  # fmt: skip
            dx = tl.dot(g0, w0, dx, input_precision="ieee")
            dx = tl.dot(g2, w2, dx, input_precision="ieee")
        dx = tl.dot(g1, w1, dx, input_precision="ieee")
    else:
        for step in range(first_step, last_step):
            g, w = _gradient_step(
                dy, weight, taps, step, group, groups, HEIGHT, WIDTH, STRIDE, INPUTS, OUTPUTS, GROUP, SPAN, REACH,
                EXACT,
            )  # fmt: skip
            dx = tl.dot(g, w, dx, input_precision="ieee")
    return dx


@triton.jit
def input_gradient(
    inputs, gradients, results, packed, mixing, edges, sources, first, pixels,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr, SPAN: tl.constexpr, TERMS: tl.constexpr, SKIPS: tl.constexpr,
    BLOCK: tl.constexpr, RUN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """The gradient of one node for a run of blocks, from all edges that leave it.

    With STRIDE 2 the node is the input (HEIGHT × WIDTH) of a residual block, and the shortcut is added.
    """
    table = sources + (first + tl.program_id(0)) * (SOURCE_TERMS + TERMS * TERM_COLUMNS)
    groups, size = pixels // GROUP, pixels * INPUTS
    first_edge = tl.load(table + SOURCE_FIRST).to(tl.int32)
    count = tl.load(table + SOURCE_COUNT).to(tl.int32)
    x_map = inputs + tl.load(table + SOURCE_INPUT) * size
    result = results + tl.load(table + SOURCE_OUTPUT) * size
    n = tl.arange(0, GROUP * INPUTS)
    for block in range(tl.program_id(1) * RUN, (tl.program_id(1) + 1) * RUN):
        group = block * BLOCK + tl.arange(0, BLOCK)
        offset, present = group[:, None] * (GROUP * INPUTS) + n[None, :], ((group < groups) | EXACT)[:, None]
        dx = tl.zeros([BLOCK, GROUP * INPUTS], tl.float32)
        for edge in range(first_edge, first_edge + count):
            runs = True
            if SKIPS:
                runs = tl.load(mixing + tl.load(edges + edge * EDGE_COLUMNS + EDGE_FACTOR)) != 0
            if runs:
                dx = _add_edge(
                    dx, gradients, packed, edges + edge * EDGE_COLUMNS, group, groups, pixels,
                    HEIGHT, WIDTH, STRIDE, INPUTS, OUTPUTS, GROUP, SPAN, 3, EXACT,
                )  # fmt: skip
        if count > 0:
            x = tl.load(x_map + offset, mask=present, other=0.0)
            dx = tl.where(x > 0, dx, 0.0)
        if STRIDE == 2:
            shortcut = tl.load(table + SOURCE_SHORTCUT)
            dx = _add_edge(
                dx, gradients, packed, edges + shortcut * EDGE_COLUMNS, group, groups, pixels,
                HEIGHT, WIDTH, STRIDE, INPUTS, OUTPUTS, GROUP, SPAN, 2, EXACT,
            )  # fmt: skip
        else:
            for term in tl.static_range(TERMS):
                row = table + SOURCE_TERMS + term * TERM_COLUMNS
                kind, factor = tl.load(row + TERM_KIND), tl.load(mixing + tl.load(row + TERM_FACTOR))
                if SKIPS:
                    kind = tl.where(factor == 0, KIND_NOTHING, kind)
                g = gradients + tl.load(row + TERM_MAP) * size
                if kind == KIND_SKIP:
                    dx += factor * tl.load(g + offset, mask=present, other=0.0).to(tl.float32)
                if kind == KIND_POOL:
                    dx += factor * _pool_gradient(g, offset, present, HEIGHT, WIDTH, INPUTS)
        tl.store(result + offset, dx.to(results.dtype.element_ty), mask=present)


@triton.jit
def _pool_gradient(g, offset, present, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr):
    """Σ over windows q that hold p of g[q] / (pixels of the map in window q)."""
    pixel = offset // CHANNELS
    total = tl.zeros(offset.shape, tl.float32)
    for tap in range(9):
        down, right = tap // 3 - 1, tap % 3 - 1
        row, column = pixel // WIDTH % HEIGHT + down, pixel % WIDTH + right
        inside = present & (row >= 0) & (row < HEIGHT) & (column >= 0) & (column < WIDTH)
        rows = 3 - (row == 0).to(tl.int32) - (row == HEIGHT - 1).to(tl.int32)
        columns = 3 - (column == 0).to(tl.int32) - (column == WIDTH - 1).to(tl.int32)
        value = tl.load(g + offset + (down * WIDTH + right) * CHANNELS, mask=inside, other=0.0)
        total += value.to(tl.float32) / (rows * columns).to(tl.float32)
    return total


@triton.jit
def weight_gradient(
    inputs, gradients, partials, mixing, edges, first, pixels, blocks_each,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr, SPAN: tl.constexpr, REACH: tl.constexpr, RECTIFY: tl.constexpr,
    SKIPS: tl.constexpr, BLOCK: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """One edge's weight gradient, summed over a run of blocks: [SPAN · INPUTS, GROUP · OUTPUTS] for each step.

    `unpack_gradient` adds up the GROUP places where a tap appears.
    """
    STEPS: tl.constexpr = REACH * ((GROUP + REACH - 1) // SPAN)
    WIDE: tl.constexpr = GROUP * OUTPUTS
    table = edges + (first + tl.program_id(0)) * EDGE_COLUMNS
    if SKIPS:
        if tl.load(mixing + tl.load(table + EDGE_FACTOR)) == 0:
            return
    taps = tl.load(table + EDGE_TAPS).to(tl.int32)
    source = inputs + tl.load(table + EDGE_INPUT) * (pixels * (STRIDE * STRIDE * INPUTS))
    dy = gradients + tl.load(table + EDGE_GRADIENT) * (pixels * OUTPUTS)
    groups = pixels // GROUP
    k, n = tl.arange(0, SPAN * INPUTS), tl.arange(0, WIDE)
    SIZE: tl.constexpr = SPAN * INPUTS * WIDE
    partial = partials + tl.load(table + EDGE_PARTIAL) * UNIT + tl.program_id(2) * (STEPS * SIZE)
    partial += k[:, None] * WIDE + n[None, :]
    start, stop = tl.program_id(2) * blocks_each, (tl.program_id(2) + 1) * blocks_each
    if STEPS == 3:  # all rows of taps in one program: dy is read once
        dw0, dw1 = tl.zeros([SPAN * INPUTS, WIDE], tl.float32), tl.zeros([SPAN * INPUTS, WIDE], tl.float32)
        dw2 = tl.zeros([SPAN * INPUTS, WIDE], tl.float32)
        for block in range(start, stop):
            group = block * BLOCK + tl.arange(0, BLOCK)
            g = tl.load(
                dy + group[:, None] * WIDE + n[None, :], mask=((group < groups) | EXACT)[:, None], other=0.0
            )
            x1 = _read_window(
                source, group, groups, 1, k, HEIGHT, WIDTH, STRIDE, INPUTS, GROUP, SPAN, REACH, RECTIFY, EXACT
            )  # fmt: skip
            if taps == 9:
                x0 = _read_window(
                    source, group, groups, 0, k, HEIGHT, WIDTH, STRIDE, INPUTS, GROUP, SPAN, REACH, RECTIFY, EXACT
                )  # fmt: skip
                x2 = _read_window(
                    source, group, groups, 2, k, HEIGHT, WIDTH, STRIDE, INPUTS, GROUP, SPAN, REACH, RECTIFY, EXACT
                )  # fmt: skip
                dw0 = tl.dot(tl.trans(x0), g, dw0, input_precision="ieee")
                dw2 = tl.dot(tl.trans(x2), g, dw2, input_precision="ieee")
            dw1 = tl.dot(tl.trans(x1), g, dw1, input_precision="ieee")
        tl.store(partial, dw0)
        tl.store(partial + SIZE, dw1)
        tl.store(partial + 2 * SIZE, dw2)
    else:
        step = tl.program_id(1)
        first_step, last_step = _step_range(taps, GROUP, SPAN, REACH)
        if (step < first_step) | (step >= last_step):
            return
        dw = tl.zeros([SPAN * INPUTS, WIDE], tl.float32)
        for block in range(start, stop):
            group = block * BLOCK + tl.arange(0, BLOCK)
            x = _read_window(
                source, group, groups, step, k, HEIGHT, WIDTH, STRIDE, INPUTS, GROUP, SPAN, REACH, RECTIFY, EXACT
            )  # fmt: skip
            g = tl.load(
                dy + group[:, None] * WIDE + n[None, :], mask=((group < groups) | EXACT)[:, None], other=0.0
            )
            dw = tl.dot(tl.trans(x), g, dw, input_precision="ieee")
        tl.store(partial + step * SIZE, dw)
