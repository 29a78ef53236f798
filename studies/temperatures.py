"""Which temperatures suit a learned distribution? Short chains, judged on held-out images only.

    python studies/temperatures.py RUN [--out FILE]

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

from uraenas.architectures import Searched
from uraenas.base.errors import UraenasError
from uraenas.ensemble import Member, MembersPredictor
from uraenas.evaluation import metrics
from uraenas.learning.chains import ChainSpec, ChainState, initial_chain
from uraenas.learning.sources import Sampled
from uraenas.learning.train import StackOfChains, Training
from uraenas.run.pipeline import Pipeline
from uraenas.spaces import Architecture
from uraenas.weights import Langevin

SAMPLES = 4  # of a chain that compares temperatures of weights
Row = dict[str, Any]


class Pilot:
    """Short chains of one cycle, with a run's data, search and settings."""

    def __init__(self, pipeline: Pipeline, searched: Searched) -> None:
        self.pipeline, self.task, self.searched = pipeline, pipeline.task, searched
        self.config = pipeline.config.only("uraenas")
        self.loader = self.task.loader(self.task.train, self.config.train.batch, pipeline.engine)
        method: Any = self.config.method("uraenas")
        self.source: Sampled = method.source
        self.weights: Langevin = replace(method.weights, cycles=1, peak=0.0)

    def drawn(self, count: int, temperature: float) -> list[Architecture]:
        """Architectures at this T_θ."""
        source = replace(self.source, temperature=temperature)
        return source.draw(self.task.space, self.searched, count, self.config.seed)[0]

    def start(self, architectures: Sequence[Architecture], first: int, samples: int) -> list[ChainState]:
        """Chains at their beginning; each number has its own initial weights and batch order."""
        weights = replace(self.weights, samples=samples)
        specs = [ChainSpec("sampled", weights, first + n, one) for n, one in enumerate(architectures)]
        return [initial_chain(spec, self.task.space, self.config.seed) for spec in specs]

    def run(
        self, chains: Sequence[ChainState], epochs: int, until: int
    ) -> tuple[list[ChainState], list[Member]]:
        """The chains of so many epochs after `until`, and what they collected on the way, the latest last."""
        settings, engine = replace(self.config.train, epochs=epochs), self.pipeline.engine
        stack = StackOfChains(
            chains, Training(settings, self.task.space, self.loader, engine, self.config.seed)
        )
        collected: list[Member] = []
        while stack.epoch < until:
            collected += stack.advance()
        if any(stack.failures):
            raise UraenasError(f"a chain diverged: {', '.join(filter(None, stack.failures))}")
        states = stack.states()
        engine.release_memory()
        return states, collected

    def judge(self, members: Sequence[Member]) -> Row:
        """Held-out figures of the ensemble, and of its members on average."""
        task = self.task
        predict = MembersPredictor(members, task.space, task.normalisation, self.pipeline.engine)
        log_p, labels = predict(task.held_out.images), torch.from_numpy(task.held_out.labels)
        alone = metrics.of_each(log_p, labels)
        together = metrics.of_each(metrics.mixture(log_p)[None], labels)
        return {
            "members": len(members),
            "ensemble": {name: float(value) for name, value in together.items()},
            "alone": {name: float(value.mean()) for name, value in alone.items()},
        }


def of_architectures(pilot: Pilot, temperatures: Sequence[float], count: int, epochs: int) -> list[Row]:
    """A row of the expected architecture, and one for each T_θ; all chains run side by side."""
    groups: list[tuple[float | None, list[Architecture]]] = [(None, [pilot.searched.expected] * count)]
    groups += [(temperature, pilot.drawn(count, temperature)) for temperature in temperatures]
    chains = [chain for n, (_, drawn) in enumerate(groups) for chain in pilot.start(drawn, 1000 + 100 * n, 1)]
    _, members = pilot.run(chains, epochs, epochs)
    rows = []
    for n, (temperature, drawn) in enumerate(groups):
        row = pilot.judge(members[n * count : (n + 1) * count])
        rows.append({**row, "T_θ": temperature, "genotypes": [str(one) for one in drawn]})
        tell("expected" if temperature is None else f"T_θ = {temperature}", row)
    return rows


def of_weights(
    pilot: Pilot, temperatures: Sequence[float], drawn: Sequence[Architecture], epochs: int
) -> list[Row]:
    """Two rows for each T: the chains' last samples, and all."""
    chains = pilot.start(drawn, 2000, SAMPLES)
    explored, _ = pilot.run(chains, epochs, chains[0].spec.explored(epochs))
    rows: list[Row] = []
    for temperature in temperatures:
        _, members = pilot.run([at(chain, temperature) for chain in explored], epochs, epochs)
        for kind, kept in (("last samples", members[-len(drawn) :]), (f"all {SAMPLES}", members)):
            rows.append({"T": temperature, "samples": kind, **pilot.judge(kept)})
            tell(f"T = {temperature}, {kind}", rows[-1])
    return rows


def at(chain: ChainState, temperature: float) -> ChainState:
    """The chain as it goes on at another temperature."""
    weights: Any = chain.spec.weights
    return replace(chain, spec=replace(chain.spec, weights=replace(weights, temperature=temperature)))


def tell(name: str, row: Row) -> None:
    figures = [f"{row[kind][m]:.4f}" for kind in ("ensemble", "alone") for m in ("accuracy", "nll", "ece")]
    print(f"{name:24} {row['members']:3}  {'  '.join(figures)}", flush=True)


def lowest(rows: Iterable[Row], key: str) -> float:
    """The temperature with the lowest NLL."""
    tried = [row for row in rows if row[key] is not None]
    return float(min(tried, key=lambda row: row["ensemble"]["nll"])[key])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--architecture", type=float, nargs="+", default=[0.1, 0.25, 0.5], help="T_θ to try")
    parser.add_argument("--chains", type=int, default=6, help="for each T_θ")
    parser.add_argument("--epochs", type=int, default=12, help="of these chains")
    parser.add_argument("--weight", type=float, nargs="+", default=[1e-4, 5e-3, 5e-2], help="T to try")
    parser.add_argument("--weight-chains", type=int, default=3, help="for each T")
    parser.add_argument("--weight-epochs", type=int, default=20, help="of these chains")
    parser.add_argument("--out", type=Path, help="where to write all figures, as JSON")
    options = parser.parse_args()
    pipeline = Pipeline.resume(options.run)
    searched = pipeline.run.searched()
    if searched is None:
        parser.error(f"{options.run} holds no finished search")
    pilot = Pilot(pipeline, searched)
    print("chains                 members, ensemble: accuracy, NLL, ECE; alone: accuracy, NLL, ECE")
    rows = of_architectures(pilot, options.architecture, options.chains, options.epochs)
    best = lowest(rows, "T_θ")
    drawn = pilot.drawn(options.weight_chains, best)
    weight_rows = of_weights(pilot, options.weight, drawn, options.weight_epochs)
    chosen = {"T_θ": best, "T": lowest((r for r in weight_rows if r["samples"] == "last samples"), "T")}
    print("chosen:", json.dumps(chosen, ensure_ascii=False))
    if options.out:
        epochs = {"architectures": options.epochs, "weights": options.weight_epochs}
        facts = {"held_out_images": len(pipeline.task.held_out), "epochs": epochs, "chosen": chosen}
        result = {**facts, "architectures": rows, "weights": weight_rows}
        options.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
