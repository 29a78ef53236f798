"""Images per second of the shipped CIFAR-10 ensemble on a CPU, by way of predicting, side by side.

    python benchmarks/predicting.py [--data datasets] [--threads 1 2] [--batches 1 32 256]

Ways: stacks that are built anew by each call and keep their norms, as predictions once were made; plain modules one
after another; `predict_proba` by PyTorch; the same by ONNX Runtime, which it turns to when it is asked often; exported
files; and by ONNX Runtime and as files the one network that the ensemble taught, cifar10-one. Files in int8 need
CIFAR-10 in `--data`; without it these rows are left out.
The ways take turns, so that other work on the machine matters little. Each number of threads and images gets an equal
part of the time, and two rounds at least, after one on eight images to warm up. Rates are of processor time on one
thread, and of the clock on several. Printed as it goes: medians, quartiles and the best; at the end a table.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from uraenas import Run
from uraenas.base.cores import available_cores
from uraenas.base.errors import UraenasError
from uraenas.bench.plain import PlainNetwork
from uraenas.deploy import PRECISIONS, Exported, Wanted, accelerated, export_file
from uraenas.deploy.writing import CALIBRATION, MEASURED
from uraenas.engine.workers import Workers
from uraenas.ensemble import Ensemble
from uraenas.run.config import override
from uraenas.run.task import prepare
from uraenas.spaces import Stack

MOST = CALIBRATION + MEASURED  # held-out images
LEAST_ROUNDS = 2

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

        def of_member(m: int) -> Any:
            with torch.no_grad():
                return stack.run([m], stack.weights_of(range(m, m + 1)), x)

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


def one_network(_: Ensemble, threads: int) -> Way:
    return by_runtime(Run.pretrained("cifar10-one").ensemble(), threads)


WAYS = {
    "stacks built anew": built_anew,
    "plain modules": plain_modules,
    "PyTorch": as_it_is,
    "ONNX Runtime": by_runtime,
    "one network": one_network,
}


def ways(wanted: list[str], files: list[Path], threads: int) -> dict[str, Way]:
    found: dict[str, Way] = {}
    for name, make in WAYS.items():
        if name in wanted:
            found[name] = make(Run.pretrained("cifar10").ensemble(), threads)
    for file in files:
        found[file.stem] = Exported(file, threads)
    return found


def export(run: Run, name: str, precisions: list[str], data: Path, folder: Path) -> list[Path]:
    """Files in these precisions; what each costs is told."""
    files = []
    apart: tuple[np.ndarray | None, np.ndarray | None]
    for precision in precisions:
        file = folder / f"{name} in {precision}.onnx"
        try:
            part = prepare(override(run.config(), {"data.root": str(data)})).held_out
            apart = part.images[:MOST], part.labels[:MOST]
        except UraenasError as error:
            if precision == "int8":
                print(f"without int8: {error}", file=sys.stderr)
                continue
            apart = None, None
        facts = export_file(run, file, "onnx", "", Wanted(precision), *apart)
        files.append(file)
        if "cost" in facts:
            print(f"{name} in {precision} costs: {json.dumps(facts['cost'])}", flush=True)
    return files


def seconds(way: Way, images: np.ndarray, clock: Callable[[], float]) -> float:
    start = clock()
    way(images)
    return clock() - start


def compare(compared: dict[str, Way], batch: int, threads: int, patience: float) -> dict[str, list[float]]:
    """Rates of each way: lower quartile, median, upper quartile, best."""
    clock = time.process_time if threads == 1 else time.perf_counter
    images = np.random.default_rng(0).integers(0, 256, (batch, 32, 32, 3), dtype=np.uint8)
    for way in compared.values():
        way(images[:8])
    spent: dict[str, list[float]] = {name: [] for name in compared}
    until, rounds = time.monotonic() + patience, 0
    while rounds < LEAST_ROUNDS or time.monotonic() < until:
        for name, way in compared.items():
            spent[name].append(seconds(way, images, clock))
        rounds += 1
    found = {}
    for name, times in spent.items():
        found[name] = [batch / float(np.quantile(times, q)) for q in (0.75, 0.5, 0.25, 0)]
        low, middle, high, best = found[name]
        rates = f"{middle:6.1f} ({low:.1f} to {high:.1f}), at best {best:.1f}, {rounds} rounds"
        print(f"{threads} threads, batch {batch:4}: {name:22} {rates}", flush=True)
    return found


def table(rates: dict[tuple[int, int], dict[str, list[float]]]) -> Iterator[str]:
    """Medians, quartiles, and how often the first way's median."""
    heads = [f"batch {batch}, {threads} thread{'s' * (threads > 1)}" for threads, batch in rates]
    yield f"| way | {' | | '.join(heads)} | |"
    yield "|---" * (1 + 2 * len(rates)) + "|"
    for name in next(iter(rates.values())):
        cells = []
        for own in rates.values():
            low, middle, high, _ = own[name]
            first = next(iter(own.values()))[1]
            cells += [f"{middle:.1f} ({low:.1f} to {high:.1f})", f"{middle / first:.2f}×"]
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--precisions", nargs="*", choices=PRECISIONS, default=["float32", "int8"])
    parser.add_argument("--data", type=Path, default=Path("datasets"), help="where CIFAR-10 lies")
    both = sorted({1, min(2, available_cores())})
    parser.add_argument("--threads", type=int, nargs="+", default=both)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--minutes", type=float, default=8, help="of timing, in all")
    options = parser.parse_args()
    patience = 60 * options.minutes / len(options.threads) / len(options.batches)
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = {"file": Run.pretrained("cifar10"), "one network": Run.pretrained("cifar10-one")}
        facts = options.precisions, options.data, Path(folder)
        files = [file for name, run in runs.items() for file in export(run, name, *facts)]
        for threads in options.threads:
            compared = ways(options.ways, files, threads)
            for batch in options.batches:
                rates[threads, batch] = compare(compared, batch, threads, patience)
    print(
        f"\n{platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, "
        f"load average {os.getloadavg()[2]:.1f}\n"
    )
    print("\n".join(table(rates)))


if __name__ == "__main__":
    main()
