"""How fast own kernels train a stack of different genotypes: checks, times and tunes on one GPU.

python benchmarks/stack_kernels.py check     compare with the plain stack in float32 and bfloat16
python benchmarks/stack_kernels.py kernels   time each kernel of a step
python benchmarks/stack_kernels.py tune      time block sizes, warps and loads in flight, kernel by kernel
python benchmarks/stack_kernels.py steps     time whole captured steps over the number of members, and the plain way
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from uraenas.base import draws
from uraenas.inference import Cycle, WeightRule
from uraenas.kernels import convolutions, norms, weights
from uraenas.kernels.images import augment
from uraenas.kernels.program import TUNING, Tuning
from uraenas.kernels.stack import StackProgram
from uraenas.networks.stack import Stack
from uraenas.spaces import CONVOLUTIONS, Genotype, Skeleton

BATCH = 256
DEVICE = torch.device("cuda")
LIKELY = (0.05, 0.15, 0.2, 0.55, 0.05)  # none, skip, 1×1, 3×3, pool: like draws from a searched distribution


def genotypes(kind: str, count: int) -> list[Genotype]:
    """Different genotypes: `uniform` over the space, `likely` to be good, or copies of the `heaviest`."""
    if kind == "heaviest":
        return [Genotype.from_indices((3,) * 6)] * count
    weights = (1,) * 5 if kind == "uniform" else LIKELY
    generator = torch.Generator().manual_seed(1)
    found: list[Genotype] = []
    while len(found) < count:
        drawn = torch.multinomial(
            torch.tensor(weights, dtype=torch.float), 6, replacement=True, generator=generator
        )
        genotype = Genotype.from_indices(drawn.tolist())
        if genotype.connected and genotype not in found:
            found.append(genotype)
    return found


def convolution_counts(chosen: list[Genotype]) -> str:
    """Live convolutions per member, on average."""
    live = [[g.operations[e] for e in g.live_edges] for g in chosen]
    return ", ".join(f"{sum(o.count(name) for o in live) / len(live):.1f} {name}" for name in CONVOLUTIONS)


class Trainer:
    """A whole training step of a stack: augment, forward, backward, update."""

    def __init__(
        self, chosen: list[Genotype], dtype: torch.dtype = torch.bfloat16, batch: int = BATCH
    ) -> None:
        members, skeleton, self.genotypes = len(chosen), Skeleton(), chosen
        reference = Stack(chosen, skeleton)
        reference.initialise([draws.key(0, "weights", m) for m in range(members)])
        self.weights = reference.weights.detach().to(DEVICE)
        self.statistics = reference.statistics.to(DEVICE)
        self.velocity = torch.zeros_like(self.weights)
        self.program = StackProgram(chosen, skeleton, batch, DEVICE, dtype)
        self.rule = WeightRule(Cycle(1, 1, 0.1), 50_000, prior_deviation=0.2, nesterov=True)
        self.images = torch.randint(0, 256, (50_000, 40, 40, 3), dtype=torch.uint8, device=DEVICE)
        self.labels = torch.randint(0, 10, (50_000,), device=DEVICE)
        self.order = torch.randint(0, 50_000, (members, 4, batch), device=DEVICE)
        self.corner = torch.randint(0, 9, (members, 4, batch, 2), device=DEVICE)
        self.flip = torch.randint(0, 2, (members, 4, batch), device=DEVICE) == 1
        self.step = torch.zeros((), dtype=torch.int64, device=DEVICE)
        self.mean, self.deviation = (
            torch.full((3,), 120.0, device=DEVICE),
            torch.full((3,), 60.0, device=DEVICE),
        )
        self.step_size = torch.full((1,), 0.01, device=DEVICE)
        self.loss = torch.zeros((), device=DEVICE)

    def __call__(self) -> None:
        p = self.program
        augment(
            self.images, self.order, self.corner, self.flip, self.step, self.mean, self.deviation, p.images
        )  # fmt: skip
        labels = self.labels[self.order.index_select(1, self.step.view(1)).squeeze(1)]
        logits = p.forward(self.weights, self.statistics, True).requires_grad_()
        with torch.enable_grad():
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / p.batch
        (slope,) = torch.autograd.grad(loss, logits)
        gradient = p.backward(slope)
        moved, velocity = self.rule.update(self.weights, self.velocity, gradient, self.step_size)
        self.weights.copy_(moved)
        self.velocity.copy_(velocity)
        self.loss.copy_(loss.detach())
        self.step.copy_((self.step + 1) % 4)


def captured(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def milliseconds(run: Callable[[], None], repeats: int = 15) -> tuple[float, float]:
    """Median and spread (largest minus smallest) over repeats, after two warm-ups."""
    times = []
    for _ in range(repeats + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[2:]), max(times[2:]) - min(times[2:])


def check() -> None:
    """Relative errors of own kernels, and of the plain stack in the same precision, against float64."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    for kind, members, batch, cells, dtype in (
        ("uniform", 3, 4, 1, torch.float32),
        ("uniform", 4, 64, 5, torch.float32),
        ("likely", 4, 256, 5, torch.bfloat16),
    ):
        chosen, skeleton = genotypes(kind, members), Skeleton(cells=cells)
        coarse = torch.randn(members * batch, 3, 8, 8, device=DEVICE)
        images = F.interpolate(coarse, size=(32, 32), mode="bilinear").view(members, batch, 3, 32, 32)
        images = images + 0.1 * torch.randn_like(images)
        slope = torch.randn(members, batch, skeleton.classes, device=DEVICE) / batch
        found: dict[str, dict[str, torch.Tensor]] = {}
        for name in ("float64", "plain", "own"):
            network = Stack(chosen, skeleton)
            network.initialise([draws.key(0, "weights", m) for m in range(members)])
            network.to(DEVICE, torch.float64 if name == "float64" else torch.float32)
            flat, running = network.weights, network.statistics
            if name == "own":
                program = StackProgram(chosen, skeleton, batch, DEVICE, dtype)
                fresh = running.clone()
                logits = program(flat, running, images, True)
                (gradient,) = torch.autograd.grad(logits, flat, slope)
                again = torch.autograd.grad(program(flat, fresh, images, True), flat, slope)[0]
                prediction = program(flat, running, images, False)
                print("    repeated:", "same bits" if torch.equal(again, gradient) else "OTHER BITS")
            else:
                lowered = name == "plain" and dtype == torch.bfloat16
                with torch.autocast("cuda", torch.bfloat16, enabled=lowered):
                    logits = network(images.to(flat.dtype))
                (gradient,) = torch.autograd.grad(logits, flat, slope.to(logits.dtype))
                network.eval()
                with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=lowered):
                    prediction = network(images.to(flat.dtype))
            found[name] = {
                "logits": logits.detach().double(), "gradient": gradient.double(),
                "statistics": running.double().clone(), "prediction": prediction.detach().double(),
            }  # fmt: skip
        for name in ("plain", "own"):
            errors = ", ".join(
                f"{what} {((value - exact).norm() / exact.norm()).item():.1e}"
                for (what, value), exact in zip(found[name].items(), found["float64"].values(), strict=True)
            )
            print(f"{kind} M={members} N={batch} cells={cells} {dtype} {name}: {errors}", flush=True)


