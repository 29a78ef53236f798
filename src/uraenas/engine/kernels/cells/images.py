"""The kernel before the network: gather, crop, flip and normalise uint8 images for all members in one pass."""

import triton
import triton.language as tl
from torch import Tensor

from uraenas.engine.kernels.cells.rows import IMAGE_CHANNELS


def augment(
    images: Tensor,
    order: Tensor,
    corner: Tensor,
    flip: Tensor,
    step: Tensor,
    mean: Tensor,
    deviation: Tensor,
    out: Tensor,
) -> None:
    """Fill out [M, B, H, W, 4] with the normalised images of one step of an epoch.

    `images` [all, H + 2·padding, W + 2·padding, C] are raw, with their black border; `order` [M, steps, B], `corner`
    [M, steps, B, 2] and `flip` [M, steps, B] are an epoch's draws; `step` is a device tensor of one whole number;
    `mean` and `deviation` [C] are in raw units. A window is cut out at its corner and then mirrored left to right.
    """
    members, batch, height, width, _ = out.shape
    pixels = members * batch * height * width
    _augment[(triton.cdiv(pixels, 512),)](
        images, order, corner, flip, step, mean, deviation, out, pixels, order.shape[1], batch,
        CHANNELS=images.shape[3], HEIGHT=height, WIDTH=width, PADDED_HEIGHT=images.shape[1],
        PADDED_WIDTH=images.shape[2], STORED=IMAGE_CHANNELS, BLOCK=512,
    )  # fmt: skip


@triton.jit
def _augment(
    images, order, corner, flip, step, mean, deviation, out, pixels, steps, batch,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, PADDED_HEIGHT: tl.constexpr,
    PADDED_WIDTH: tl.constexpr, STORED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pixel, channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STORED)
    present = pixel < pixels
    example = pixel // (HEIGHT * WIDTH)
    draw = (example // batch * steps + tl.load(step)) * batch + example % batch
    column = pixel % WIDTH
    mirrored = tl.load(flip + draw, mask=present, other=0) != 0
    column = tl.where(mirrored, WIDTH - 1 - column, column)
    column += tl.load(corner + 2 * draw + 1, mask=present, other=0).to(tl.int32)
    row = pixel // WIDTH % HEIGHT + tl.load(corner + 2 * draw, mask=present, other=0).to(tl.int32)
    image = tl.load(order + draw, mask=present, other=0).to(tl.int64)
    real = channel < CHANNELS
    place = ((image * PADDED_HEIGHT + row) * PADDED_WIDTH + column)[:, None] * CHANNELS + channel[None, :]
    raw = tl.load(images + place, mask=present[:, None] & real[None, :], other=0)
    centre = tl.load(mean + channel, mask=real, other=0.0)
    spread = tl.load(deviation + channel, mask=real, other=1.0)
    value = (raw.to(tl.float32) - centre[None, :]) / spread[None, :]
    value = tl.where(real[None, :], value, 0.0)
    tl.store(
        out + pixel[:, None] * STORED + channel[None, :],
        value.to(out.dtype.element_ty),
        mask=present[:, None],
    )
