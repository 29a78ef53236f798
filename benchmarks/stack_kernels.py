"""How fast own kernels train a stack of different genotypes: checks, times and tunes on one GPU.

python benchmarks/stack_kernels.py check     compare with the plain stack in float32 and bfloat16
python benchmarks/stack_kernels.py kernels   time each kernel of a step
python benchmarks/stack_kernels.py tune      time block sizes, warps and loads in flight, kernel by kernel
python benchmarks/stack_kernels.py steps     time whole captured steps over the number of members
python benchmarks/stack_kernels.py plain     time a step of one network, neither captured nor lowered
python benchmarks/stack_kernels.py survey    all but the first; docs/performance.md quotes it
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from random_stack import (
    BATCH,
    KINDS,
    READY,
    captured_stack,
    convolution_counts,
    genotypes,
    milliseconds,
    stack_of,
)
from torch import Tensor

from uraenas.base import draws
from uraenas.engine import Engine, EngineSettings
from uraenas.engine.kernels.cells import convolutions, norms, weights
from uraenas.engine.kernels.cells.stack import StackProgram
from uraenas.engine.kernels.cells.tuning import TUNINGS, Tuning
from uraenas.spaces import CellSpace, Genotype, Stack

DEVICE = torch.device("cuda")
SPACE = CellSpace()
MEMBERS = 10  # where their number is not what is asked
VARIANTS = [(64, 4, 1), (64, 4, 2), (128, 4, 1), (128, 4, 2), (64, 4, 1, 4), (64, 4, 2, 4)]
TUNED = ("convolve", "input_gradient", "weight_gradient")


# The same numbers


def check() -> None:
    """Relative errors of own kernels, and of the plain stack in the same precision, against float64."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    for kind, members, batch, cells, dtype in (
        ("uniform", 3, 4, 1, torch.float32),
        ("uniform", 4, 64, 5, torch.float32),
        ("likely", 4, 256, 5, torch.bfloat16),
    ):
        problem = Problem(genotypes(kind, members, SPACE), CellSpace(cells=cells), batch)
        exact = problem.plain(torch.float64)
        found = {"plain": problem.plain(torch.float32, dtype == torch.bfloat16), "own": problem.own(dtype)}
        for name, values in found.items():
            errors = ", ".join(
                f"{what} {float((values[what] - exact[what]).norm() / exact[what].norm()):.1e}"
                for what in exact
            )
            print(f"{kind} M={members} N={batch} cells={cells} {dtype} {name}: {errors}", flush=True)


