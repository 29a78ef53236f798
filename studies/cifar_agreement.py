"""Do the same chains learn the same on real CIFAR-10, by own kernels and by PyTorch? On one GPU.

    python studies/cifar_agreement.py [--epochs 5] [--members 4] [--engines NAME …] [--out FILE]

A line for each engine: member images per second, held-out NLL of the ensemble, held-out accuracy of each member and of
the ensemble. FILE gets the loss of every epoch, too.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from uraenas.architectures import Dirichlet, Searched
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import Member, MembersPredictor
from uraenas.evaluation import metrics
from uraenas.learning.chains import ChainSpec, initial_chain
from uraenas.learning.train import StackOfChains, Training
from uraenas.run.config import Config, preset
from uraenas.run.task import Task, prepare
from uraenas.spaces import Architecture, Space

METHOD = "uraenas-a"  # point estimates of drawn architectures
# Plausible rather than learned: convolutions and skips are likely, the rest possible.
CONCENTRATION = torch.tensor([[0.3, 1.5, 1.0, 3.0, 0.4]] * 6, dtype=torch.float64)
ENGINES = {
    "kernels, bfloat16": EngineSettings(device="cuda"),
    "PyTorch, bfloat16": EngineSettings(device="cuda", kernels=False),
    "PyTorch, float32": EngineSettings(device="cuda", precision="float32"),
}


def architectures(space: Space, count: int) -> list[Architecture]:
    """Drawn from the distribution above."""
    raw = torch.where(CONCENTRATION < 1, CONCENTRATION.log(), CONCENTRATION - 1)  # β = elu(raw) + 1
    return Searched(space, Dirichlet(), {"raw": raw}).draw(count, seed=0)[0]


def train_with(
    settings: EngineSettings, specs: Sequence[ChainSpec], task: Task, config: Config
) -> dict[str, Any]:
    """One row of the comparison."""
    engine = Engine(settings)
    engine.release_memory()
    torch.cuda.reset_peak_memory_stats()
    loader = task.loader(task.train, config.train.batch, engine)
    chains = [initial_chain(spec, task.space, config.seed) for spec in specs]
    stack = StackOfChains(chains, Training(config.train, task.space, loader, engine, config.seed))
    seconds: list[float] = []
    members: list[Member] = []
    while not stack.done:
        torch.cuda.synchronize()
        start = time.perf_counter()
        members += stack.advance()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return {
        "losses": [[row["loss"] for row in history] for history in stack.histories],
        **judged(members, task),
        "member_images_per_second": len(specs) * loader.steps * loader.batch / min(seconds),
        "first_epoch_seconds": seconds[0],
        "memory_gb": torch.cuda.max_memory_allocated() / 1e9,
        "failures": stack.failures,
    }


def judged(members: Sequence[Member], task: Task) -> dict[str, Any]:
    """Held-out figures; all are predicted by PyTorch in float32, whoever trained them."""
    judge = Engine(EngineSettings(device="cuda", precision="float32"))
    log_p = MembersPredictor(members, task.space, task.normalisation, judge)(task.held_out.images)
    labels, together = torch.from_numpy(task.held_out.labels), metrics.mixture(log_p)
    return {
        "held_out_accuracy": [metrics.accuracy(member, labels) for member in log_p],
        "ensemble_accuracy": metrics.accuracy(together, labels),
        "ensemble_nll": metrics.nll(together, labels),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--out", type=Path, help="where to write all figures, as JSON")
    options = parser.parse_args()
    config = preset("cifar10", {"methods": METHOD, "train.epochs": options.epochs})
    task, weights = prepare(config), config.method(METHOD).weights
    drawn = architectures(task.space, options.members)
    specs = [ChainSpec("sampled", weights, n, one) for n, one in enumerate(drawn)]
    results: dict[str, Any] = {"genotypes": [str(one) for one in drawn]}
    print(f"{'engine':20} {'images/s':>9} {'NLL':>7}  held-out accuracy of members, ensemble")
    for name in options.engines:
        results[name] = row = train_with(ENGINES[name], specs, task, config)
        accuracies = " ".join(f"{100 * a:.2f}" for a in (*row["held_out_accuracy"], row["ensemble_accuracy"]))
        rate, nll = row["member_images_per_second"], row["ensemble_nll"]
        print(f"{name:20} {rate:9.0f} {nll:7.4f}  {accuracies}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
