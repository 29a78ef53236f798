"""The kernels that carry convolution weights between the flat vector ([outputs, inputs, taps]) and packed form.

Packed, a weight is [taps, inputs, outputs] in the number format of the maps.
"""

import triton
import triton.language as tl

from uraenas.engine.kernels.cells.tables import (
    PACK_COLUMNS,
    PACK_FACTOR,
    PACK_GROUP,
    PACK_INPUTS,
    PACK_OUTPUTS,
    PACK_PACKED,
    PACK_PADDED,
    PACK_PARTIAL,
    PACK_POOLED,
    PACK_SPAN,
    PACK_SPLITS,
    PACK_TAPS,
    PACK_WEIGHT,
)


@triton.jit
def pack(weights, packed, packs, mixing, SKIPS: tl.constexpr, BLOCK: tl.constexpr):
    """Packed weights of one convolution, in the maps' number format."""
    table = packs + tl.program_id(0) * PACK_COLUMNS
    if SKIPS:
        if tl.load(mixing + tl.load(table + PACK_FACTOR)) == 0:
            return
    outputs, inputs = tl.load(table + PACK_OUTPUTS).to(tl.int32), tl.load(table + PACK_INPUTS).to(tl.int32)
    padded, taps = tl.load(table + PACK_PADDED).to(tl.int32), tl.load(table + PACK_TAPS).to(tl.int32)
    pooled = tl.load(table + PACK_POOLED)
    source, target = weights + tl.load(table + PACK_WEIGHT), packed + tl.load(table + PACK_PACKED)
    stored_taps, share = tl.where(pooled > 0, 1, taps), tl.where(pooled > 0, 0.25, 1.0)
    for start in range(tl.program_id(1) * BLOCK, taps * padded * outputs, tl.num_programs(1) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        output, channel, tap = place % outputs, place // outputs % padded, place // (outputs * padded)
        stored = (output * inputs + channel) * stored_taps + tl.where(pooled > 0, 0, tap)
        present = place < taps * padded * outputs
        value = tl.load(source + stored, mask=present & (channel < inputs), other=0.0) * share
        tl.store(target + place, value.to(packed.dtype.element_ty), mask=present)


@triton.jit
def unpack_gradient(
    partials, gradient, packs, mixing,
    SKIPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of one convolution's weight: its partial sums, added in order, put where the weight lies.

    A tap t of column c appears for each pixel i of a group, at source pixel c + i of the row's spans. A convolution
    that did not run has the gradient 0.
    """
    table = packs + tl.program_id(0) * PACK_COLUMNS
    outputs, inputs = tl.load(table + PACK_OUTPUTS).to(tl.int32), tl.load(table + PACK_INPUTS).to(tl.int32)
    padded, taps = tl.load(table + PACK_PADDED).to(tl.int32), tl.load(table + PACK_TAPS).to(tl.int32)
    pooled, splits = tl.load(table + PACK_POOLED), tl.load(table + PACK_SPLITS).to(tl.int32)
    if SKIPS:
        splits = tl.where(tl.load(mixing + tl.load(table + PACK_FACTOR)) == 0, 0, splits)
    group, span = tl.load(table + PACK_GROUP).to(tl.int32), tl.load(table + PACK_SPAN).to(tl.int32)
    source, target = partials + tl.load(table + PACK_PARTIAL), gradient + tl.load(table + PACK_WEIGHT)
    reach = tl.where(pooled > 0, 2, 3)
    columns = (group + reach - 1) // span
    step_size = span * padded * group * outputs
    size = reach * columns * step_size
    stored_taps = tl.where(pooled > 0, 1, taps)
    share = tl.where(pooled > 0, 0.25, 1.0)
    for start in range(tl.program_id(1) * BLOCK, padded * outputs * stored_taps, tl.num_programs(1) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        output, channel, stored = place % outputs, place // outputs % padded, place // (outputs * padded)
        present = (place < padded * outputs * stored_taps) & (channel < inputs)
        total = tl.zeros([BLOCK], tl.float32)
        for alike in range(tl.where(pooled > 0, 4, 1)):  # a pooled convolution's one tap is stored four times
            tap = tl.where(pooled > 0, alike, tl.where(taps == 1, 4, stored))
            for i in range(group):
                across = tap % reach + i
                step = tap // reach * columns + across // span
                at = (
                    step * step_size
                    + (across % span * padded + channel) * (group * outputs)
                    + i * outputs
                    + output
                )
                for split in range(splits):
                    total += tl.load(source + split * size + at, mask=present, other=0.0)
        tl.store(target + (output * inputs + channel) * stored_taps + stored, total * share, mask=present)
