"""Which settings are better on a small dataset, over several seeds, judged on held-out images only?

    python studies/variants.py runs/variants --seeds 1 2 3 --variant train.sampling.cycles=2,train.sampling.samples=4 …

A line for every variant: held-out accuracy and NLL of the method's members together, NLL alone, and the part of their
uncertainty that lies within chains, which says how far a chain's samples lie apart. All are means over seeds.
Each seed has one search, which all variants share. What is there already is not computed again.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from uraenas import Config, Run
from uraenas.evaluation import metrics
from uraenas.run.config import parse_assignments, preset
from uraenas.run.pipeline import Pipeline


def figures(pipeline: Pipeline, method: str) -> tuple[float, float, float, float]:
    """Accuracy in % and NLL of the members' mean prediction, their mean NLL alone, and nats within chains."""
    held_out = pipeline.task.held_out
    labels = torch.from_numpy(held_out.labels)
    ensemble = pipeline.run.ensemble(method)
    log_p = ensemble.member_log_probabilities(held_out.images)
    together, alone = metrics.mixture(log_p), metrics.of_each(log_p, labels)
    accuracy, nll = metrics.accuracy(together, labels), metrics.nll(together, labels)
    chains = [member.origin.chain for member in ensemble.members]
    within = metrics.uncertainty_by_source(log_p, chains).weights
    return 100 * accuracy, nll, float(alone["nll"].mean()), float(within.mean())


def trained(path: Path, config: Config, search_of: Run | None) -> Pipeline:
    """The run in this directory, its members ready."""
    pipeline = Pipeline.start(path, config, search_of=search_of)
    pipeline.train(pipeline.search())
    return pipeline


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="a folder for all runs")
    parser.add_argument("--preset", default="digits")
    parser.add_argument("--method", default="uraenas")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--variant", nargs="*", default=[], help="key=value,key=value …")
    options = parser.parse_args()
    print("accuracy, NLL, NLL alone, nats within chains; standard error of the NLL over seeds")
    common = {"methods": options.method, "evaluate.suite": "none"}
    for number, variant in enumerate(["", *options.variant]):
        changes = parse_assignments(part for part in variant.split(",") if part)
        found = []
        for seed in options.seeds:
            config = preset(options.preset, {**common, "seed": seed, **changes})
            first = Run(options.out / f"{seed}-0") if number and config.search else None
            pipeline = trained(options.out / f"{seed}-{number}", config, first)
            found.append(figures(pipeline, options.method))
        accuracy, nll, alone, within = np.mean(found, axis=0)
        error = np.std([row[1] for row in found], ddof=1) / len(found) ** 0.5 if len(found) > 1 else np.nan
        shown = f"{accuracy:.2f} {nll:.4f} {alone:.4f} {within:.5f} ± {error:.4f}"
        print(f"{shown}  {variant or 'as it is'}", flush=True)


if __name__ == "__main__":
    main()
