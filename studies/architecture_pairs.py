"""What is another architecture worth beside another initialisation? Pairs of members that share a genotype, and others.

    python studies/architecture_pairs.py [RUN] [--images 5000] [--severity 0]

On held-out images, or with --severity on as many under all 19 corruptions: how much two members gain over one alone, in
accuracy and NLL, among the members whose genotype another has, too. Bootstrap intervals are over images: they are of
these members, and a few say little of others. Last, all members together. The package's ten members (`cifar10`, unless
told) and 5,000 images take three minutes on two x86 cores.
"""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from uraenas import LabelledImages, Run, shifts
from uraenas.evaluation import metrics
from uraenas.run.task import prepare
from uraenas.spaces import Architecture

RESAMPLES = 1000


def scores(log_p: Tensor, labels: Tensor) -> Tensor:
    """For each image, whether the prediction is right (in %) and its negative log-likelihood: [2, N]."""
    right = 100.0 * (log_p.argmax(dim=1) == labels)
    return torch.stack([right, metrics.nll_per_image(log_p, labels)])


def interval(values: Tensor) -> str:
    """The mean over images of [2, N], with a 95 % bootstrap interval."""
    generator = torch.Generator().manual_seed(0)
    count = values.shape[1]
    drawn = torch.randint(count, (RESAMPLES, count), generator=generator)
    means = torch.stack([values[:, of].mean(dim=1) for of in drawn])
    low, high = means.quantile(torch.tensor([0.025, 0.975], dtype=means.dtype), dim=0)
    mean = values.mean(dim=1)
    return "; ".join(
        f"{name} {mean[k]:+.4f} ({low[k]:+.4f}, {high[k]:+.4f})" for k, name in enumerate(("accuracy", "NLL"))
    )


def gains(
    predicted: Sequence[Tensor], labels: Tensor, genotypes: Sequence[Architecture], among: Sequence[int]
) -> dict[bool, list[Tensor]]:
    """What each pair of these members gains over one alone [2, N], by whether they share a genotype."""
    found: dict[bool, list[Tensor]] = {True: [], False: []}
    alone = [[scores(one, labels) for one in part] for part in predicted]
    for i, j in itertools.combinations(among, 2):
        gain = [
            scores(metrics.mixture(part[[i, j]]), labels) - (single[i] + single[j]) / 2
            for part, single in zip(predicted, alone, strict=True)
        ]
        found[genotypes[i] == genotypes[j]].append(torch.stack(gain).mean(dim=0))
    return found


def held_out_images(run: Run, count: int) -> LabelledImages:
    held_out = prepare(run.config()).held_out
    return held_out.take(np.arange(min(count, len(held_out))))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?", default=Path("cifar10"))
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--severity", type=int, default=0, choices=range(6), help="0: images as they are")
    options = parser.parse_args()

    run = Run.find(options.run)
    ensemble = run.ensemble()
    genotypes = [member.architecture for member in ensemble.members]
    repeated = [k for k, one in enumerate(genotypes) if genotypes.count(one) > 1]
    if len({genotypes[k] for k in repeated}) < 2:
        parser.error(f"{run.path} has not two genotypes with several members each")
    held_out = held_out_images(run, options.images)
    images, labels = [held_out.images], torch.from_numpy(held_out.labels)
    if options.severity:
        names = shifts.SUITES["cifar10-c"]
        images = [shifts.corrupt(held_out.images, name, options.severity, 0) for name in names]
    predicted = [ensemble.member_log_probabilities(part).double() for part in images]
    found = gains(predicted, labels, genotypes, repeated)
    same, other = (torch.stack(found[shared]).mean(dim=0) for shared in (True, False))
    print(f"{len(labels):,} images, {len(repeated)} members; gain of two over one, mean over pairs")
    print(f"same genotype, {len(found[True])} pairs:  {interval(same)}")
    print(f"others, {len(found[False])} pairs: {interval(other)}")
    print(f"difference: {interval(other - same)}")
    together = torch.stack([scores(metrics.mixture(part), labels) for part in predicted]).mean(dim=(0, 2))
    print(f"all {len(genotypes)} together: accuracy {together[0]:.2f}, NLL {together[1]:.4f}")


if __name__ == "__main__":
    main()
