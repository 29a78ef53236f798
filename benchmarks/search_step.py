"""Milliseconds of one search step on a GPU, by what the engine does: capture alone, or compiled and captured.

    python benchmarks/search_step.py [--batch 64] [--steps 50]

The plain step (eager float32, textbook modules) is timed in the same run.
"""

import argparse
import statistics
import time

import torch

from uraenas.bench.cases import Bench, Size
from uraenas.engine import Engine, EngineSettings
from uraenas.spaces import Skeleton


def milliseconds(step, count: int) -> tuple[float, float]:
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
    for compile_it in (False, True):
        engine = Engine(EngineSettings(device="cuda", precision=options.precision, compile=compile_it))
        start = time.perf_counter()
        case = Bench(size, engine).search()
        for _ in range(6):
            case.engine()
        ready = time.perf_counter() - start
        median, spread = milliseconds(case.engine, options.steps)
        memory = torch.cuda.max_memory_allocated() / 1e9
        print(
            f"compiled={compile_it!s:5} {median:8.2f} ms (spread {spread:.2f}), ready in {ready:.0f} s, {memory:.1f} GB"
        )
        if not compile_it:
            case.plain()
            median, spread = milliseconds(case.plain, 5)
            print(f"plain          {median:8.2f} ms (spread {spread:.2f})")


if __name__ == "__main__":
    main()