class Problem:
    """Fresh members, smooth images with a little noise, and a slope of their logits."""

    def __init__(self, chosen: Sequence[Genotype], space: CellSpace, batch: int) -> None:
        self.chosen, self.space, self.batch = chosen, space, batch
        members, shape = len(chosen), space.shape
        coarse = torch.randn(members * batch, shape.channels, 8, 8, device=DEVICE)
        smooth = F.interpolate(coarse, size=(shape.height, shape.width), mode="bilinear")
        images = smooth.view(members, batch, *smooth.shape[1:])
        self.images = images + 0.1 * torch.randn_like(images)
        self.slope = torch.randn(members, batch, shape.classes, device=DEVICE) / batch

    def plain(self, dtype: torch.dtype, lowered: bool = False) -> dict[str, Tensor]:
        """By PyTorch's own operations."""
        network, images = self._network(dtype), self.images.to(dtype)
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=lowered):
            logits = network(images)
        (gradient,) = torch.autograd.grad(logits, network.weights, self.slope.to(logits.dtype))
        network.eval()
        with torch.no_grad(), torch.autocast(DEVICE.type, torch.bfloat16, enabled=lowered):
            prediction = network(images)
        return _doubles(logits, gradient, network.statistics, prediction)

    def own(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """By own kernels, which give the same bits when they are asked again."""
        network = self._network(torch.float32)
        flat, running, fresh = network.weights, network.statistics, network.statistics.clone()
        program = StackProgram(self.chosen, self.space.skeleton, self.batch, DEVICE, dtype)
        logits = program(flat, running, self.images, True)
        (gradient,) = torch.autograd.grad(logits, flat, self.slope)
        (again,) = torch.autograd.grad(program(flat, fresh, self.images, True), flat, self.slope)
        print("    repeated:", "same bits" if torch.equal(again, gradient) else "OTHER BITS")
        return _doubles(logits, gradient, running, program(flat, running, self.images, False))

    def _network(self, dtype: torch.dtype) -> Stack:
        network = Stack(self.chosen, self.space)
        network.initialise([draws.key(0, "weights", m) for m in range(len(self.chosen))])
        return network.to(DEVICE, dtype)


def _doubles(*values: Tensor) -> dict[str, Tensor]:
    names = ("logits", "gradient", "statistics", "prediction")
    return {name: value.detach().double().clone() for name, value in zip(names, values, strict=True)}


# Kernel by kernel


def kernels(kind: str) -> None:
    """Time per step of each kernel and width: a replayed graph's kernels, matched in order with their launches."""
    stack = stack_of(genotypes(kind, MEMBERS, SPACE), SPACE, _engine())
    with labelled_launches() as labels:
        stack.one_step()  # the first is not captured
    for _ in range(READY):
        stack.one_step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        stack.one_step()
        torch.cuda.synchronize()
    events = sorted((e for e in profile.events() if e.device_time > 0), key=lambda e: e.time_range.start)
    own = {name for _, names in LAUNCHED for name in names}
    launched = [event for event in events if event.name in own]
    rows: dict[str, list[float]] = defaultdict(list)
    for label, event in zip(labels, launched, strict=True):
        rows[label].append(event.device_time / 1e3)
    rows["all else"] = [event.device_time / 1e3 for event in events if event.name not in own]
    for name, values in sorted(rows.items(), key=lambda row: -sum(row[1])):
        print(f"{name:46s} {sum(values):8.3f} ms a step in {len(values)} launches")
    print(f"{'sum':46s} {sum(map(sum, rows.values())):8.3f} ms", flush=True)


LAUNCHED = (
    (convolutions, TUNED),
    (norms, ("finish_statistics", "combine", "sum_gradients", "finish_gradients", "apply_gradients")),
    (weights, ("pack", "unpack_gradient")),
)


@contextmanager
def labelled_launches() -> Iterator[list[str]]:
    """The kernels that are launched meanwhile, with their widths, in order."""
    labels: list[str] = []
    originals = {(module, name): getattr(module, name) for module, names in LAUNCHED for name in names}
    for (module, name), kernel in originals.items():
        setattr(module, name, _Labelled(name, kernel, labels))
    try:
        yield labels
    finally:
        for (module, name), kernel in originals.items():
            setattr(module, name, kernel)


class _Labelled:
    def __init__(self, name: str, kernel: Any, labels: list[str]) -> None:
        self.name, self.kernel, self.labels = name, kernel, labels

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            width = kwargs.get("OUTPUTS") or kwargs.get("CHANNELS") or ""
            inputs = kwargs.get("INPUTS", width)
            self.labels.append(f"{self.name} {width}" + (f" from {inputs}" if inputs != width else ""))
            self.kernel[grid](*args, **kwargs)

        return launch


def tune(kind: str, only: Sequence[str]) -> None:
    """Time variants of the convolution kernels, width by width, in captured graphs."""
    stack = stack_of(genotypes(kind, MEMBERS, SPACE), SPACE, _engine())
    stack.one_step()  # fills the buffers
    program: Any = stack.gradients.program  # type: ignore[attr-defined]
    for (kernel, width), before in list(TUNINGS.items()):
        if kernel not in only:
            continue
        run = _launch(program, kernel, width)
        for variant in (Tuning(*numbers) for numbers in VARIANTS):
            TUNINGS[kernel, width] = variant
            value = milliseconds(_captured(partial(_four_times, run)).replay, 5)[0] / 4
            print(f"{kernel:16s} {width:3d} {variant}: {value * 1e3:8.1f} us", flush=True)
        TUNINGS[kernel, width] = before


def _launch(program: Any, kernel: str, width: int) -> Callable[[], None]:
    """What launches one kernel of a cell in the middle of a stage."""
    (buffers,) = (one for one in program.stages if one.channels == width)
    cell = buffers.stage.cells[SPACE.cells // 2]
    if kernel == "convolve":
        return partial(program._convolve, buffers, buffers.reading, cell.leaving[0])
    if kernel == "input_gradient":
        return partial(program._input_gradient, buffers, buffers, cell.sources[0])
    return partial(program._weight_gradient, buffers, buffers.reading, cell.edges)


def _four_times(run: Callable[[], None]) -> None:
    for _ in range(4):
        run()


def _captured(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


# Whole steps


def steps(kind: str, counts: Sequence[int]) -> None:
    """Captured steps of so many members: augment, forward, backward, update."""
    for count in counts:
        engine = _engine()
        engine.release_memory()
        torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        chosen = genotypes(kind, count, SPACE)
        stack = captured_stack(chosen, SPACE, engine)
        ready = time.perf_counter() - begin
        value, spread = milliseconds(stack.one_step)
        memory, loss = torch.cuda.max_memory_allocated() / 1e9, float(stack.losses.mean() / stack.step)
        print(
            f"{kind} M={count}: {value:.2f} ms (spread {spread:.2f}), {count * BATCH / value:.1f} k member-images/s, "
            f"{memory:.1f} GB, ready in {ready:.1f} s, loss {loss:.3f}; {convolution_counts(chosen)}",
            flush=True,
        )
        del stack


def plain() -> None:
    """A step of one likely network by PyTorch's own operations and optimiser, launched one by one."""
    network = Stack(genotypes("likely", 1, SPACE), SPACE)
    network.initialise([0])
    network.to(DEVICE)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    images = torch.randn(BATCH, 3, 32, 32, device=DEVICE)
    labels = torch.randint(0, 10, (BATCH,), device=DEVICE)

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(network(images)[0], labels).backward()
        optimiser.step()

    value, spread = milliseconds(step)
    rate = f"{BATCH / value:.1f} k images/s"
    print(f"plain eager float32, one network: {value:.2f} ms (spread {spread:.2f}), {rate}", flush=True)


def _engine() -> Engine:
    return Engine(EngineSettings(device="cuda"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ways = ("check", "kernels", "tune", "steps", "plain", "survey")
    parser.add_argument("what", nargs="+", choices=ways)
    parser.add_argument("--genotypes", default="likely", choices=list(KINDS))
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2, 5, 10, 20], help="of steps")
    parser.add_argument("--only", nargs="+", default=TUNED, choices=TUNED, help="the kernels to tune")
    given = parser.parse_args()
    run: dict[str, Callable[[], None]] = {
        "check": check,
        "kernels": lambda: kernels(given.genotypes),
        "tune": lambda: tune(given.genotypes, given.only),
        "steps": lambda: steps(given.genotypes, given.members),
        "plain": plain,
        "survey": survey,
    }
    for what in given.what:
        run[what]()


def survey() -> None:
    """Everything that docs/performance.md quotes."""
    plain()
    for kind, counts in (("likely", (1, 2, 5, 10, 20)), ("heaviest", (10,)), ("uniform", (10,))):
        steps(kind, counts)
    tune("likely", TUNED)
    kernels("likely")


if __name__ == "__main__":
    main()
