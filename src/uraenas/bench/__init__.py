"""What `uraenas bench` runs: the plain way and the engine, side by side in one run."""

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from uraenas.base.errors import unknown
from uraenas.bench.cases import Bench, Case, Size
from uraenas.bench.roofline import Peak, measure_peak
from uraenas.engine import Engine
from uraenas.spaces import CellSpace, Shape

__all__ = ["Size", "measure", "standard_size"]


def standard_size(engine: Engine) -> Size:
    """The paper's networks on a GPU; small ones on a CPU, where a step should take less than a second."""
    if engine.device.type == "cuda":
        return Size(CellSpace(), batch=256, search_batch=64, members=10, images=50_000)
    return Size(CellSpace(channels=16, cells=1, shape=Shape(16, 16)), 64, 64, members=4, images=1_000)


def measure(engine: Engine, size: Size, rounds: int, only: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """One row per case: medians over rounds in which the two ways alternate, with their spread."""
    builders = Bench(size, engine).builders()
    for task in only:
        if task not in builders:
            raise unknown("task", task, builders)
    peak = measure_peak(engine)
    for task in only or builders:
        yield {"task": task, **_row(builders[task](), rounds, engine, peak)}
        engine.release_memory()


def _row(case: Case, rounds: int, engine: Engine, peak: Peak) -> dict[str, Any]:
    cuda = engine.device.type == "cuda"
    for _ in range(5 if cuda else 1):  # a captured step is captured at its fourth call
        case.engine()
    case.plain()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    times: dict[str, list[float]] = {"plain": [], "engine": []}
    for _ in range(rounds):
        times["plain"].append(_seconds(case.plain))
        times["engine"].append(_seconds(case.engine))
    median = {way: statistics.median(seconds) for way, seconds in times.items()}
    row: dict[str, Any] = {
        "plain": case.amount / median["plain"],
        "engine": case.amount / median["engine"],
        "unit": case.unit,
        "ratio": median["plain"] / median["engine"],
        "rounds": rounds,
        "spread": {way: (max(s) - min(s)) / median[way] for way, s in times.items()},
    }
    if case.work:
        row["engine_gflops"] = 2e-9 * case.work.multiply_adds / median["engine"]
        row["share_of_roofline"] = peak.least_seconds(case.work) / median["engine"]
    row["peak_memory_gb"] = torch.cuda.max_memory_allocated() / 1e9 if cuda else _resident_gb()
    return row


def _resident_gb() -> float:
    """The most memory this process has had so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