LAUNCHED = (
    (convolutions, ("convolve", "input_gradient", "weight_gradient")),
    (norms, ("finish_statistics", "combine", "sum_gradients", "finish_gradients", "apply_gradients")),
    (weights, ("pack", "unpack_gradient")),
)


def kernels(kind: str) -> None:
    """Time per step of each kernel and width: a replayed graph's kernels, matched in order with their launches."""
    trainer = Trainer(genotypes(kind, 10))
    graph = captured(trainer)
    labels: list[str] = []
    originals = {(module, name): getattr(module, name) for module, names in LAUNCHED for name in names}
    for (module, name), kernel in originals.items():
        setattr(module, name, _Labelled(name, kernel, labels))
    trainer()
    for (module, name), kernel in originals.items():
        setattr(module, name, kernel)
    graph.replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    events = sorted((e for e in profile.events() if e.device_time > 0), key=lambda e: e.time_range.start)
    own = {name for _, name in originals}
    launched = [e for e in events if e.name in own]
    rows: dict[str, list[float]] = defaultdict(list)
    for label, event in zip(labels, launched, strict=len(labels) == len(launched)):
        rows[label].append(event.device_time / 1e3)
    rows["all else"] = [e.device_time / 1e3 for e in events if e.name not in own]
    for name, values in sorted(rows.items(), key=lambda row: -sum(row[1])):
        print(f"{name:46s} {sum(values):8.3f} ms a step in {len(values)} launches")
    print(
        f"{'sum':46s} {sum(map(sum, rows.values())):8.3f} ms; {len(labels)} labels, {len(launched)} kernels",
        flush=True,
    )


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


