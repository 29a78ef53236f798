"""How a run's expected genotype ranks among random ones trained the same way, by held-out NLL.

    python benchmarks/genotype_rank.py RUN [--random 50] [--out FILE]

Uses the run's own settings for point estimates; held-out images only, so the test set stays unseen.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from uraenas import draws, metrics
from uraenas.architecture import uniform
from uraenas.chains import ChainSpec, initial_chain
from uraenas.ensemble import Member, MembersPredictor
from uraenas.stages import Pipeline
from uraenas.train import train


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--random", type=int, default=50)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    pipeline = Pipeline.resume(options.run)
    task, config = pipeline.task, pipeline.config
    distribution = pipeline.search()
    assert distribution is not None
    others, _ = uniform().sample_genotypes(options.random, draws.key(config.seed, "rank"))
    genotypes = [distribution.expected_genotype(), *others]
    # Each gets its own number, hence its own initial weights and batch order.
    specs = [ChainSpec("uniform", "point", 100 + n, genotype) for n, genotype in enumerate(genotypes)]
    chains = [initial_chain(spec, task.skeleton, config.seed) for spec in specs]
    loader = task.loader(task.train, config.train.batch, pipeline.engine)
    members: dict[str, Member] = {}
    train(
        chains,
        config.train,
        task.skeleton,
        loader,
        pipeline.engine,
        config.seed,
        collect=lambda member: members.__setitem__(member.origin.chain, member),
        checkpoint=lambda states: None,
    )
    ordered = [members[spec.name] for spec in specs]
    predict = MembersPredictor(ordered, task.skeleton, task.normalisation, pipeline.engine)
    log_p = predict(task.held_out.images).double()
    labels = torch.from_numpy(task.held_out.labels)
    rows: list[dict[str, Any]] = [
        {
            "genotype": str(genotype),
            "nll": metrics.nll(prediction, labels),
            "accuracy": metrics.accuracy(prediction, labels),
        }
        for genotype, prediction in zip(genotypes, log_p, strict=True)
    ]
    rank = 1 + sum(row["nll"] < rows[0]["nll"] for row in rows[1:])
    result = {"rank": rank, "of": len(rows), "held_out_images": len(labels), "rows": rows}
    print(f"expected genotype {rows[0]['genotype']}")
    print(
        f"held-out NLL {rows[0]['nll']:.4f}, accuracy {rows[0]['accuracy']:.4f}: rank {rank} of {len(rows)}"
    )
    ranked = sorted(row["nll"] for row in rows[1:])
    quartiles = ", ".join(f"{ranked[int(q * (len(ranked) - 1))]:.4f}" for q in (0, 0.25, 0.5, 0.75, 1))
    print(f"random genotypes, NLL at 0, 25, 50, 75, 100 %: {quartiles}")
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
