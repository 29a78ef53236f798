"""Which sampling stage suits a run: chains from finished members, judged on held-out images only.

    python benchmarks/sampling_stages.py RUN [--members 0 2 5 8] [--stages PEAK:SAMPLES ...] [--out FILE]

A stage has so many short cosines, each of which begins with that part of the step size (`train.sampling_peak`) and ends
in a sample of every chain. First the members as they are; then, for each stage, the chains' last samples, all of them
(if they are not more than forty), and the means of their weights (`train.average_samples`).
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
from uraenas.average import mean_of
from uraenas.chains import ChainSpec, ChainState
from uraenas.config import from_json
from uraenas.ensemble import Member
from uraenas.base.errors import UraenasError
from uraenas.stages import Pipeline

MOST_MEMBERS = 40  # of an ensemble that is judged


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
    parser.add_argument("--epochs", type=int, default=40, help="of the stage")
    parser.add_argument("--stages", nargs="+", default=["0.2:4", "0.2:40", "0.5:40"], metavar="PEAK:SAMPLES")
    parser.add_argument("--temperature", type=float, nargs="+", default=[5e-3])
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()

    run = Run.find(options.run)
    pipeline = Pipeline(run, from_json(run.read_json("config.json")))
    everyone = run.ensemble(options.method).members
    before = [everyone[number] for number in options.members]
    chains = [chain_from(member, 3000 + number) for number, member in enumerate(before)]
    settings = replace(
        pipeline.config.train,
        epochs=options.epochs,
        cycles=1,
        exploration=0.0,
        weight_samples=1,
        sampling_peak=0.0,
    )
    print("chains                 members, ensemble: accuracy, NLL, ECE; alone: accuracy, NLL, ECE")
    rows = [Pilot(pipeline, settings).judge(before) | {"kind": "before"}]
    tell("as they are", rows[0])
    for stage, temperature in itertools.product(options.stages, options.temperature):
        peak, count = float(stage.split(":")[0]), int(stage.split(":")[1])
        pilot = Pilot(pipeline, replace(settings, sampling_peak=peak, weight_samples=count))
        start = time.monotonic()
        try:
            _, samples = pilot.run(chains, temperature, options.epochs)
        except UraenasError as error:
            print(f"{stage}, T {temperature}: {error}", flush=True)
            continue
        seconds = time.monotonic() - start
        means = [
            mean_of(
                samples[number :: len(chains)][::-1],
                pipeline.task.skeleton,
                pilot.loader,
                pipeline.engine,
                pilot.seed,
            )
            for number in range(len(chains))
        ]
        kinds = {"last": samples[-len(chains) :], "all": samples, "mean": means}
        for kind, members in kinds.items():
            if len(members) <= MOST_MEMBERS:
                row = pilot.judge(members)
                tell(f"{stage}, T {temperature}, {kind}", row)
                facts = {"peak": peak, "samples": count, "T": temperature, "seconds": seconds}
                rows.append(row | {"kind": kind} | facts)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
