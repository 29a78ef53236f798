"""What short cycles after a long one bring: chains that start from finished members, judged on held-out images only.

    python benchmarks/restarts.py RUN [--method uraenas] [--members 0 2 5 8] [--epochs 10] [--cycles 3] [--out FILE]

Each cycle begins with a fraction of the step size (`train.restart`) and ends in one more sample of every chain. A line
for the members as they are, then one for each number of cycles that were added to them.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
from temperatures import Pilot, tell

from uraenas import Run
from uraenas.chains import ChainSpec, ChainState
from uraenas.config import from_json
from uraenas.ensemble import Member
from uraenas.stages import Pipeline


def chain_from(member: Member, number: int) -> ChainState:
    """A chain whose weights are this member's."""
    tensors = {
        "weights": member.weights,
        "velocity": torch.zeros_like(member.weights),
        "statistics": member.statistics,
    }
    return ChainState(ChainSpec("sampled", "sampled", number, member.genotype), 0, tensors)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--method", default="uraenas")
    parser.add_argument("--members", type=int, nargs="+", default=[0, 2, 5, 8])
    parser.add_argument("--epochs", type=int, default=10, help="of one cycle")
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--restart", type=float, nargs="+", default=[0.5, 0.25, 0.1])
    parser.add_argument("--temperature", type=float, nargs="+", default=[5e-3, 1e-1])
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()

    run = Run.find(options.run)
    pipeline = Pipeline(run, from_json(run.read_json("config.json")))
    train = pipeline.config.train
    everyone = run.ensemble(options.method).members
    before = [everyone[number] for number in options.members]
    chains = [chain_from(member, 3000 + number) for number, member in enumerate(before)]
    print("chains                 members, ensemble: accuracy, NLL, ECE; alone: accuracy, NLL, ECE")
    settings = replace(
        train,
        epochs=options.epochs * options.cycles,
        cycles=options.cycles,
        first_cycle=0,
        weight_samples=options.cycles,
    )
    row = Pilot(pipeline, settings).judge(before)
    tell("as they are", row)
    rows = [row]
    for restart in options.restart:
        for temperature in options.temperature:
            step_size = restart * train.sampler_step_size
            pilot = Pilot(pipeline, replace(settings, sampler_step_size=step_size))
            start = time.monotonic()
            _, samples = pilot.run(chains, temperature, settings.epochs)
            seconds = time.monotonic() - start
            for cycle in range(1, options.cycles + 1):
                row = pilot.judge([*before, *samples[: cycle * len(before)]])
                rows.append(row | {"restart": restart, "T": temperature, "cycles": cycle, "seconds": seconds})
                tell(f"restart {restart}, T {temperature}, {cycle}", row)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
