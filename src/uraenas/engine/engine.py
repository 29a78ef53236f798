"""Every decision about speed: device, precision, threads, own kernels, and whether a step is captured as a graph."""

import gc
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, require_not_negative, require_range, unknown
from uraenas.data.loader import Loader
from uraenas.engine.capture import GraphedStep
from uraenas.engine.folded import FoldedMember
from uraenas.engine.gradients import (
    Gradients,
    PlainGradients,
    PlainSearchGradients,
    SearchGradients,
    Wrapping,
)
from uraenas.engine.kernels import Kernels, kernels_for
from uraenas.engine.workers import Workers
from uraenas.spaces import Features, Space, Stack, Supernet

PREDICTION_BATCH = 500
READY_ON_A_GPU = 6  # stacks of ten: as many members as the methods of a table have
CACHED_PIXELS = 1 << 15  # of a batch on a CPU: maps of more do not stay in its caches
COPIES = 4  # of the parameters in a step: weights, velocity, gradient, next weights
DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "float32", "float64", "bfloat16")

# normalised images [N, C, H, W] → logits [M, N, K]
Predictor = Callable[[Tensor], Tensor]
# the same, and what each member sees
Tracer = Callable[[Tensor], tuple[Tensor, list[Features]]]


@dataclass(frozen=True)
class EngineSettings:
    """Where and how to compute. None of these changes what is computed, only how fast and with how many digits."""

    device: str = "auto"  # cpu, cuda, or auto: a GPU where there is one
    # of the network; auto: bfloat16 on a GPU that has it, float32 elsewhere and for tables
    precision: str = "auto"
    kernels: bool = True  # use own kernels, on a GPU only and where the networks fit them
    # the same bits in every run on one GPU also where own kernels do not fit; may be slower
    repeatable: bool = False
    stack: int = 10  # how many members are trained side by side
    checkpoint_seconds: float = 10.0  # at least this long between two checkpoints

    def __post_init__(self) -> None:
        if self.device == "gpu":  # spelled nearer to cpu than to what is meant
            raise UraenasError("unknown device 'gpu'. Did you mean 'cuda'? Allowed: auto, cpu, cuda.")
        if self.device not in DEVICES:
            raise unknown("device", self.device, DEVICES)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        require_range("stack", self.stack, 1, 1000)
        require_not_negative("checkpoint_seconds", self.checkpoint_seconds)


