"""Milliseconds of one search step: the engine (on a GPU captured) beside the plain way, in one run.

python benchmarks/search_step.py [--batch 64] [--steps 50] [--distributions dirichlet gdas] [--no-plain]
                                 [--profile]
OMP_NUM_THREADS=1 python benchmarks/search_step.py --device cpu --cells 1 --steps 12 --no-plain
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from uraenas.architectures import DISTRIBUTIONS
from uraenas.bench.cases import Bench, Size
from uraenas.engine import Engine, EngineSettings
from uraenas.engine.engine import PRECISIONS
from uraenas.spaces import CellSpace


def milliseconds(step: Callable[[], None], count: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Median and spread of one call."""
    times = []
    for _ in range(count):
        start = clock()
        step()
        times.append(1e3 * (clock() - start))
    return statistics.median(times), max(times) - min(times)


def profiled(step: Callable[[], None], count: int) -> str:
    """Milliseconds and launches of one call, by kernel."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        for _ in range(count):
            step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    rows = [row for row in found.key_averages() if row.self_device_time_total > 0]
    rows.sort(key=lambda row: -row.self_device_time_total)
    lines = [
        f"{row.self_device_time_total / 1e3 / count:8.3f} ms {row.count / count:6.1f}× {row.key[:80]}"
        for row in rows[:30]
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--cells", type=int, default=5, help="of each stage")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50, help="how many are timed, of each way")
    parser.add_argument("--precision", default="auto", choices=PRECISIONS, help="of the engine")
    mixed = [name for name, row in DISTRIBUTIONS.items() if row.made.loop == "supernet"]
    parser.add_argument("--distributions", nargs="+", default=["dirichlet"], choices=mixed)
    parser.add_argument("--no-plain", action="store_true", help="time the engine alone")
    parser.add_argument("--profile", action="store_true", help="and which kernels take how long")
    options = parser.parse_args()
    engine = Engine(EngineSettings(device=options.device, precision=options.precision))
    on_gpu = options.device == "cuda"
    # By the host's clock on a GPU, for launching is a large part of the plain way; on a CPU in processor time.
    clock = time.perf_counter if on_gpu else time.process_time
    images = 20_000 if on_gpu else 2_000
    space = CellSpace(cells=options.cells)
    size = Size(space, batch=256, search_batch=options.batch, members=1, images=images)
    print(torch.cuda.get_device_name() if on_gpu else "CPU", torch.__version__)
    bench, ways = Bench(size, engine), []
    for name in options.distributions:
        start = time.perf_counter()
        case = bench.search(name)
        for _ in range(6):  # the fourth is captured
            case.engine()
        print(f"{name} is ready in {time.perf_counter() - start:.0f} s")
        ways.append((name, case.engine))
    plain = [] if options.no_plain else [("plain", case.plain)]
    for _, step in plain:
        step()
    for name, step in (*ways, *plain, *ways):
        median, spread = milliseconds(step, options.steps, clock)
        print(f"{name:10} {median:8.2f} ms (spread {spread:.2f})")
    if options.profile:
        for name, step in ways:
            print(f"{name}\n{profiled(step, options.steps)}")
    if on_gpu:
        print(f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
