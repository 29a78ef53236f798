"""Every decision about speed: device, precision, and whether a step is captured as a graph."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from uraenas.errors import UraenasError, unknown

PRECISIONS = ("auto", "float32", "float64", "bfloat16")


@dataclass(frozen=True)
class EngineSettings:
    """Where and how to compute. None of these changes what is computed, only how fast and with how many digits."""

    device: str = "auto"  # cpu, cuda, or auto: a GPU where there is one
    precision: str = "auto"  # of the network; auto: bfloat16 on a GPU, float32 elsewhere
    compile: bool = True  # fuse operations with torch.compile, on a GPU only
    stack: int = 10  # how many members are trained side by side
    checkpoint_seconds: float = 10.0  # at least this long between two checkpoints

    def __post_init__(self) -> None:
        if self.device not in ("auto", "cpu", "cuda"):
            raise unknown("device", self.device, ("auto", "cpu", "cuda"))
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if self.stack < 1:
            raise UraenasError(f"engine.stack = {self.stack} is out of range; it must be at least 1")
        if self.checkpoint_seconds < 0:
            raise UraenasError(
                f"engine.checkpoint_seconds = {self.checkpoint_seconds} is out of range; 0 or more"
            )


class Engine:
    """The device, the precision, and how a step is run on it."""

    def __init__(self, settings: EngineSettings) -> None:
        wanted = settings.device
        if wanted == "cuda" and not torch.cuda.is_available():
            raise UraenasError("device = cuda, but PyTorch sees no CUDA device; use device = cpu or auto")
        cuda = wanted == "cuda" or (wanted == "auto" and torch.cuda.is_available())
        self.device = torch.device("cuda" if cuda else "cpu")
        precision = settings.precision
        if precision == "auto":
            precision = "bfloat16" if cuda else "float32"
        self.lowered = precision == "bfloat16"
        # Parameters, statistics and sampler stay in float32 or better, whatever the network computes in.
        self.dtype = torch.float64 if precision == "float64" else torch.float32
        self.stack = settings.stack
        self.compiles = settings.compile and cuda

    def autocast(self) -> AbstractContextManager:
        """The context in which a network runs forward."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.lowered else nullcontext()

    def compile(self, network: nn.Module) -> Callable[..., Tensor]:
        """The network as something fast to call; on a CPU, the network itself."""
        return torch.compile(network, dynamic=False) if self.compiles else network

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        """The step as something fast to repeat: a captured graph on a GPU, the step itself on a CPU.

        The step must keep all its state in tensors that it changes in place.
        """
        return _GraphedStep(step) if self.device.type == "cuda" else step


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
        except RuntimeError as error:
            self.failed = True
            if not _GraphedStep._warned:
                _GraphedStep._warned = True
                warnings.warn(f"graph capture failed, steps run eagerly: {error}", stacklevel=2)
            self.step()
        else:
            self.graph = graph
            graph.replay()  # capture records the step without running it