class Engine:
    """The device, the precision, and how a step is run on it."""

    def __init__(self, settings: EngineSettings) -> None:
        wanted = settings.device
        if wanted == "cuda" and not torch.cuda.is_available():
            raise UraenasError("engine.device = cuda, but PyTorch sees no CUDA device; use cpu or auto")
        cuda = wanted == "cuda" or (wanted == "auto" and torch.cuda.is_available())
        self.device = torch.device("cuda" if cuda else "cpu")
        precision = settings.precision
        if precision == "auto":
            precision = "bfloat16" if cuda and _has_bfloat16() else "float32"
        self.lowered = precision == "bfloat16"
        # Parameters, statistics and sampler stay in float32 or better, whatever the network computes in.
        self.dtype = torch.float64 if precision == "float64" else torch.float32
        self.stack = settings.stack
        if settings.repeatable:  # own kernels add in a fixed order anyway
            torch.backends.cudnn.deterministic = True
        self.wants_kernels = settings.kernels and self.lowered and cuda
        self.workers = None if cuda else Workers()

    def autocast(self) -> AbstractContextManager:
        """The context in which a network runs forward."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.lowered else nullcontext()

    def threads(self, pixels: int = 0) -> AbstractContextManager:
        """The context for a step on a CPU: one thread for each operation; more for a supernet on so many pixels."""
        return self.workers.threads(pixels) if self.workers else nullcontext()

    def why_no_kernels(self, space: Space) -> str:
        """Why networks of this space do not run on own kernels, where they were asked for; empty if they do."""
        return kernels_for(space)[1] if self.wants_kernels else ""

    def _kernels(self, space: Space, *loaders: Loader) -> Kernels | None:
        bytes_alone = all(loader.images.dtype == torch.uint8 for loader in loaders)
        return kernels_for(space)[0] if self.wants_kernels and bytes_alone else None

    @property
    def most_ready(self) -> int:
        """How many stacks may stay ready to predict: on a GPU each has maps of its own."""
        return READY_ON_A_GPU if self.device.type == "cuda" else sys.maxsize

    def predictor(
        self, stack: Stack, wrapping: Wrapping | None = None, share: float = 1.0
    ) -> tuple[Predictor, int]:
        """Logits of a stack in evaluation, and how many images it wants at a time, in this share of the free memory."""
        forward, drawn = (wrapping.forward, wrapping.draws) if wrapping else (None, ())
        if forward is None and stack.is_plain and (kernels := self._kernels(stack.space)):
            predictor = kernels.Predictor(stack, torch.bfloat16, share)
            return predictor, predictor.batch

        if self.workers is not None and forward is None:
            return self._side_by_side(self.folded(stack)), _cached_batch(stack.space)

        def of_members(members: range, images: Tensor) -> Tensor:
            own = [drawn[m] for m in members] if forward else ()
            # A worker's thread does not know that its caller wants none.
            with torch.no_grad(), self.autocast():
                logits = stack.run(members, stack.weights_of(members), images, forward, own)
                return logits.to(self.dtype)

        def predict(images: Tensor) -> Tensor:
            if self.workers is None:
                return of_members(range(len(stack)), images)
            with self.threads():
                parts = self.workers.each(lambda m: of_members(range(m, m + 1), images), range(len(stack)))
            return torch.cat(parts)

        return predict, PREDICTION_BATCH

    def tracer(
        self, stack: Stack, wrapping: Wrapping | None = None, share: float = 1.0
    ) -> tuple[Tracer, int]:
        """As `predictor`, with the same logits; own kernels give these alone, so PyTorch looks once more."""
        forward, drawn = (wrapping.forward, wrapping.draws) if wrapping else (None, ())
        own, batch = None, PREDICTION_BATCH
        if forward is None and stack.is_plain and self._kernels(stack.space):
            own, most = self.predictor(stack, share=share)
            batch = min(batch, most)

        ready = self.folded(stack) if self.workers is not None and forward is None else []
        batch = _cached_batch(stack.space) if ready else batch

        def of_member(m: int, images: Tensor) -> tuple[Tensor, Features]:
            with torch.no_grad(), self.autocast():
                if ready:
                    logits, seen = ready[m].trace(images)
                else:
                    logits, seen = stack.trace(m, images, forward, drawn[m] if forward else None)
            return logits.to(self.dtype), tuple(level.to(self.dtype) for level in seen)

        def trace(images: Tensor) -> tuple[Tensor, list[Features]]:
            members = range(len(stack))
            if self.workers is None:
                found = [of_member(m, images) for m in members]
            else:
                with self.threads():
                    found = self.workers.each(lambda m: of_member(m, images), members)
            logits = own(images) if own else torch.stack([one for one, _ in found])
            return logits, [seen for _, seen in found]

        return trace, batch

    def folded(self, stack: Stack) -> list[FoldedMember]:
        """The members as a CPU predicts with them: norms folded, weights with their channels innermost."""
        return [FoldedMember(*stack.named(m), stack.space) for m in range(len(stack))]

    def _side_by_side(self, members: list[FoldedMember]) -> Predictor:
        workers = self.workers
        assert workers is not None

        def of_member(m: int, images: Tensor) -> Tensor:
            with torch.no_grad(), self.autocast():
                return members[m].logits(images).to(self.dtype)

        def predict(images: Tensor) -> Tensor:
            with self.threads():
                return torch.stack(workers.each(lambda m: of_member(m, images), range(len(members))))

        return predict

    def gradients(self, stack: Stack, loader: Loader, wrapping: Wrapping) -> Gradients:
        """How a stack's losses and gradients are computed: by own kernels where they fit, else by PyTorch."""
        if wrapping.is_plain and (kernels := self._kernels(stack.space, loader)):
            return kernels.Gradients(stack, loader, torch.bfloat16, wrapping.smoothing)
        return PlainGradients(stack, loader, self, wrapping)

    def search_gradients(
        self, supernet: Supernet, loaders: tuple[Loader, Loader], hard: bool, parts: int = 1
    ) -> SearchGradients:
        """Likewise for the supernet. With `hard` mixing weights what has none does not run.

        Own kernels are for operations on all channels, not on one of several `parts`.
        """
        fits = loaders[0].batch == loaders[1].batch and parts == 1
        if fits and (kernels := self._kernels(supernet.space, *loaders)):
            return kernels.SearchGradients(supernet, loaders[0].batch, torch.bfloat16, hard)
        return PlainSearchGradients(supernet, self, hard, parts)

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        """The step as something fast to repeat: a captured graph on a GPU, the step itself on a CPU.

        The step must keep all its state in tensors that it changes in place.
        """
        return GraphedStep(step) if self.device.type == "cuda" else step

    @property
    def calls_to_capture(self) -> int:
        """How often a captured step is called before it is fast: eagerly, then to be captured. None on a CPU."""
        return GraphedStep.WARM_UP + 1 if self.device.type == "cuda" else 0

    def require_room(self, parameters: int) -> None:
        """Refuse networks that cannot fit: the system would end the process without a word."""
        needed = COPIES * parameters * self.dtype.itemsize
        if self.device.type == "cuda":
            available = torch.cuda.get_device_properties(self.device).total_memory
        else:
            available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > available:
            raise UraenasError(
                f"one network of {parameters:,} parameters needs {needed / 1e9:,.0f} GB and more, the {self.device} "
                f"has {available / 1e9:,.0f} GB; use fewer network.channels or network.cells"
            )

    def smaller_stack(self, size: int, error: torch.OutOfMemoryError) -> int:
        """How many members to try side by side after `size` did not fit into memory."""
        if size == 1:
            raise UraenasError(
                f"there is not enough memory on the {self.device} for one network; use a smaller batch or "
                "network.channels, or another engine.device"
            ) from error
        warnings.warn(
            f"{size} networks do not fit into memory side by side; going on with {size // 2}", stacklevel=2
        )
        return size // 2

    def release_memory(self) -> None:
        """Give back what a finished or failed stack held: it refers to itself, so it does not go by itself."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _has_bfloat16() -> bool:
    """Whether the GPU's matrix units take it: from Ampere on. PyTorch's own answer counts what is emulated."""
    return torch.cuda.get_device_capability() >= (8, 0)


def _cached_batch(space: Space) -> int:
    """How many images a CPU wants at a time."""
    return min(PREDICTION_BATCH, max(1, CACHED_PIXELS // (space.shape.height * space.shape.width)))
