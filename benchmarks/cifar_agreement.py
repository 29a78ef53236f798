"""The same chains on real CIFAR-10, trained by own kernels and by PyTorch: do they learn the same?

    python benchmarks/cifar_agreement.py [--epochs 5] [--members 4] [--out DIR]

Prints, for each engine, the loss of every epoch and the held-out accuracy of each member, and images per second.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from uraenas import metrics
from uraenas.architecture import ArchitectureDistribution
from uraenas.chains import ChainSpec, initial_chain
from uraenas.config import Config, override, preset
from uraenas.data.loader import Loader
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import Member, MembersPredictor
from uraenas.task import Task, prepare
from uraenas.train import StackOfChains

# Plausible rather than learned: convolutions and skips are likely, the rest possible.
CONCENTRATION = torch.tensor([[0.3, 1.5, 1.0, 3.0, 0.4]] * 6, dtype=torch.float64)
ENGINES = {
    "kernels, bfloat16": EngineSettings(device="cuda"),
    "PyTorch, bfloat16": EngineSettings(device="cuda", kernels=False),
    "PyTorch, float32": EngineSettings(device="cuda", precision="float32"),
}


def train_with(
    settings: EngineSettings, specs: list[ChainSpec], task: Task, config: Config
) -> dict[str, Any]:
    """One row of the comparison."""
    engine = Engine(settings)
    data = task.dataset
    loader = Loader(
        task.train,
        task.normalisation,
        config.train.batch,
        data.padding,
        data.flip,
        engine.device,
        engine.dtype,
    )
    rule = config.train.rule("point", loader.steps, loader.count)
    chains = [initial_chain(spec, task.skeleton, config.seed) for spec in specs]
    stack = StackOfChains(chains, rule, task.skeleton, loader, engine, config.seed)
    seconds: list[float] = []
    members: list[Member] = []
    while not stack.done:
        torch.cuda.synchronize()
        start = time.perf_counter()
        members = stack.advance() or members
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    judge = Engine(EngineSettings(device="cuda", precision="float32"))
    log_p = MembersPredictor(members, task.skeleton, task.normalisation, judge)(task.held_out.images)
    labels = torch.from_numpy(task.held_out.labels)
    return {
        "losses": [[row["loss"] for row in history] for history in stack.histories],
        "held_out_accuracy": [metrics.accuracy(member.double(), labels) for member in log_p],
        "ensemble_accuracy": metrics.accuracy(metrics.mixture(log_p), labels),
        "ensemble_nll": metrics.nll(metrics.mixture(log_p), labels),
        "member_images_per_second": len(specs) * loader.steps * loader.batch / min(seconds),
        "first_epoch_seconds": seconds[0],
        "memory_gb": torch.cuda.max_memory_allocated() / 1e9,
        "failures": stack.failures,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES))
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    changes = {"train.epochs": options.epochs, "train.cycles": 1, "train.weight_samples": 1}
    config = override(preset("cifar10"), changes)
    task = prepare(config)
    genotypes, _ = ArchitectureDistribution(CONCENTRATION).sample_genotypes(options.members, seed=0)
    specs = [ChainSpec("sampled", "point", n, genotype) for n, genotype in enumerate(genotypes)]
    results: dict[str, Any] = {"genotypes": [str(genotype) for genotype in genotypes]}
    for name in options.engines:
        torch.cuda.reset_peak_memory_stats()
        results[name] = row = train_with(ENGINES[name], specs, task, config)
        print(name, json.dumps(row), flush=True)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / "cifar_agreement.json").write_text(json.dumps(results, indent=1))
    print(f"{'engine':20} {'images/s':>9} {'NLL':>7}  held-out accuracy of members, ensemble")
    for name in options.engines:
        row = results[name]
        accuracies = " ".join(f"{100 * a:.2f}" for a in (*row["held_out_accuracy"], row["ensemble_accuracy"]))
        print(f"{name:20} {row['member_images_per_second']:9.0f} {row['ensemble_nll']:7.4f}  {accuracies}")


if __name__ == "__main__":
    main()
