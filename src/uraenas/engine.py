"""Every decision about speed: device, precision, own kernels, and whether a step is captured as a graph."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.data.loader import EpochDraws, Loader
from uraenas.errors import UraenasError, require_not_negative, require_range, unknown
from uraenas.kernels import available
from uraenas.networks import Stack, Supernet

PREDICTION_BATCH = 500
COPIES = 4  # of the parameters in a step: weights, velocity, gradient, next weights
PRECISIONS = ("auto", "float32", "float64", "bfloat16")


@dataclass(frozen=True)
class EngineSettings:
    """Where and how to compute. None of these changes what is computed, only how fast and with how many digits."""

    device: str = "auto"  # cpu, cuda, or auto: a GPU where there is one
    precision: str = "auto"  # of the network; auto: bfloat16 on a GPU, float32 elsewhere
    kernels: bool = True  # use own kernels, on a GPU only and where the networks fit them
    repeatable: bool = (
        False  # the same bits in every run on one GPU also where own kernels do not fit; may be slower
    )
    stack: int = 10  # how many members are trained side by side
    checkpoint_seconds: float = 10.0  # at least this long between two checkpoints

    def __post_init__(self) -> None:
        if self.device not in ("auto", "cpu", "cuda"):
            raise unknown("device", self.device, ("auto", "cpu", "cuda"))
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        require_range("engine.stack", self.stack, 1, 1000)
        require_not_negative("engine.checkpoint_seconds", self.checkpoint_seconds)


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
            precision = "bfloat16" if cuda else "float32"
        self.lowered = precision == "bfloat16"
        # Parameters, statistics and sampler stay in float32 or better, whatever the network computes in.
        self.dtype = torch.float64 if precision == "float64" else torch.float32
        self.stack = settings.stack
        if settings.repeatable:  # own kernels add in a fixed order anyway
            torch.backends.cudnn.deterministic = True
        self.kernels = settings.kernels and self.lowered and available(self.device)

    def autocast(self) -> AbstractContextManager:
        """The context in which a network runs forward."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.lowered else nullcontext()

    def predictor(self, stack: Stack) -> tuple[Callable[[Tensor], Tensor], int]:
        """Normalised images [N, C, H, W] → logits [M, N, K] of a stack in evaluation, and the N it wants."""
        if self.kernels:
            from uraenas.kernels.prediction import KernelPredictor
            from uraenas.kernels.stack import fits

            if fits(stack.skeleton):
                predictor = KernelPredictor(stack, torch.bfloat16)
                return predictor, predictor.batch

        def predict(images: Tensor) -> Tensor:
            with self.autocast():
                return stack(images).to(self.dtype)

        return predict, PREDICTION_BATCH

    def gradients(self, stack: Stack, loader: Loader) -> "Gradients":
        """How a stack's losses and gradients are computed: by own kernels where they fit, else by PyTorch."""
        if self.kernels and loader.images.dtype == torch.uint8:
            from uraenas.kernels.stack import fits  # needs Triton, which a CPU does not have
            from uraenas.kernels.training import KernelGradients

            if fits(stack.skeleton):
                return KernelGradients(stack, loader, torch.bfloat16)
        return PlainGradients(stack, loader, self)

    def search_gradients(self, supernet: Supernet, loaders: tuple[Loader, Loader]) -> "SearchGradients":
        """Likewise for the supernet."""
        batch = loaders[0].batch
        if self.kernels and all(
            loader.images.dtype == torch.uint8 and loader.batch == batch for loader in loaders
        ):
            from uraenas.kernels.stack import fits
            from uraenas.kernels.training import KernelSearchGradients

            if fits(supernet.skeleton):
                return KernelSearchGradients(supernet, batch, torch.bfloat16)
        return PlainSearchGradients(supernet, self)

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        """The step as something fast to repeat: a captured graph on a GPU, the step itself on a CPU.

        The step must keep all its state in tensors that it changes in place.
        """
        return _GraphedStep(step) if self.device.type == "cuda" else step

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


