"""Which way to learn an architecture is best, for one network and for an ensemble?

    python studies/architectures.py OUT [--preset cifar10-fast] [--seeds 0,1] [--entries gdas,snas] [--set key=value …]

For every entry and seed: a search; ten chains of its expected architecture and ten of its draws, 30 epochs each; both
as ensembles on clean and shifted images. Everything lies in a run directory of its own under OUT, so a call that is cut
off goes on where it was, and several calls may share OUT. After every run OUT/table.md is written anew, from what all
of OUT/rows/ holds. At toy size:

    few="--set ensemble.members=3 --set search.queries=6 --set search.epochs=4"
    python studies/architectures.py runs/toy --preset tiny --seeds 0 $few
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch

from uraenas.architectures import Searched, entropy_of
from uraenas.base.errors import UraenasError
from uraenas.base.files import read_json, write_json
from uraenas.base.whole_files import whole_file
from uraenas.run.config import Config, parse_assignments, preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

COPIES, DRAWS = "deep-ensemble", "uraenas-a"
# All searches in a supernet have the same epochs and the same steps of what is learned.
STEP = 1e-3
ENTRIES: dict[str, dict[str, Any]] = {
    **{
        name: {"search.distribution": name, f"search.{name}.step_size": STEP}
        for name in ("dirichlet", "darts", "snas", "gdas", "balenas", "bayesnas")
    },
    "drnas-progressive": {
        "search.distribution": "dirichlet",
        "search.dirichlet.step_size": STEP,
        "search.partial": "4,2",
        "search.keep": "5,3",
        "search.still": 0.2,
    },
    "darts-2nd": {"search.distribution": "darts", "search.darts.step_size": STEP, "search.order": 2},
    **{
        name: {"search.distribution": name}
        for name in ("random", "evolution", "reinforce", "local", "bayesian")
    },
}
SHARED = {
    "methods": f"{COPIES},{DRAWS}",
    "ensemble.members": 10,
    "train.epochs": 30,
    "train.sampled.architectures": 10,
    "train.sampled.temperature": 1.0,  # as it was learned
    "train.sampled.draw_none": False,
    "evaluate.references": False,
}
DRAWN = 300  # to tell the entropy of an edge
SHIFTS = {"none": "", "mean15": "shifted_", "mean4": "shifted_"}  # suite means: CIFAR-10-C, and small images


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", default="cifar10-fast")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--entries", default=",".join(ENTRIES))
    parser.add_argument(
        "--set", action="append", default=[], help="key=value, for every entry that has the key"
    )
    given = parser.parse_args()
    names, seeds = given.entries.split(","), [int(seed) for seed in given.seeds.split(",")]
    for name in names:
        if name not in ENTRIES:
            parser.error(f"unknown entry {name!r}; there are {', '.join(ENTRIES)}")
    changes = parse_assignments(given.set)
    for seed in seeds:
        for name in names:
            config = settings_of(name, given.preset, seed, changes)
            row = {"entry": name, "seed": seed, **outcome(given.out / f"{name}-{seed}", config)}
            write_json(given.out / "rows" / f"{name}-{seed}.json", row)
            write_table(given.out)
            print(json.dumps(row), flush=True)


def settings_of(name: str, base: str, seed: int, changes: dict[str, str]) -> Config:
    """The settings of a run; of the changes those that it has a use for."""
    own = {**SHARED, **ENTRIES[name], "seed": seed}
    choices = {
        **SHARED,
        "search.distribution": own["search.distribution"],
    }  # which decide what keys there are
    has = preset(base, choices).values
    return preset(base, {**own, **{key: value for key, value in changes.items() if key in has}})


def outcome(path: Path, config: Config) -> dict[str, Any]:
    """What a run has come to; it is begun, or gone on with, where that is needed."""
    try:
        pipeline = Pipeline.start(path, config)
        searched = pipeline.search()
        assert searched is not None
        found = facts_of(searched, pipeline.run)
        if not searched.space.is_valid(searched.expected):  # it is no network: there are draws alone
            pipeline.config = config.only(DRAWS)
        pipeline.train(searched)
        if not pipeline.run.has("metrics.json"):
            pipeline.evaluate()
    except UraenasError as error:  # such as a distribution that draws no network
        return {"failed": str(error)}
    labels = torch.from_numpy(pipeline.measured.test.labels)
    return {**found, **measured(pipeline.run, labels)}


def facts_of(searched: Searched, run: Run) -> dict[str, Any]:
    """Of the distribution: its expected architecture, how spread its draws are, and what it cost."""
    entropies = entropy_of(searched.drawn_shares(DRAWN))
    return {
        "expected": str(searched.expected),
        "skips": str(searched.expected).count("skip_connect"),
        "entropy_per_edge": float(entropies.mean()),
        "search_seconds": run.costs.read()["search"]["seconds"],
    }


def measured(run: Run, labels: torch.Tensor) -> dict[str, Any]:
    """Members alone, from their predictions on clean images, and both ensembles, raw."""
    rows = run.metrics().rows
    found: dict[str, Any] = {}
    for method in (COPIES, DRAWS):
        own = [row for row in rows if row.method == method and row.calibration == "raw"]
        size = max((row.members for row in own), default=0)
        for row in own:
            if row.members == size and row.shift in SHIFTS and row.metric in ("accuracy", "ece", "nll"):
                found[f"{method}_{SHIFTS[row.shift]}{row.metric}"] = row.value
        clean = next((row.dataset for row in own if row.shift == "none"), "")
        if run.has(file := run.predictions_file(method, clean)):
            log_p = run.read_tensors(file)[0]["log_probabilities"]
            each = (log_p.argmax(dim=-1) == labels).double().mean(dim=1)
            found[f"{method}_members"] = each.tolist()
    return found


def write_table(out: Path) -> None:
    """Of all rows that there are, in the order of the entries."""
    rows = [read_json(path) for path in (out / "rows").glob("*.json")]
    rows.sort(key=lambda row: (list(ENTRIES).index(row["entry"]), row["seed"]))
    head = (
        "Entry | Seed | Expected architecture | Entropy per edge | Search, s | One copy | One draw | Copies: Acc, ECE, "
        "NLL | shifted | Draws: Acc, ECE, NLL | shifted"
    )
    lines = [f"| {head} |", "|" + "---|" * (head.count("|") + 1)]
    lines += [f"| {' | '.join(cells_of(row))} |" for row in rows]
    with whole_file(out / "table.md") as file:
        file.write(("\n".join(lines) + "\n").encode())


def cells_of(row: dict[str, Any]) -> list[str]:
    begun = [row["entry"], str(row["seed"])]
    if "failed" in row:
        return [*begun, row["failed"], *["–"] * 8]
    facts = [
        f"`{row['expected'].replace('|', '/')}`",
        f"{row['entropy_per_edge']:.3f}",
        f"{row['search_seconds']:.1f}",
    ]
    members = [_spread(row.get(f"{method}_members")) for method in (COPIES, DRAWS)]
    both = [_three(row, f"{method}_{where}") for method in (COPIES, DRAWS) for where in ("", "shifted_")]
    return [*begun, *facts, *members, *both]


def _spread(values: list[float] | None) -> str:
    """Mean ± standard deviation, in percent."""
    if not values:
        return "–"
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))
    return f"{100 * mean:.2f} ± {100 * deviation:.2f} (n = {len(values)})"


def _three(row: dict[str, Any], prefix: str) -> str:
    if f"{prefix}accuracy" not in row:
        return "–"
    accuracy, ece, nll = (row[f"{prefix}{name}"] for name in ("accuracy", "ece", "nll"))
    return f"{100 * accuracy:.2f}, {ece:.4f}, {nll:.3f}"


if __name__ == "__main__":
    main()
