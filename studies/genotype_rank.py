"""How does a run's expected genotype rank among random ones trained the same way, by held-out NLL?

    python studies/genotype_rank.py RUN [--random 50] [--out FILE]

Uses the run's search and its settings for point estimates; held-out images only, so the test set stays unseen.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from uraenas.architectures import Dirichlet, Searched
from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.ensemble import Member, MembersPredictor
from uraenas.evaluation import metrics
from uraenas.learning.chains import ChainSpec, initial_chain
from uraenas.learning.train import Training, train
from uraenas.run.pipeline import Pipeline
from uraenas.spaces import Architecture

FIRST = 100  # numbers from here on have initial weights and batch orders that no chain of the run has


def trained(pipeline: Pipeline, architectures: Sequence[Architecture]) -> list[Member]:
    """A point estimate of each, by the run's settings."""
    config, task = pipeline.config, pipeline.task
    weights = config.only("random-ensemble").method("random-ensemble").weights
    specs = [ChainSpec("uniform", weights, FIRST + n, one) for n, one in enumerate(architectures)]
    members: dict[str, Member] = {}
    loader = task.loader(task.train, config.train.batch, pipeline.engine)
    train(
        [initial_chain(spec, task.space, config.seed) for spec in specs],
        Training(config.train, task.space, loader, pipeline.engine, config.seed),
        collect=lambda member: members.update({member.origin.chain: member}),
        checkpoint=lambda states: None,
    )
    if diverged := [str(spec.architecture) for spec in specs if spec.name not in members]:
        raise UraenasError(f"chains diverged: {', '.join(diverged)}; use a smaller step size")
    return [members[spec.name] for spec in specs]


def judged(pipeline: Pipeline, members: Sequence[Member]) -> list[dict[str, Any]]:
    """Held-out NLL and accuracy of each member alone."""
    task = pipeline.task
    predict = MembersPredictor(members, task.space, task.normalisation, pipeline.engine)
    labels = torch.from_numpy(task.held_out.labels)
    found = metrics.of_each(predict(task.held_out.images), labels)
    figures = zip(members, found["nll"].tolist(), found["accuracy"].tolist(), strict=True)
    return [{"genotype": str(one.architecture), "nll": nll, "accuracy": right} for one, nll, right in figures]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--random", type=int, default=50, help="how many random genotypes")
    parser.add_argument("--out", type=Path, help="where to write all figures, as JSON")
    options = parser.parse_args()
    pipeline = Pipeline.resume(options.run)
    searched, space = pipeline.run.searched(), pipeline.task.space
    if searched is None:
        parser.error(f"{options.run} holds no finished search")
    key = draws.key(pipeline.config.seed, "rank")
    others, _ = Searched.nothing(space, Dirichlet()).draw(options.random, key)
    expected, *rows = judged(pipeline, trained(pipeline, [searched.expected, *others]))
    rank = 1 + sum(row["nll"] < expected["nll"] for row in rows)
    print(f"expected genotype {expected['genotype']}")
    print(f"held-out NLL {expected['nll']:.4f}, accuracy {expected['accuracy']:.4f}: ", end="")
    print(f"rank {rank} of {1 + len(rows)} on {len(pipeline.task.held_out)} images")
    ranked = sorted(row["nll"] for row in rows)
    quartiles = ", ".join(f"{ranked[int(q * (len(ranked) - 1))]:.4f}" for q in (0, 0.25, 0.5, 0.75, 1))
    print(f"random genotypes, NLL at 0, 25, 50, 75, 100 %: {quartiles}")
    if options.out:
        facts = {"rank": rank, "of": 1 + len(rows), "held_out_images": len(pipeline.task.held_out)}
        options.out.write_text(json.dumps({**facts, "rows": [expected, *rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