def is_want_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: PyTorch has a type of its own for a GPU's, and none for a CPU's."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)


@contextmanager
def naming_want_of_memory() -> Iterator[None]:
    """A CPU's want of memory gets the type that PyTorch has for a GPU's."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, torch.OutOfMemoryError) or not is_want_of_memory(error):
            raise
        raise torch.OutOfMemoryError(str(error)) from error


# (draws of an epoch, place in it) → losses [M], flat gradient of their sum
Gradients = Callable[[EpochDraws, Tensor], tuple[Tensor, Tensor]]


class PlainGradients:
    """Losses and gradients by PyTorch's own operations."""

    def __init__(self, stack: Stack, loader: Loader, engine: Engine) -> None:
        self.stack, self.loader, self.engine = stack, loader, engine

    def __call__(self, drawn: EpochDraws, position: Tensor) -> tuple[Tensor, Tensor]:
        images, labels_MN, weights_MN = self.loader.batch_at(drawn, position)
        with self.engine.autocast():
            logits_MNK = self.stack(images)
        losses_M = _mean_losses(logits_MNK.to(self.engine.dtype), labels_MN, weights_MN)
        (gradient,) = torch.autograd.grad(losses_M.sum(), self.stack.weights)
        return losses_M.detach(), gradient


class SearchGradients(Protocol):
    """(loader, draws of an epoch, place in it, θ) → loss, and its slope."""

    def begin_epoch(self) -> None:
        """Forget everything that a resumed search would not know."""

    def of_mixing(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]: ...

    def of_weights(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]: ...


class PlainSearchGradients:
    """The supernet's losses and slopes by PyTorch's own operations."""

    def __init__(self, supernet: Supernet, engine: Engine) -> None:
        self.supernet, self.engine = supernet, engine

    def begin_epoch(self) -> None:
        """Nothing is kept from step to step."""

    def of_mixing(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]:
        mixing = mixing.detach().requires_grad_()
        loss = self._loss(loader, drawn, position, mixing, frozen=True)
        (slope,) = torch.autograd.grad(loss, mixing)
        return loss.detach(), slope

    def of_weights(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]:
        loss = self._loss(loader, drawn, position, mixing.detach(), frozen=False)
        (gradient,) = torch.autograd.grad(loss, self.supernet.weights)
        return loss.detach(), gradient

    def _loss(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor, frozen: bool
    ) -> Tensor:
        (images,), labels_MN, weights_MN = loader.batch_at(drawn, position)
        if not images.is_cuda:
            images = images.contiguous()  # most of a supernet is sums of slices, faster so on a CPU
        with self.engine.autocast():
            logits_NK = self.supernet(images, mixing, frozen)
        return _mean_losses(logits_NK.to(self.supernet.weights.dtype)[None], labels_MN, weights_MN)[0]


def _mean_losses(logits_MNK: Tensor, labels_MN: Tensor, weights_MN: Tensor | None) -> Tensor:
    losses_MN = F.cross_entropy(logits_MNK.movedim(2, 1), labels_MN, reduction="none")
    return (losses_MN if weights_MN is None else losses_MN * weights_MN).mean(dim=1)


class _GraphedStep:
    """Runs eagerly three times, as capture demands, and then replays a graph of the whole step."""

    WARM_UP = 3
    _warned = False

    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.failed = False
        self.stream = torch.cuda.Stream()

    def __call__(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        elif self.failed:
            self.step()
        elif self.calls < self.WARM_UP:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.step()
            torch.cuda.current_stream().wait_stream(self.stream)
        else:
            self._capture()
        self.calls += 1

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.step()
        except torch.OutOfMemoryError:
            raise  # eager steps would want as much: whoever called can do with less
        except RuntimeError as error:
            self.failed = True
            if not _GraphedStep._warned:
                _GraphedStep._warned = True
                warnings.warn(f"graph capture failed, steps run eagerly: {error}", stacklevel=2)
            self.step()
        else:
            self.graph = graph
            graph.replay()  # capture records the step without running it
