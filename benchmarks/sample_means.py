"""What the mean of a chain's samples is worth beside its last sample, on held-out images.

    python benchmarks/sample_means.py FILE [--predict RUN] [--samples 3] [--deep results/cifar10/held-out.safetensors]

With --predict, the file is first written: what the last sample of each of the run's sampled chains, and the mean of its
newest ones, predict for the held-out images. Then figures of both ensembles, and of as many deep members from another
file of the same images, with paired bootstrap intervals over images.
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from uraenas import Run, metrics
from uraenas.average import mean_of
from uraenas.ensemble import MembersPredictor
from uraenas.stages import Pipeline

RESAMPLES = 1000


def predictions(run: Run, count: int) -> dict[str, Tensor]:
    """Log-probabilities [M, N, K] of last samples and of means, and the labels."""
    pipeline = Pipeline.resume(run.path)
    task, engine = pipeline.task, pipeline.engine
    loader = task.loader(task.train, pipeline.config.train.batch, engine)
    chains = sorted(path.parent.name for path in run.path.glob("chains/sampled-sampled-*/samples"))
    samples = [run.samples(chain)[:count] for chain in chains]
    members = {
        "last": [newest[0] for newest in samples],
        "mean": [mean_of(newest, task.skeleton, loader, engine, pipeline.config.seed) for newest in samples],
    }
    tensors = {
        kind: MembersPredictor(group, task.skeleton, task.normalisation, engine)(task.held_out.images).half()
        for kind, group in members.items()
    }
    return tensors | {"labels": torch.from_numpy(task.held_out.labels)}


def figures(log_p: Tensor, labels: Tensor) -> Tensor:
    """Accuracy in %, NLL and ECE."""
    accuracy, nll = metrics.accuracy(log_p, labels), metrics.nll(log_p, labels)
    return torch.tensor([100 * accuracy, nll, metrics.ece(log_p, labels)])


def written(values: Tensor, sign: str = "") -> str:
    accuracy, nll, ece = values.tolist()
    return f"{accuracy:{sign}.2f} {nll:{sign}.4f} {ece:{sign}.4f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--predict", type=Path, metavar="RUN")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--deep", type=Path)
    options = parser.parse_args()
    if options.predict:
        save_file(predictions(Run.find(options.predict), options.samples), options.file)
    stored = load_file(options.file)
    labels = stored.pop("labels")
    if options.deep:
        beside = load_file(options.deep)
        if not torch.equal(beside["labels"], labels):
            parser.error(f"{options.deep} is of other images")
        stored["deep"] = beside["deep"][: len(stored["last"])]
    together = {kind: metrics.mixture(log_p.double()) for kind, log_p in stored.items()}
    print("held-out accuracy in %, NLL, ECE: together; alone")
    for kind, log_p in stored.items():
        alone = torch.stack([figures(member.double(), labels) for member in log_p]).mean(dim=0)
        print(f"{kind:5} {len(log_p)}: {written(figures(together[kind], labels))}; {written(alone)}")
    random = torch.Generator().manual_seed(0)
    drawn = [torch.randint(len(labels), (len(labels),), generator=random) for _ in range(RESAMPLES)]
    for other in [kind for kind in together if kind != "mean"]:
        differences = torch.stack(
            [figures(together["mean"][k], labels[k]) - figures(together[other][k], labels[k]) for k in drawn]
        )
        low, high = differences.quantile(torch.tensor([0.025, 0.975]), dim=0)
        whole = figures(together["mean"], labels) - figures(together[other], labels)
        print(f"mean − {other}: {written(whole, '+')}, from {written(low, '+')}, to {written(high, '+')}")


if __name__ == "__main__":
    main()
