"""What a sampling stage of short cosines brings: chains from finished members, judged on held-out images only.

    python benchmarks/short_cosines.py RUN [--method uraenas] [--members 0 2 5 8] [--samples 2] [--out FILE]

Each cosine begins with a fraction of the step size (`train.sampling_peak`) and ends in one more sample of every chain.
A line for the members as they are, then one for each number of samples that take their place.
"""

import argparse
import itertools
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
from uraenas.errors import UraenasError
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
    parser.add_argument("--epochs", type=int, default=10, help="of one cosine")
    parser.add_argument("--samples", type=int, default=2, help="of each chain, one from each cosine")
    parser.add_argument("--peak", type=float, nargs="+", default=[0.5, 0.2])
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
        epochs=options.epochs * options.samples,
        cycles=1,
        weight_samples=options.samples,
        exploration=0.0,
    )
    row = Pilot(pipeline, settings).judge(before)
    tell("as they are", row)
    rows = [row]
    for peak, temperature in itertools.product(options.peak, options.temperature):
        pilot = Pilot(pipeline, replace(settings, sampling_peak=peak))
        start = time.monotonic()
        try:
            _, samples = pilot.run(chains, temperature, settings.epochs)
        except UraenasError as error:
            print(f"peak {peak}, T {temperature}: {error}", flush=True)
            continue
        seconds = time.monotonic() - start
        for count in range(1, options.samples + 1):
            row = pilot.judge(samples[: count * len(before)])
            rows.append(row | {"peak": peak, "T": temperature, "samples": count, "seconds": seconds})
            tell(f"peak {peak}, T {temperature}, {count}", row)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