def tune(kind: str, only: str, compile_only: bool) -> None:
    """Time variants of the convolution kernels, width by width, in captured graphs."""
    program = Trainer(genotypes(kind, 2 if compile_only else 10)).program
    program.images.normal_()
    flat = torch.randn(max(pack.weight for pack in program.plan.packs) + 100_000, device=DEVICE) * 0.05
    state = torch.ones(10_000_000, device=DEVICE)
    if not compile_only:
        program.forward(flat, state, True)
    program._weights, program._statistics, program._training, program._frozen = flat, state, True, False
    variants = [(64, 4, 1), (64, 4, 2), (128, 4, 1), (128, 4, 2), (64, 4, 1, 4), (64, 4, 2, 4)]
    for (kernel, width), before in list(TUNING.items()):
        buffers = program.stages[(16, 32, 64).index(width)]
        cell = buffers.stage.cells[2]
        runs: dict[str, Callable[[], None]] = {
            "convolve": partial(program._convolve, buffers, buffers.reading, cell.leaving[0]),
            "input_gradient": partial(program._input_gradient, buffers, buffers, cell.sources[0]),
            "weight_gradient": partial(program._weight_gradient, buffers, buffers.reading, cell.edges),
        }
        for variant in (Tuning(*v) for v in variants):
            if only not in (kernel, "all") or (
                only != "all" and (variant.block, variant.stages) != (64, before.stages)
            ):
                continue
            TUNING[kernel, width] = variant
            runs[kernel]()
            torch.cuda.synchronize()
            if not compile_only:
                graph = captured(partial(_four_times, runs[kernel]))
                value = milliseconds(graph.replay, 5)[0] / 4
                print(f"{kernel:16s} {width:3d} {variant}: {value * 1e3:8.1f} us", flush=True)
        TUNING[kernel, width] = before


def _four_times(run: Callable[[], None]) -> None:
    for _ in range(4):
        run()


def steps(kind: str, members: list[int], plain: bool) -> None:
    """Whole captured steps."""
    if plain:
        network = Stack(genotypes("likely", 1), Skeleton())
        network.initialise([0])
        network.to(DEVICE)
        rule = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, nesterov=True)
        images, labels = (
            torch.randn(BATCH, 3, 32, 32, device=DEVICE),
            torch.randint(0, 10, (BATCH,), device=DEVICE),
        )

        def step() -> None:
            rule.zero_grad()
            F.cross_entropy(network(images)[0], labels).backward()
            rule.step()

        value, spread = milliseconds(step)
        print(
            f"plain eager float32, one network: {value:.2f} ms ± {spread:.2f}, {BATCH / value:.1f} k images/s",
            flush=True,
        )
    for count in members:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        trainer = Trainer(genotypes(kind, count))
        graph = captured(trainer)
        torch.cuda.synchronize()
        begin = time.perf_counter() - begin
        value, spread = milliseconds(graph.replay)
        memory = torch.cuda.max_memory_allocated() / 1e9
        rate = count * BATCH / value
        print(
            f"{kind} M={count}: {value:.2f} ms (spread {spread:.2f}), {rate:.1f} k member-images/s, {memory:.1f} GB, "
            f"ready in {begin:.1f} s, loss {trainer.loss.item() / count:.3f}; "
            f"{convolution_counts(trainer.genotypes)}",
            flush=True,
        )
        del trainer, graph


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="+", choices=("check", "kernels", "tune", "steps", "survey"))
    parser.add_argument("--genotypes", default="likely", choices=("uniform", "likely", "heaviest"))
    parser.add_argument("--members", default="1,2,5,10,20")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--only", default="all", help="the kernel to tune")
    parser.add_argument("--compile-only", action="store_true")
    given = parser.parse_args()
    members = [int(m) for m in given.members.split(",")]
    for what in given.what:
        if what == "check":
            check()
        elif what == "kernels":
            kernels(given.genotypes)
        elif what == "tune":
            tune(given.genotypes, given.only, given.compile_only)
        elif what == "steps":
            steps(given.genotypes, members, given.plain)
        else:  # survey: everything that docs/performance.md quotes
            steps("likely", [1, 10], True)
            tune("likely", "input_gradient", False)
            steps("heaviest", [10], False)
            steps("uniform", [10], False)
            kernels("likely")
            steps("likely", [2, 5, 20], False)
