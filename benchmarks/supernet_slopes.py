"""How far the supernet's slopes are from float64, by way of computing them, on this machine.

    python benchmarks/supernet_slopes.py [--device cuda]

Relative errors ‖found − exact‖ / ‖exact‖ of the slopes of θ and of the weights, fresh weights and one random batch of
64. The last row undoes what `spaces.cells.blocks.pool` does, to see whether that is still needed.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.architectures import dirichlet
from uraenas.base import draws
from uraenas.engine.kernels import kernels_for
from uraenas.spaces import CellSpace, Shape, Supernet
from uraenas.spaces.cells import blocks

BATCH = 64
Slopes = tuple[Tensor, Tensor]


class Problem:
    """A supernet, one θ and one batch."""

    def __init__(self, space: CellSpace, device: torch.device) -> None:
        self.space, self.device = space, device
        self.supernet = Supernet(space).to(device)
        self.supernet.initialise(3)
        uniform = torch.ones(len(space.decisions), len(space.operations))
        self.mixing = dirichlet.sample(uniform, draws.at(3, 0)).to(device)
        shape = space.shape
        numbers = draws.normal(draws.at(5, 0), BATCH * shape.height * shape.width * shape.channels)
        images = numbers.view(BATCH, shape.height, shape.width, shape.channels)
        self.images = images.to(device).movedim(-1, 1)  # channels innermost, as a loader on a GPU gives them
        self.labels = (torch.arange(BATCH) % shape.classes).to(device)

    def plain(self, dtype: torch.dtype, lowered: bool = False) -> Slopes:
        """By PyTorch's own operations."""
        supernet = Supernet(self.space).to(self.device, dtype)
        with torch.no_grad():
            supernet.weights.copy_(self.supernet.weights)
        mixing = self.mixing.clone().requires_grad_()
        with torch.autocast(self.device.type, torch.bfloat16) if lowered else nullcontext():
            logits = supernet(self.images.to(dtype), mixing)
        loss = F.cross_entropy(logits.to(dtype), self.labels)
        of_mixing, of_weights = torch.autograd.grad(loss, (mixing, supernet.weights))
        return of_mixing, of_weights

    def own(self, dtype: torch.dtype) -> Slopes:
        """By own kernels."""
        from uraenas.engine.kernels.cells.supernet import SupernetProgram  # needs Triton

        program = SupernetProgram(self.space.cell, self.space.skeleton, BATCH, self.device, dtype)
        program.put_images(self.images)

        def slope() -> Tensor:
            logits = program.run(self.supernet.weights, self.mixing).requires_grad_()
            return torch.autograd.grad(F.cross_entropy(logits[0], self.labels), logits)[0]

        of_mixing = program.mixing_gradient(slope())
        return of_mixing, program.backward(slope())[: len(self.supernet.weights)]


@contextmanager
def pool_as_it_lies() -> Iterator[None]:
    """The pool without the copy to channels outermost."""
    kept = blocks.pool
    blocks.pool = lambda x: F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
    try:
        yield
    finally:
        blocks.pool = kept


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(parser.parse_args().device)
    small = CellSpace(cells=1, shape=Shape(16, 16))
    problem = Problem(CellSpace() if device.type == "cuda" else small, device)
    exact = problem.plain(torch.float64)
    ways: dict[str, Callable[[], Slopes]] = {
        "PyTorch, float32": lambda: problem.plain(torch.float32),
        "PyTorch, bfloat16": lambda: problem.plain(torch.float32, lowered=True),
    }
    if device.type == "cuda" and kernels_for(problem.space)[0]:
        ways["own kernels, float32"] = lambda: problem.own(torch.float32)
        ways["own kernels, bfloat16"] = lambda: problem.own(torch.bfloat16)
    for name, way in ways.items():
        show(name, way(), exact)
    with pool_as_it_lies():
        show("PyTorch, float32, pool as PyTorch lays it out", ways["PyTorch, float32"](), exact)


def show(name: str, found: Slopes, exact: Slopes) -> None:
    errors = [float((a.double() - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]
    print(f"{name:46} θ {errors[0]:.2e}   weights {errors[1]:.2e}", flush=True)


if __name__ == "__main__":
    main()
