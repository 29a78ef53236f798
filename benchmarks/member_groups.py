"""Who is weak in an ensemble: members with `none` on an edge and members without, beside as many deep ones.

    python benchmarks/member_groups.py results/cifar10/held-out.safetensors [--predict runs/cifar10 runs/twelve]

With --predict, the file is first written: what every member of the first run (`uraenas`) and of the second
(`deep-ensemble`) predicts for the held-out images, or with --severity for some of them under all 19 corruptions. That
takes 10 minutes on two x86 cores for 22 members and 5,000 images.
"""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from uraenas import LabelledImages, Run, metrics, shifts
from uraenas.config import from_json
from uraenas.task import prepare

DRAWS = 60  # of mixed ensembles


def predictions(drawn: Run, deep: Run, severity: int, count: int) -> dict[str, Tensor]:
    """Log-probabilities [M, N, K] of both runs' members, labels, and which drawn members lack an edge."""
    held_out = prepare(from_json(drawn.read_json("config.json"))).held_out
    held_out = held_out.take(np.arange(min(count, len(held_out))))
    if severity:
        names = shifts.SUITES["cifar10-c"]
        shifted = [shifts.corrupt(held_out.images, name, severity, 0) for name in names]
        held_out = LabelledImages(np.concatenate(shifted), np.tile(held_out.labels, len(names)))
    ensembles = {"drawn": drawn.ensemble("uraenas"), "deep": deep.ensemble("deep-ensemble")}
    tensors = {
        name: ensemble.member_log_probabilities(held_out.images).half()
        for name, ensemble in ensembles.items()
    }
    lacking = ["none" in member.genotype.operations for member in ensembles["drawn"].members]
    return tensors | {"labels": torch.from_numpy(held_out.labels), "with_none": torch.tensor(lacking)}


def figures(members: Tensor, labels: Tensor) -> tuple[float, float]:
    """Accuracy in % and NLL of the members' mean prediction."""
    mean = metrics.mixture(members)
    return 100 * metrics.accuracy(mean, labels), metrics.nll(mean, labels)


def averaged(groups: Sequence[Tensor], labels: Tensor) -> str:
    """Mean figures of several ensembles, and how the NLL varies."""
    accuracies, nlls = zip(*(figures(group, labels) for group in groups), strict=True)
    return f"{np.mean(accuracies):.2f} {np.mean(nlls):.4f} (sd {np.std(nlls):.4f} of {len(groups)})"


def main() -> None:
    """Print the table of results/cifar10/choices.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--predict", nargs=2, metavar="RUN")
    parser.add_argument("--severity", type=int, default=0)
    parser.add_argument("--images", type=int, default=5000)
    options = parser.parse_args()
    if options.predict:
        drawn_run, deep_run = (Run.find(path) for path in options.predict)
        save_file(predictions(drawn_run, deep_run, options.severity, options.images), options.file)
    stored = load_file(options.file)
    labels, deep = stored["labels"], stored["deep"].double()
    groups = {
        "with none": stored["drawn"][stored["with_none"]].double(),
        "without": stored["drawn"][~stored["with_none"]].double(),
    }
    print("held-out accuracy in %, NLL")
    for name, group in (*groups.items(), ("deep", deep)):
        alike = [deep[list(chosen)] for chosen in itertools.combinations(range(len(deep)), len(group))]
        print(f"{len(group)} {name}: alone {averaged([member[None] for member in group], labels)}")
        print(f"  together {averaged([group], labels)}, as many deep ones {averaged(alike, labels)}")
    random = np.random.default_rng(0)
    for count in (0, 2, 4, 6):
        mixed = [
            torch.cat(
                [
                    groups["without"][random.permutation(len(groups["without"]))[:count]],
                    deep[random.permutation(len(deep))[: 10 - count]],
                ]
            )
            for _ in range(DRAWS)
        ]
        print(f"{count} without none and {10 - count} deep: {averaged(mixed, labels)}")


if __name__ == "__main__":
    main()
