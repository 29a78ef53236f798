"""Which temperatures suit a learned distribution: short chains, judged on held-out images only.

    python benchmarks/temperatures.py RUN [--out FILE]

The run needs nothing but its search. First the temperature of architectures T_θ: chains of architectures drawn from
Dirichlet(β/T_θ), beside as many of the expected architecture. Then the temperature of weights T: chains that are the
same until their sampling stage, and go through it once at each T. Lowest held-out NLL of the ensemble is chosen.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from uraenas import draws, metrics
from uraenas.chains import ChainSpec, ChainState, TrainSettings, initial_chain
from uraenas.data.loader import Loader
from uraenas.ensemble import Member, MembersPredictor
from uraenas.base.errors import UraenasError
from uraenas.spaces import Genotype
from uraenas.stages import Pipeline
from uraenas.train import StackOfChains


class Pilot:
    """Short chains of a run's task."""

    def __init__(self, pipeline: Pipeline, settings: TrainSettings) -> None:
        self.pipeline, self.task, self.seed = pipeline, pipeline.task, pipeline.config.seed
        self.settings = settings
        self.loader: Loader = self.task.loader(self.task.train, settings.batch, pipeline.engine)

    def start(self, genotypes: Sequence[Genotype], first: int) -> list[ChainState]:
        """Chains at their beginning; each number has its own initial weights and batch order."""
        specs = [ChainSpec("sampled", "sampled", first + n, genotype) for n, genotype in enumerate(genotypes)]
        return [initial_chain(spec, self.task.skeleton, self.seed) for spec in specs]

    def run(
        self, chains: list[ChainState], temperature: float, until: int
    ) -> tuple[list[ChainState], list[Member]]:
        """The chains after so many epochs, and what they collected on the way, the latest last."""
        settings = replace(self.settings, temperature=temperature)
        rule = settings.rule("sampled", self.loader.steps, self.loader.count)
        stack = StackOfChains(chains, rule, self.task.skeleton, self.loader, self.pipeline.engine, self.seed)
        collected: list[Member] = []
        while stack.epoch < until:
            collected += stack.advance()
        if any(stack.failures):
            raise UraenasError(f"a chain diverged: {', '.join(filter(None, stack.failures))}")
        states = stack.states()
        self.pipeline.engine.release_memory()
        return states, collected

    def judge(self, members: Sequence[Member]) -> dict[str, Any]:
        """Held-out figures of the ensemble, and of its members on average."""
        predict = MembersPredictor(
            list(members), self.task.skeleton, self.task.normalisation, self.pipeline.engine
        )
        log_p = predict(self.task.held_out.images).cpu().double()
        labels = torch.from_numpy(self.task.held_out.labels)
        alone = metrics.of_each(log_p, labels)
        together = metrics.of_each(metrics.mixture(log_p)[None], labels)
        return {
            "members": len(members),
            "ensemble": {name: float(value) for name, value in together.items()},
            "alone": {name: float(value.mean()) for name, value in alone.items()},
        }


def tell(name: str, row: dict[str, Any]) -> None:
    figures = [f"{row[kind][m]:.4f}" for kind in ("ensemble", "alone") for m in ("accuracy", "nll", "ece")]
    print(f"{name:24} {row['members']:3}  {'  '.join(figures)}", flush=True)


def lowest(rows: Iterable[dict[str, Any]], key: str) -> float:
    tried = [row for row in rows if row[key] is not None]
    return float(min(tried, key=lambda row: row["ensemble"]["nll"])[key])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--chains", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=12, help="of the chains that compare architectures")
    parser.add_argument("--architecture", type=float, nargs="+", default=[0.1, 0.25, 0.5])
    parser.add_argument("--weight-chains", type=int, default=3)
    parser.add_argument("--weight-epochs", type=int, default=20)
    parser.add_argument("--weight", type=float, nargs="+", default=[1e-4, 5e-3, 5e-2])
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()

    pipeline = Pipeline.resume(options.run)
    distribution = pipeline.search()
    if distribution is None:
        raise UraenasError(f"no method of {options.run} needs a search")
    run_settings = replace(pipeline.config.train, sampling_peak=0.0)
    seed, draw_none = pipeline.config.seed, run_settings.draw_none
    print("chains                 members, ensemble: accuracy, NLL, ECE; alone: accuracy, NLL, ECE")

    expected = distribution.expected_genotype()
    groups: list[tuple[float | None, list[Genotype]]] = [(None, [expected] * options.chains)]
    for temperature in options.architecture:
        tempered = distribution.tempered(temperature)
        drawn, _ = tempered.sample_genotypes(options.chains, draws.key(seed, "sampled"), draw_none)
        groups.append((temperature, drawn))
    short = replace(run_settings, epochs=options.epochs, cycles=1, weight_samples=1)
    pilot, rows = Pilot(pipeline, short), []
    chains = [
        chain for n, (_, genotypes) in enumerate(groups) for chain in pilot.start(genotypes, 1000 + 100 * n)
    ]
    _, members = pilot.run(chains, run_settings.temperature, options.epochs)
    for n, (group_temperature, genotypes) in enumerate(groups):
        row = pilot.judge(members[n * options.chains : (n + 1) * options.chains])
        row |= {"T_θ": group_temperature, "genotypes": [str(genotype) for genotype in genotypes]}
        rows.append(row)
        tell("expected" if group_temperature is None else f"T_θ = {group_temperature}", row)
    best = lowest(rows, "T_θ")

    samples = 4
    longer = replace(run_settings, epochs=options.weight_epochs, cycles=1, weight_samples=samples)
    pilot, weight_rows = Pilot(pipeline, longer), []
    key = draws.key(seed, "sampled")
    drawn, _ = distribution.tempered(best).sample_genotypes(options.weight_chains, key, draw_none)
    explored, _ = pilot.run(pilot.start(drawn, 2000), 0.0, longer.epochs_alike("sampled"))
    for temperature in options.weight:
        _, members = pilot.run(explored, temperature, longer.epochs)
        for kind, kept in (("last samples", members[-len(drawn) :]), (f"all {samples}", members)):
            row = {"T": temperature, "samples": kind, **pilot.judge(kept)}
            weight_rows.append(row)
            tell(f"T = {temperature}, {kind}", row)
    chosen = {"T_θ": best, "T": lowest((r for r in weight_rows if r["samples"] == "last samples"), "T")}
    print("chosen:", json.dumps(chosen, ensure_ascii=False))
    if options.out:
        result = {
            "held_out_images": len(pipeline.task.held_out),
            "epochs": {"architectures": options.epochs, "weights": options.weight_epochs},
            "chosen": chosen,
            "architectures": rows,
            "weights": weight_rows,
        }
        options.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
