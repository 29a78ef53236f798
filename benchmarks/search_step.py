"""Milliseconds of one search step on a GPU: the engine (captured) beside the plain way, in one run.

python benchmarks/search_step.py [--batch 64] [--steps 50]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from uraenas.bench.cases import Bench, Size
from uraenas.engine import Engine, EngineSettings
from uraenas.spaces import Skeleton


def milliseconds(step: Callable[[], None], count: int) -> tuple[float, float]:
    """Median and spread of one call."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times), max(times) - min(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--precision", default="auto")
    options = parser.parse_args()
    size = Size(Skeleton(), batch=256, search_batch=options.batch, members=1, images=20_000)
    print(torch.cuda.get_device_name(), torch.__version__)
    engine = Engine(EngineSettings(device="cuda", precision=options.precision))
    start = time.perf_counter()
    case = Bench(size, engine).search()
    for _ in range(6):
        case.engine()
    ready = time.perf_counter() - start
    case.plain()
    for name, step in (("engine", case.engine), ("plain", case.plain), ("engine", case.engine)):
        median, spread = milliseconds(step, options.steps)
        print(f"{name:8} {median:8.2f} ms (spread {spread:.2f})")
    print(f"ready in {ready:.0f} s, {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
