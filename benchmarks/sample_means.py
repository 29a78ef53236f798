"""What the mean of a chain's samples is worth beside its last sample or a deep member, on held-out images.

    python benchmarks/sample_means.py FILE [--predict RUN [--method M] [--samples 3]] [--beside FILE:KIND ...]

With --predict, the file is first written: what the members of the run's method M predict for the held-out images if
they are means; if not, what the last sample of each chain of `uraenas` and the mean of its newest ones do. Then figures
of each kind in the file, and of as many members of a kind from another file of the same images: all together, four of
them, one alone. Last, differences to the means, with paired bootstrap intervals over images.
"""

import argparse
import itertools
import random
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from uraenas import Run, metrics
from uraenas.average import mean_of
from uraenas.ensemble import Member, MembersPredictor
from uraenas.stages import Pipeline

RESAMPLES = 1000
SUBSETS = 40  # of members, at most


def predictions(run: Run, method: str, count: int) -> dict[str, Tensor]:
    """Log-probabilities [M, N, K] of means, and of last samples if there are any, and the labels."""
    pipeline = Pipeline.resume(run.path)
    task, engine = pipeline.task, pipeline.engine
    if pipeline.config.train.average_samples:
        members = {"mean": list(run.ensemble(method).members)}
    else:
        members = samples_and_means(run, pipeline, count)
    tensors = {
        kind: MembersPredictor(group, task.skeleton, task.normalisation, engine)(task.held_out.images).half()
        for kind, group in members.items()
    }
    return tensors | {"labels": torch.from_numpy(task.held_out.labels)}


def samples_and_means(run: Run, pipeline: Pipeline, count: int) -> dict[str, list[Member]]:
    """Of the chains of `uraenas`: each one's last sample, and the mean of so many of the newest."""
    task, engine = pipeline.task, pipeline.engine
    loader = task.loader(task.train, pipeline.config.train.batch, engine)
    chains = sorted(path.parent.name for path in run.path.glob("chains/sampled-sampled-*/samples"))
    samples = [run.samples(chain)[:count] for chain in chains]
    return {
        "last": [newest[0] for newest in samples],
        "mean": [mean_of(newest, task.skeleton, loader, engine, pipeline.config.seed) for newest in samples],
    }


def figures(log_p: Tensor, labels: Tensor) -> Tensor:
    """Accuracy in %, NLL and ECE."""
    accuracy, nll = metrics.accuracy(log_p, labels), metrics.nll(log_p, labels)
    return torch.tensor([100 * accuracy, nll, metrics.ece(log_p, labels)])


def of_size(log_p: Tensor, labels: Tensor, size: int) -> Tensor:
    """Figures of an ensemble of so many of these members: mean over all choices, or forty random ones."""
    choices = list(itertools.combinations(range(len(log_p)), size))
    chosen = random.Random(0).sample(choices, min(SUBSETS, len(choices)))
    return torch.stack([figures(metrics.mixture(log_p[list(some)]), labels) for some in chosen]).mean(dim=0)


def written(values: Tensor, sign: str = "") -> str:
    accuracy, nll, ece = values.tolist()
    return f"{accuracy:{sign}.2f} {nll:{sign}.4f} {ece:{sign}.4f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--predict", type=Path, metavar="RUN")
    parser.add_argument("--method", default="uraenas")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--beside", nargs="+", default=[], metavar="FILE:KIND")
    options = parser.parse_args()
    if options.predict:
        save_file(predictions(Run.find(options.predict), options.method, options.samples), options.file)
    stored = load_file(options.file)
    if not {"labels", "mean"} <= stored.keys():
        parser.error(f"{options.file} holds no means")
    labels = stored.pop("labels")
    for text in options.beside:
        path, _, kind = text.rpartition(":")
        beside = load_file(path)
        if not torch.equal(beside["labels"], labels):
            parser.error(f"{path} is of other images")
        stored[f"{kind} of {path}"] = beside[kind][: len(stored["mean"])]
    print("held-out accuracy in %, NLL, ECE: together; of four; alone")
    together = {kind: metrics.mixture(log_p.double()) for kind, log_p in stored.items()}
    for kind, log_p in stored.items():
        sizes = (len(log_p), min(4, len(log_p)), 1)
        words = "; ".join(written(of_size(log_p.double(), labels, size)) for size in sizes)
        print(f"{kind}, {len(log_p)} members: {words}")
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randint(len(labels), (len(labels),), generator=generator) for _ in range(RESAMPLES)]
    for other in [kind for kind in together if kind != "mean"]:
        differences = torch.stack(
            [figures(together["mean"][k], labels[k]) - figures(together[other][k], labels[k]) for k in drawn]
        )
        low, high = differences.quantile(torch.tensor([0.025, 0.975]), dim=0)
        whole = figures(together["mean"], labels) - figures(together[other], labels)
        print(f"mean − {other}: {written(whole, '+')}, from {written(low, '+')}, to {written(high, '+')}")


if __name__ == "__main__":
    main()
