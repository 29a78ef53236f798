"""Networks on the GPU: forward and backward of all of them as a fixed sequence of kernel launches.

`Program` owns every buffer, so that its launches can be captured in one CUDA graph; `plan.py` says what is computed,
the other files here how. Channels are the last axis of every map.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.engine.kernels.cells import convolutions, norms, weights
from uraenas.engine.kernels.cells.head import Head
from uraenas.engine.kernels.cells.plan import make_plan
from uraenas.engine.kernels.cells.rows import IMAGE_CHANNELS, Cell, Span, Stage
from uraenas.engine.kernels.cells.tables import table
from uraenas.engine.kernels.cells.tuning import Grouping, Tuning, grouping, tuned
from uraenas.engine.kernels.cells.wiring import FACTORS, Wiring
from uraenas.spaces.cells import Skeleton, edges
from uraenas.spaces.cells.blocks import EPSILON
from uraenas.spaces.cells.skeleton import STAGES
from uraenas.spaces.layout import MOMENTUM

SPLITS = 256  # at most so many partial sums of one statistic
PASSAGE_SPLITS = 64  # so many of a passage


ELEMENTS = 4096  # of a block in kernels that only pass over maps
PROGRAMS = 4096  # to launch at once where that is free to choose
WEIGHT_PROGRAMS = 2048  # likewise for weight gradients, whose partial sums are large


@dataclass(frozen=True)
class _Reading:
    """How convolutions read their inputs: from which maps, of how many channels, and what is done on the way."""

    maps: Tensor
    channels: int
    stride: int = 1
    rectify: bool = True
    pooled: bool = False  # 2×2 averages, as in the shortcut of a residual block

    @property
    def reach(self) -> int:
        return 2 if self.pooled else 3

    def form(self, kernel: str, outputs: int) -> Grouping:
        return grouping(kernel, outputs, self.stride, self.channels == IMAGE_CHANNELS)


class _StageBuffers:
    """The arena, tables and per-edge numbers of one stage."""

    def __init__(
        self, stage: Stage, batch: int, dtype: torch.dtype, device: torch.device, terms: tuple[int, int]
    ) -> None:
        self.stage, self.channels = stage, stage.channels
        self.pixels = batch * stage.height * stage.width
        shape = (stage.maps, batch, stage.height, stage.width, stage.channels)
        self.maps = torch.zeros(shape, dtype=dtype, device=device)
        self.reading = _Reading(self.maps, stage.channels)  # of convolutions in cells
        self.edges = table(stage.edges, device)
        self.sums = table(stage.sums, device, terms[0])
        self.sources = table(stage.sources, device, terms[1]) if stage.sources else self.sums
        self.passages = table(stage.passages, device)
        self.passage_sums = torch.zeros(len(stage.passages), PASSAGE_SPLITS, 2, device=device)
        self.order = torch.tensor(stage.order, dtype=torch.int64, device=device)
        self.norms = torch.zeros(len(stage.edges), 4, stage.channels, device=device)
        self.slopes = torch.zeros(len(stage.edges), 3, stage.channels, device=device)


class Program:
    """Forward and backward of M networks of one skeleton, for batches of one size.

    `forward` and `backward` work on explicit flat vectors of the wirings' layouts, and on buffers of this object: the
    images to run on are written to `images` [M, N, H, W, 4], factors of what is mixed to `mixing`, the gradient is
    left in `gradient`. A program that `skips` does not run what has the factor 0; the gradient of such a convolution's
    weight is 0, that of its norm is whatever it was. One that does not learn has no room for gradients.
    """

    def __init__(
        self,
        wirings: Sequence[Wiring],
        skeleton: Skeleton,
        batch: int,
        device: torch.device | str,
        dtype: torch.dtype,
        momentum: float = MOMENTUM,
        skips: bool = False,
        learns: bool = True,
    ) -> None:
        self.wirings, self.skeleton, self.batch, self.momentum = wirings, skeleton, batch, momentum
        self.skips = skips
        self.device, self.dtype = torch.device(device), dtype
        self.nodes = wirings[0].nodes
        self.sum_terms, self.source_terms = _most_terms(wirings)
        self.splits = [self._weight_splits(number) for number in range(STAGES)]
        self.plan = make_plan(wirings, skeleton, self.splits)
        terms = self.sum_terms, self.source_terms
        self.stages = [_StageBuffers(stage, batch, dtype, self.device, terms) for stage in self.plan.stages]
        # The first stays 1.
        self.mixing = torch.ones(1 + FACTORS * len(edges(self.nodes)), device=self.device)
        shape = (len(wirings), batch, skeleton.height, skeleton.width, IMAGE_CHANNELS)
        self.images = torch.zeros(shape, dtype=dtype, device=self.device)
        self.packs = table(self.plan.packs, self.device)
        self.packed = torch.zeros(self.plan.packed_size, dtype=dtype, device=self.device)
        self.weight_partials = torch.zeros(self.plan.partial_size if learns else 0, device=self.device)
        most = max(max(PROGRAMS, len(stage.edges)) * stage.channels for stage in self.plan.stages)
        self.partials = torch.zeros(4 * most, device=self.device)  # two sums for each of up to two pixels
        self.gradient = torch.zeros(0, device=self.device)  # of the weights; sized by the first forward
        self._weights = self.gradient
        last = self.stages[-1]
        self._head = Head(self.plan, skeleton, batch, last.maps)

    def _tuning(self, kernel: str, channels: int) -> Tuning:
        """Float32 is for checking only; small blocks keep its compilation short."""
        return tuned(kernel, channels) if self.dtype != torch.float32 else Tuning(32, 4, 1)

    def _weight_splits(self, number: int) -> int:
        """How many parts a weight gradient's sum over pixels is cut into: enough to fill the device."""
        channels = self.skeleton.channels * 2**number
        form = grouping("weight_gradient", channels, 1)
        groups = self.batch * self.skeleton.height * self.skeleton.width // 4**number // form.group
        blocks = math.ceil(groups / self._tuning("weight_gradient", channels).block)
        parts = 1 if form.steps(3) == 3 else form.steps(3)  # programs that share one edge's taps
        wanted = max(1, min(blocks, WEIGHT_PROGRAMS // (4 * parts * len(self.wirings))))
        return 1 << (wanted.bit_length() - 1)  # a power of two, as the number of blocks mostly is

    # -- forward ---------------------------------------------------------------------------------------------------

    def put_images(self, images: Tensor) -> None:
        """Copy normalised images [M, N, C, H, W] or [N, C, H, W] to the buffer that `forward` reads."""
        channels_last = images.movedim(-3, -1)
        self.images[..., : channels_last.shape[-1]].copy_(channels_last.expand(*self.images.shape[:-1], -1))

    def forward(self, flat_weights: Tensor, statistics: Tensor, training: bool) -> Tensor:
        """Logits [M, N, K]; in training batch statistics are used, and the running ones move."""
        self._weights, self._statistics, self._training = flat_weights.detach(), statistics, training
        if training and self.gradient.numel() != flat_weights.numel():
            self.gradient = torch.zeros_like(flat_weights, requires_grad=False)
        weights.pack[len(self.plan.packs), 4](
            self._weights, self.packed, self.packs, self.mixing, SKIPS=self.skips, BLOCK=1024
        )  # fmt: skip
        if not training:
            for buffers in self.stages:
                self._finish(buffers, Span(0, len(buffers.stage.edges)), splits=1, group=1)
        for number, buffers in enumerate(self.stages):
            self._enter(number)
            for cell in buffers.stage.cells:
                for node in range(self.nodes - 1):
                    self._convolve(buffers, buffers.reading, cell.leaving[node])
                    self._combine(buffers, cell.sums[node])
        return self._head.forward(self._weights, statistics, training)

    def _enter(self, number: int) -> None:
        """Stem, or residual block."""
        buffers = self.stages[number]
        entry = buffers.stage.entry
        readings = self._entry_readings(number)
        for part, reading in enumerate(readings):
            self._convolve(buffers, reading, entry.leaving[part])
            if part != 1:  # a residual block's second convolution waits for the shortcut
                self._combine(buffers, entry.sums[part // 2])

    def _entry_readings(self, number: int) -> list[_Reading]:
        """Of the stem's convolution, or of a residual block's first, second and shortcut."""
        if number == 0:
            return [_Reading(self.images, IMAGE_CHANNELS, rectify=False)]
        before = self.stages[number - 1]
        return [
            _Reading(before.maps, before.channels, stride=2),
            self.stages[number].reading,
            _Reading(before.maps, before.channels, stride=2, rectify=False, pooled=True),
        ]

    def _convolve(self, buffers: _StageBuffers, reading: _Reading, span: Span) -> None:
        if span.count == 0:
            return
        stage, channels = buffers.stage, buffers.channels
        tuning, form = self._tuning("convolve", channels), reading.form("convolve", channels)
        splits, each = _runs(buffers.pixels // form.group, tuning.block, span.count, SPLITS // form.group)
        normed = self._training and not reading.pooled
        convolutions.convolve[span.count, splits](
            reading.maps, buffers.maps, self.packed, self._statistics, self.partials, self.mixing, buffers.edges,
            span.first, buffers.pixels, each, HEIGHT=stage.height, WIDTH=stage.width, STRIDE=reading.stride,
            INPUTS=reading.channels, OUTPUTS=channels, GROUP=form.group, SPAN=form.span, REACH=reading.reach,
            RECTIFY=reading.rectify,
            NORMED=normed, SKIPS=self.skips, BLOCK=tuning.block,
            EXACT=buffers.pixels == splits * each * tuning.block * form.group,
            num_warps=tuning.warps, num_stages=tuning.stages,
        )  # fmt: skip
        if normed:
            self._finish(buffers, span, splits, form.group)

    def _finish(self, buffers: _StageBuffers, span: Span, splits: int, group: int) -> None:
        norms.finish_statistics[span.count,](
            self.partials, buffers.norms, self._weights, self._statistics, self.mixing, buffers.edges, span.first,
            splits, buffers.pixels, self.momentum, EPSILON,
            CHANNELS=buffers.channels, GROUP=group, SPLITS=SPLITS, TRAINING=self._training, SKIPS=self.skips,
            num_warps=8,
        )  # fmt: skip

    def _combine(self, buffers: _StageBuffers, span: Span) -> None:
        if span.count == 0:
            return
        stage, block = buffers.stage, ELEMENTS // buffers.channels
        norms.combine[span.count, math.ceil(buffers.pixels / block)](
            buffers.maps, buffers.norms, self.mixing, buffers.sums, span.first, buffers.pixels,
            HEIGHT=stage.height, WIDTH=stage.width, CHANNELS=buffers.channels, TERMS=self.sum_terms,
            SKIPS=self.skips, BLOCK=block, num_warps=4,
        )  # fmt: skip

    # -- backward --------------------------------------------------------------------------------------------------

    def backward(self, logits_gradient: Tensor, frozen: bool = False) -> Tensor:
        """The gradient of the flat weights, given that of the logits of the last training `forward`.

        With `frozen` weights only norms get theirs, and passages their sums.
        """
        self._frozen = frozen
        self._head.backward(logits_gradient, self.gradient)
        for number in reversed(range(STAGES)):
            buffers = self.stages[number]
            for cell in reversed(buffers.stage.cells):
                self._cell_backward(buffers, cell)
            self._leave(number)
        if frozen:
            return self.gradient
        weights.unpack_gradient[len(self.plan.packs), 8](
            self.weight_partials, self.gradient, self.packs, self.mixing, SKIPS=self.skips, BLOCK=512
        )  # fmt: skip
        return self.gradient

    def _cell_backward(self, buffers: _StageBuffers, cell: Cell) -> None:
        for node in reversed(range(self.nodes - 1)):
            self._norm_backward(buffers, cell.arriving[node])
            self._input_gradient(buffers, buffers, cell.sources[node])
        self._weight_gradient(buffers, buffers.reading, cell.edges)
        if self._frozen:
            self._sum_passages(buffers, cell.passages)

    def _leave(self, number: int) -> None:
        """Backward through the residual block or the stem."""
        buffers = self.stages[number]
        entry = buffers.stage.entry
        if number > 0:
            self._norm_backward(buffers, entry.arriving[1])
            self._input_gradient(buffers, buffers, entry.sources[0])
        self._norm_backward(buffers, entry.arriving[0])
        if number > 0:
            self._input_gradient(buffers, self.stages[number - 1], entry.sources[1], stride=2)
        for reading, span in zip(self._entry_readings(number), entry.leaving, strict=True):
            self._weight_gradient(buffers, reading, span)

    def _norm_backward(self, buffers: _StageBuffers, span: Span) -> None:
        if span.count == 0:
            return
        channels, block = buffers.channels, ELEMENTS // buffers.channels
        splits, each = _runs(buffers.pixels, block // 2, span.count, SPLITS)
        norms.sum_gradients[span.count, splits](
            buffers.maps, buffers.norms, self.partials, self.mixing, buffers.edges, buffers.order, span.first,
            buffers.pixels, each, CHANNELS=channels, SKIPS=self.skips, BLOCK=block // 2, num_warps=4,
        )  # fmt: skip
        norms.finish_gradients[span.count,](
            self.partials, buffers.norms, buffers.slopes, self._weights, self.gradient, self.mixing, buffers.edges,
            buffers.order, span.first, splits, buffers.pixels, CHANNELS=channels, SPLITS=SPLITS, SKIPS=self.skips,
            num_warps=8,
        )  # fmt: skip
        norms.apply_gradients[span.count, math.ceil(buffers.pixels / block)](
            buffers.maps, buffers.slopes, self.mixing, buffers.edges, buffers.order, span.first, buffers.pixels,
            CHANNELS=channels, SKIPS=self.skips, BLOCK=block, num_warps=4,
        )  # fmt: skip

    def _sum_passages(self, buffers: _StageBuffers, span: Span) -> None:
        if span.count == 0:
            return
        stage, block = buffers.stage, ELEMENTS // buffers.channels // 4
        norms.sum_passages[span.count, PASSAGE_SPLITS](
            buffers.maps, buffers.passage_sums, self.mixing, buffers.passages, span.first, buffers.pixels,
            math.ceil(buffers.pixels / (block * PASSAGE_SPLITS)), HEIGHT=stage.height, WIDTH=stage.width,
            CHANNELS=buffers.channels, SKIPS=self.skips, BLOCK=block, num_warps=4,
        )  # fmt: skip

    def _input_gradient(
        self, buffers: _StageBuffers, target: _StageBuffers, span: Span, stride: int = 1
    ) -> None:
        """Gradients of nodes of `target`, whose edges lead to `buffers` (another stage if stride is 2)."""
        if span.count == 0:
            return
        tuning = self._tuning("input_gradient", target.channels)
        form = grouping("input_gradient", buffers.channels, stride)
        run = tuning.block * tuning.run * form.group  # pixels of a program
        convolutions.input_gradient[span.count, math.ceil(target.pixels / run)](
            target.maps, buffers.maps, target.maps, self.packed, self.mixing, buffers.edges, buffers.sources,
            span.first, target.pixels, HEIGHT=target.stage.height, WIDTH=target.stage.width, STRIDE=stride,
            INPUTS=target.channels, OUTPUTS=buffers.channels, GROUP=form.group, SPAN=form.span,
            TERMS=self.source_terms, SKIPS=self.skips, BLOCK=tuning.block, RUN=tuning.run,
            EXACT=target.pixels % run == 0,
            num_warps=tuning.warps, num_stages=tuning.stages,
        )  # fmt: skip

    def _weight_gradient(self, buffers: _StageBuffers, reading: _Reading, span: Span) -> None:
        if span.count == 0 or self._frozen:
            return
        stage, channels, reach = buffers.stage, buffers.channels, reading.reach
        tuning = self._tuning("weight_gradient", channels)
        form = reading.form("weight_gradient", channels)
        splits = self.splits[self.stages.index(buffers)]
        each = math.ceil(buffers.pixels / (form.group * tuning.block * splits))
        convolutions.weight_gradient[span.count, 1 if form.steps(reach) == 3 else form.steps(reach), splits](
            reading.maps, buffers.maps, self.weight_partials, self.mixing, buffers.edges, span.first,
            buffers.pixels, each, HEIGHT=stage.height, WIDTH=stage.width, STRIDE=reading.stride,
            INPUTS=reading.channels, OUTPUTS=channels, GROUP=form.group, SPAN=form.span, REACH=reach,
            RECTIFY=reading.rectify, SKIPS=self.skips, BLOCK=tuning.block,
            EXACT=buffers.pixels == splits * each * tuning.block * form.group,
            num_warps=tuning.warps, num_stages=tuning.stages,
        )  # fmt: skip


def _most_terms(wirings: Sequence[Wiring]) -> tuple[int, int]:
    """How much room a sum needs for what arrives at a node, and a source for what passes along its edges."""
    degree = wirings[0].nodes - 1
    if any(wiring.mixed for wiring in wirings):
        kernels = max(len(leaving) for wiring in wirings for leaving in wiring.convolutions)
        return (kernels + 2) * degree, 2 * degree
    return max(2, degree), degree  # a residual block's node has two


def _runs(length: int, block: int, rows: int, most: int) -> tuple[int, int]:
    """How many programs (at most `most`) share one row's blocks, and how many blocks each takes."""
    blocks = math.ceil(length / block)
    each = math.ceil(blocks / max(1, min(most, PROGRAMS // rows)))
    while blocks % each and each < blocks:  # even runs, where there are any, need no masks
        each += 1
    return math.ceil(blocks / each), each
