"""All there is of CUDA graphs: a step as something fast to repeat."""

import warnings
from collections.abc import Callable

import torch

from uraenas.engine.memory import is_want_of_memory


class GraphedStep:
    """Runs eagerly three times, as capture demands, and then replays a graph of the whole step.

    The step must keep all its state in tensors that it changes in place.
    """

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
            if is_want_of_memory(error):
                raise  # eager steps would want as much: whoever called can do with less
            self.failed = True
            if not GraphedStep._warned:
                GraphedStep._warned = True
                warnings.warn(f"graph capture failed, steps run eagerly: {error}", stacklevel=2)
            self.step()
        else:
            self.graph = graph
            graph.replay()  # capture records the step without running it
