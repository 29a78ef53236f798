"""Images per second of the shipped CIFAR-10 ensemble on a CPU, by way of predicting, side by side.

    uraenas export cifar10 --format onnx --out float32.onnx
    uraenas export cifar10 --format onnx --out int8.onnx --precision int8
    python benchmarks/predicting.py --onnx float32.onnx int8.onnx [--threads 1 2] [--batches 1 32 256] [--rounds 5]

Ways: stacks that are built anew by each call and keep their norms, as predictions once were made; plain modules one
after another; `predict_proba` by PyTorch; the same by ONNX Runtime, which it turns to when it is asked often; exported
files. The ways take turns, so that other work on the machine matters little.
Rates are of processor time on one thread, and of the clock on several; medians, quartiles and the best.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from uraenas import Run
from uraenas.bench.plain import PlainNetwork
from uraenas.deploy import Exported, accelerated
from uraenas.engine.workers import Workers
from uraenas.ensemble import Ensemble
from uraenas.spaces import Stack

Way = Callable[[np.ndarray], Any]


def built_anew(ensemble: Ensemble, threads: int) -> Way:
    """A stack for each call, members side by side, norms as they are."""
    units, workers = ensemble.normalisation.on(torch.device("cpu"), torch.float32), Workers(threads)

    def predict(images: np.ndarray) -> Any:
        stack = Stack([member.architecture for member in ensemble.members], ensemble.space)
        for place, member in enumerate(ensemble.members):
            stack.put(place, member.weights, member.statistics)
        stack.eval()
        x = units(torch.from_numpy(images))
        flat = stack.weights.detach().split(stack.weight_sizes)

        def of_member(m: int) -> Any:
            with torch.no_grad():
                return stack.run([m], [flat[m]], x)

        with workers.threads():
            return torch.cat(workers.each(of_member, range(len(stack)))).softmax(dim=-1).mean(dim=0)

    return predict


def plain_modules(ensemble: Ensemble, threads: int) -> Way:
    """torch.nn modules of the same genotypes, with all threads on each operation; their weights do not matter here."""
    skeleton = ensemble.space.skeleton  # type: ignore[attr-defined]
    networks = [PlainNetwork(member.architecture, skeleton).eval() for member in ensemble.members]
    units = ensemble.normalisation.on(torch.device("cpu"), torch.float32)

    def predict(images: np.ndarray) -> Any:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            x = units(torch.from_numpy(images))
            return torch.stack([network(x).softmax(dim=-1) for network in networks]).mean(dim=0)

    return predict


def as_it_is(ensemble: Ensemble, threads: int) -> Way:
    torch.set_num_threads(threads)
    plain = ensemble.plain_predictor("cpu")
    plain.engine.workers = Workers(threads)
    ensemble.predict_with("cpu", plain)
    return lambda images: ensemble.predict_proba(images, device="cpu")


def by_runtime(ensemble: Ensemble, threads: int) -> Way:
    fast = accelerated(ensemble, threads)
    return lambda images: fast.predict_proba(images, device="cpu")


WAYS = {
    "stacks built anew": built_anew,
    "plain modules": plain_modules,
    "PyTorch": as_it_is,
    "ONNX Runtime": by_runtime,
}


def ways(wanted: list[str], files: list[Path], threads: int) -> dict[str, Way]:
    found: dict[str, Way] = {}
    for name, make in WAYS.items():
        if name in wanted:
            found[name] = make(Run.pretrained("cifar10").ensemble(), threads)
    for file in files:
        found[f"ONNX Runtime, {file.stem}"] = Exported(file, threads)
    return found


def seconds(way: Way, images: np.ndarray, clock: Callable[[], float]) -> float:
    start = clock()
    way(images)
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--onnx", type=Path, nargs="*", default=[], help="exported files")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--rounds", type=int, default=5, help="timed, after one to warm up")
    parser.add_argument("--json", action="store_true", help="rows for machines")
    options = parser.parse_args()
    random, rows = np.random.default_rng(0), []
    for threads in options.threads:
        compared = ways(options.ways, options.onnx, threads)
        clock = time.process_time if threads == 1 else time.perf_counter
        for batch in options.batches:
            images = random.integers(0, 256, (batch, 32, 32, 3), dtype=np.uint8)
            spent: dict[str, list[float]] = {name: [] for name in compared}
            for number in range(options.rounds + 1):
                for name, way in compared.items():
                    taken = seconds(way, images, clock)
                    if number:
                        spent[name].append(taken)
            for name, times in spent.items():
                low, middle, high, best = (batch / np.quantile(times, q) for q in (0.75, 0.5, 0.25, 0))
                rows.append(
                    {"way": name, "threads": threads, "batch": batch, "rate": [low, middle, high, best]}
                )
                if not options.json:
                    rates = f"{middle:6.1f} ({low:.1f} to {high:.1f}), at best {best:.1f}"
                    print(f"{threads} threads, batch {batch:4}: {name:28} {rates}", flush=True)
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "rows": rows}))


if __name__ == "__main__":
    main()
