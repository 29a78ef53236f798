"""Which kind of weights is best, at equal epochs and at equal training time? All of them on one given genotype.

    python studies/weights.py runs/weights --preset cifar10-fast --epochs 30 --seeds 0 1
    python studies/weights.py runs/equal --preset cifar10-fast --seconds 160 --seeds 0 1
    python studies/weights.py runs/weights --preset digits --epochs 16 --seeds 0 --members 4  # minutes on a CPU

A run for each seed, with all methods; with --seconds a run for each method and seed, of as many epochs as a forecast
from a few steps gives to so many seconds of training. What is there already is not computed again, so the same command
goes on after it was cut off. The table is printed and written to OUT/table.md: accuracy in %, ECE, NLL, and the same
under shift (c, where the preset has a suite); parameters kept, passes, epochs, networks trained, seconds of training
and images per second in prediction, by all passes. Means over seeds, ± their standard deviation of several.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from uraenas import Config, Run
from uraenas.bench.cases import FOUND
from uraenas.data import load_from_settings
from uraenas.learning.chains import epochs_for
from uraenas.report.reading import RunFacts, read
from uraenas.report.sections.cost import cost_of
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline

SINGLE = ("drnas", "stochastic-depth")  # one member, whatever is asked for
METHODS = [
    *SINGLE,
    *("deep-ensemble", "uraenas-w", "snapshot", "deep-ensemble-swa", "swag", "multi-swag", "fge", "laplace"),
    *("mc-dropout", "dropconnect", "swapout", "batch-ensemble", "rank-one", "mimo"),
    *("variational", "ssig", "sebays"),
]
TIMED = 2000  # images in the measurement of prediction
QUALITY = ("accuracy", "ece", "nll")


def settings(options: argparse.Namespace, methods: Sequence[str], epochs: int, seed: int) -> Config:
    """The preset with these methods; epochs must suit those that divide them into stages."""
    changes = {
        "methods": ",".join(methods),
        "seed": seed,
        "train.epochs": epochs,
        "train.expected.genotype": str(FOUND),
        "evaluate.references": False,
        **dict(part.split("=", 1) for part in options.set),
    }
    if options.members and any(name not in SINGLE for name in methods):
        changes["ensemble.members"] = options.members
    return preset(options.preset, changes)


def finished(path: Path, config: Config) -> RunFacts:
    """The run in this directory, trained and measured, from wherever it stood."""
    pipeline = Pipeline.start(path, config)
    pipeline.train(pipeline.search())
    pipeline.evaluate()
    return read(pipeline.run)


def row_of(facts: RunFacts, run: Run, method: str, images: np.ndarray) -> dict[str, float]:
    """What a method is worth and what it costs."""
    found: dict[str, float] = {}
    for start, shift in (("", "none"), ("c", facts.shifted)):
        for metric in QUALITY if shift else ():
            value = facts.value(method, metric, shift or "none")
            found[f"{start}{metric}"] = (
                np.nan if value is None else value * (100 if metric == "accuracy" else 1)
            )
    cost, ensemble = cost_of(facts, method), run.ensemble(method)
    found["parameters"], found["passes"] = ensemble.parameters, len(ensemble)
    found["epochs"] = facts.config.train.epochs
    found["chains"] = cost.chains if cost else np.nan
    found["training s"] = cost.training if cost and cost.training is not None else np.nan
    ensemble.member_log_probabilities(images[:500])  # the first call is slower
    begun = time.perf_counter()
    ensemble.member_log_probabilities(images)
    found["images/s"] = len(images) / (time.perf_counter() - begun)
    return found


def table(found: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """A line for each method, in Markdown."""
    columns = list(next(iter(found.values()))[0])
    lines = ["| method | seeds | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for method, rows in found.items():
        cells = [_cell(column, [row[column] for row in rows]) for column in columns]
        lines.append(f"| {method} | {len(rows)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(column: str, values: Sequence[float]) -> str:
    digits = 2 if "accuracy" in column else 3 if column.endswith(("ece", "nll")) else 0
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if digits and len(values) > 1 else ""
    return f"{np.mean(values):,.{digits}f}{spread}"


def epochs_of(config: Config, path: Path, seconds: float) -> int:
    """How many epochs of a run's one method take so long: those of the run that is there, or by a forecast."""
    if path.exists():
        return Run(path).config().train.epochs
    forecast = Pipeline.checked(path, config).forecast(evaluating=False)
    wanted = max(2, round(config.train.epochs * seconds / forecast.seconds["train"]))
    return epochs_for([config.method(config.methods[0]).weights], wanted)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="a folder for all runs")
    parser.add_argument("--preset", default="cifar10-fast")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--members", type=int, default=0, help="passes of each method; 0: as the preset says")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seconds", type=float, default=0, help="of training, for each method alone")
    parser.add_argument("--set", nargs="*", default=[], help="key=value …")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {method: [] for method in options.methods}
    for seed in options.seeds:
        alike = [[name] for name in options.methods] if options.seconds else [options.methods]
        for methods in alike:
            path = options.out / f"{methods[0]}-{seed}" if options.seconds else options.out / f"seed-{seed}"
            config = settings(options, methods, options.epochs, seed)
            if options.seconds:
                config = settings(options, methods, epochs_of(config, path, options.seconds), seed)
            facts = finished(path, config)
            images = load_from_settings(config.data).test.images[:TIMED]
            for method in methods:
                found[method].append(row_of(facts, Run(path), method, images))
    text = table(found)
    (options.out / "table.md").write_text(f"{text}\n")
    print(text)


if __name__ == "__main__":
    main()
