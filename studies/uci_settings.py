"""Which settings suit the UCI tables? Pools of chains, and what ensembles of them would be, on training rows alone.

    python studies/uci_settings.py train DATA --out POOLS [--jobs 13] [--seconds 500] [--sets …] [--pools …]
    python studies/uci_settings.py judge POOLS --out rows.jsonl

The training rows of a customary split are divided once more, nine to one; the tenth takes the place of test rows, and
the real ones are never looked at. A pool is what chains of many recipes predict: of the rows that each left out, and of
that tenth. Choices of members and ways to calibrate them need no training, so all are judged on the same pools: half of
the rows that chains left out choose and calibrate, the other half judges, and the other way round.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from uci import COMMON, PACKAGED, PIECES, SETS, in_parallel, of_rows, settings_for

from uraenas.base import draws
from uraenas.data import Dataset
from uraenas.data.targets import FLOOR, Numbers
from uraenas.ensemble import selection
from uraenas.ensemble.residuals import Residuals
from uraenas.evaluation import numbers
from uraenas.learning.methods import Method
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline

POOLED = {
    **COMMON,
    "train.prior_deviation": 0.5,
    "train.varied.prior_deviation": "0.2,20",
    "train.varied.step_size": "0.2,3",
    "train.sampled.architectures": 40,
    "ensemble.members": 40,
    "ensemble.selection": "in-turn",
}


@dataclass(frozen=True)
class Kind:
    """Of a pool."""

    settings: dict[str, Any]
    pieces: bool = False  # whether columns are given piece by piece as well
    power: float = 0.0  # of the variance that losses are weighted with (Seitzer and others, 2022)
    longer: int = 1


PACKAGED["pool-adam"] = Method("sampled", "adam", recipes="varied")
KINDS = {
    "plain": Kind({}),
    "pieces": Kind({}, pieces=True),
    "weighted": Kind({}, power=0.5),
    "both": Kind({}, pieces=True, power=0.5),
    "wide": Kind({"network.widths": "32,64"}),
    "long": Kind({}, longer=3),
}
LARGE = ("naval", "power", "kin8nm")


def is_wanted(one: str, name: str, split: int) -> bool:
    """Small tables are learned by heart as it is, and large ones need fewer splits."""
    return split < 2 if one in LARGE else name != "long"


def inner(folder: Path, one: str, split: int, pieces: bool) -> Dataset:
    """The training rows of a split, a tenth of them for testing."""
    with np.load(folder / f"{one}.npz") as arrays:
        known = ~arrays["test"][split].astype(bool)
        x, y = arrays["x"][known], arrays["y"][known].astype(np.float64)
    key = draws.key(split, "inner", one) & (2**63 - 1)
    apart = draws.permutation(draws.at(torch.tensor(key), 0), len(y)).numpy()[: len(y) // 10]
    test = np.zeros(len(y), bool)
    test[apart] = True
    return of_rows(one, x, y, test, PIECES if pieces else 0)


def weighted_loss(power: float) -> Callable[..., Tensor]:
    """The negative log-likelihood, each row's times its variance to a power, which has no slope itself."""

    def loss(self: Numbers, outputs: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        variance = FLOOR + F.softplus(outputs[..., 1])
        density = 0.5 * (variance.log() + (labels - outputs[..., 0]) ** 2 / variance)
        own = density * variance.detach() ** power
        return (own if weights is None else own * weights).mean(dim=1)

    return loss


def pool(task: tuple[Path, Path, str, int, str]) -> dict[str, Any]:
    """Train one, and write what its chains predict."""
    folder, out, one, split, name = task
    begun = time.process_time()
    write_pool(
        inner(folder, one, split, KINDS[name].pieces), split, KINDS[name], out / f"{one}-{split}-{name}.npz"
    )
    seconds = round(time.process_time() - begun, 1)
    return {"set": one, "split": split, "pool": name, "seconds": seconds}


def write_pool(data: Dataset, split: int, kind: Kind, path: Path) -> None:
    settings = settings_for(data, {**POOLED, **kind.settings}, kind.longer)
    known = preset("table", {"methods": "pool-adam"}).values
    told = {key: value for key, value in settings.items() if key in known}
    config = preset(
        "table", {"methods": "pool-adam", "evaluate.baseline": "pool-adam", **told, "seed": split}
    )
    loss = weighted_loss(kind.power) if kind.power else Numbers.loss
    with tempfile.TemporaryDirectory() as place, mock.patch.object(Numbers, "loss", loss):
        pipeline = Pipeline.checked(place, config, dataset=data)
        pipeline.begin()
        with pipeline.run.held():
            pipeline.train(pipeline.search())
        ensemble = pipeline.run.ensemble("pool-adam")
        train, fold = pipeline.task.train, pipeline.task.fold
    assert fold is not None
    members, predict = ensemble.members, ensemble.predictor("cpu")
    said, test = predict(train.images).numpy(), predict(data.test.images).numpy()
    chains = np.array([int(member.origin.chain.rsplit("-", 1)[1]) for member in members])
    every = dict.fromkeys(range(int(chains.max()) + 1))
    recipes = config.method("pool-adam").recipes.draw(every, draws.key(split, "recipe", "sampled"), None)
    own = chains % (fold.max() + 1)
    parts = [said[m, fold == part] for m, part in enumerate(own)]
    longest = max(map(len, parts))
    left_out = np.stack([np.pad(part, ((0, longest - len(part)), (0, 0))) for part in parts])
    np.savez_compressed(
        path.with_suffix(".part.npz"),
        left_out=left_out.astype(np.float32),
        test=test.astype(np.float32),
        own=own,
        fold=fold,
        labels=train.labels,
        test_labels=data.test.labels,
        step_size=[recipes[n].step_size for n in chains],
        prior_deviation=[recipes[n].prior_deviation for n in chains],
        architecture=[str(member.architecture) for member in members],
    )
    path.with_suffix(".part.npz").rename(path)


def train(
    folder: Path, out: Path, sets: list[str], pools: list[str], splits: list[int], jobs: int, seconds: float
) -> None:
    """Pools that are not there yet, all of one split before the next."""
    out.mkdir(parents=True, exist_ok=True)
    tasks = [
        (folder, out, one, split, name)
        for split in splits
        for one in sets
        for name in pools
        if is_wanted(one, name, split) and not (out / f"{one}-{split}-{name}.npz").exists()
    ]
    for row in in_parallel(pool, tasks, jobs, seconds):
        print(json.dumps(row), flush=True)


# Judging


@dataclass(frozen=True)
class Pool:
    """What chains said: M members, each of its own part of n rows, and of N others."""

    left_out: list[Tensor]  # by member, of the rows that it left out [n_f, 2]
    test: Tensor  # [M, N, 2]
    own: np.ndarray  # [M]: the part
    fold: np.ndarray  # [n]
    labels: Tensor  # [n]
    test_labels: Tensor

    @classmethod
    def read(cls, path: Path) -> "Pool":
        with np.load(path) as arrays:
            own, fold, labels = arrays["own"], arrays["fold"], torch.from_numpy(arrays["labels"])
            counts, padded = np.bincount(fold), torch.from_numpy(arrays["left_out"]).double()
            left_out = [padded[m, : counts[part]] for m, part in enumerate(own)]
            test = torch.from_numpy(arrays["test"]).double()
            return cls(left_out, test, own, fold, labels, torch.from_numpy(arrays["test_labels"]))


@dataclass(frozen=True)
class Panel:
    """The members of a pool that left out one part, and what they said of it."""

    number: int
    members: list[int]
    said: Tensor  # [M, n_f, 2]
    labels: Tensor  # [n_f]
    seen: Tensor  # [n_f]: those that choices and temperature may look at


def panels_of(found: Pool, half: int | None, own_temperature: bool) -> Iterator[Panel]:
    """Each part, of whose rows one half is seen, or all."""
    halves = torch.from_numpy(np.random.default_rng(0).permutation(len(found.fold)) % 2 == half)
    halves |= half is None
    for part in range(int(found.fold.max()) + 1):
        some = [m for m in range(len(found.own)) if found.own[m] == part]
        said, rows = torch.stack([found.left_out[m] for m in some]), torch.from_numpy(found.fold == part)
        labels, seen = found.labels[rows], halves[rows]
        if own_temperature:
            said = with_own_temperature(said, labels, seen)
        yield Panel(part, some, said, labels, seen)


def with_own_temperature(said: Tensor, labels: Tensor, seen: Tensor) -> Tensor:
    """Each member's variances times what makes those of the rows that are seen right; four rows speak for 1."""
    ratio = ((labels - said[..., 0]) ** 2 * torch.exp(-said[..., 1]))[:, seen]
    factor = (ratio.sum(dim=1) + 4) / (ratio.shape[1] + 4)
    return torch.stack([said[..., 0], said[..., 1] + factor.log()[:, None]], dim=-1)


def everyone(panel: Panel) -> list[int]:
    return list(range(len(panel.members)))


def greedy(share: float, repeated: bool = False) -> Callable[[Panel], list[int]]:
    """This share of a panel's members."""

    def choose(panel: Panel) -> list[int]:
        judged = panel.said[:, panel.seen], panel.labels[panel.seen]
        count = max(1, round(share * len(panel.members)))
        return selection.greedy(*judged, count, Numbers(), repeated)

    return choose


CHOICES: dict[str, tuple[Callable[[Panel], list[int]], bool]] = {  # and whether members have temperatures
    "all": (everyone, False),
    "all, own temperature": (everyone, True),
    "greedy quarter": (greedy(0.25), False),
    "greedy half": (greedy(0.5), False),
    "repeated": (greedy(1.0, repeated=True), False),
    "repeated, own temperature": (greedy(1.0, repeated=True), True),
}


def of_left_out(found: Pool, choice: str) -> dict[str, float]:
    """Metrics of panels on rows that neither they nor choice and temperature have seen: one half, then the other."""
    choose, own_temperature = CHOICES[choice]
    parts = []
    for half in (0, 1):
        panels = list(panels_of(found, half, own_temperature))
        said = torch.cat([panel.said[choose(panel)] for panel in panels], dim=1)
        labels, seen = (torch.cat([getattr(p, name) for p in panels]) for name in ("labels", "seen"))
        temperature = numbers.fit_temperature(said[:, seen], labels[seen])
        parts.append(numbers.per_row(numbers.scaled(said[:, ~seen], temperature), labels[~seen]))
    both = {name: float(torch.cat([part[name] for part in parts]).mean()) for name in parts[0]}
    return {"rmse": math.sqrt(both.pop("squared")), **both}


def of_tenth(found: Pool, choice: str) -> dict[str, float]:
    """Metrics of the ensemble on the rows that take the place of test rows, and coverage of its intervals."""
    choose, _ = CHOICES[choice]
    panels = list(panels_of(found, 0, own_temperature=False))
    picks = [choose(panel) for panel in panels]
    said = torch.cat([panel.said[pick] for panel, pick in zip(panels, picks, strict=True)], dim=1)
    labels, seen = (torch.cat([getattr(p, name) for p in panels]) for name in ("labels", "seen"))
    members = [panel.members[m] for panel, pick in zip(panels, picks, strict=True) for m in pick]
    fitted = numbers.fit_temperature(said[:, seen], labels[seen])
    temperature = numbers.temperature_of_more(fitted, said, len(members))
    test = found.test[members]
    parts = numbers.per_row(numbers.scaled(test, temperature), found.test_labels)
    unseen = torch.ones_like(seen) if choose is everyone else ~seen
    judged_by = torch.cat([torch.full(panel.labels.shape, panel.number) for panel in panels])
    kept = Residuals.of(said, labels, unseen, judged_by, torch.from_numpy(found.own[members]))
    ends = kept.interval(test, 0.9)
    inside = (found.test_labels >= ends[:, 0]) & (found.test_labels <= ends[:, 1])
    chosen = {name: float(parts[name].mean()) for name in ("nll", "crps")}
    return {**chosen, "conformal90": float(inside.double().mean()), "temperature": temperature}


def judge_pool(task: tuple[Path]) -> list[dict[str, Any]]:
    """A row for each choice."""
    one, split, name = _named(task[0])
    found, rows = Pool.read(task[0]), []
    for choice, (_, own_temperature) in CHOICES.items():
        metrics = of_left_out(found, choice)
        if not own_temperature:
            metrics |= {f"tenth_{key}": value for key, value in of_tenth(found, choice).items()}
        rounded = {key: float(f"{value:.6g}") for key, value in metrics.items()}
        rows.append({"set": one, "split": split, "pool": name, "choice": choice, **rounded})
    return rows


def judge(folder: Path, out: Path, jobs: int) -> None:
    """A row for each pool and choice of members."""
    known = (
        {(row["set"], row["split"], row["pool"]) for row in map(json.loads, out.open())}
        if out.exists()
        else set()
    )
    paths = sorted(path for path in folder.glob("*.npz") if not path.stem.endswith(".part"))
    tasks = [(path,) for path in paths if _named(path) not in known]
    with out.open("a") as file:
        for rows in in_parallel(judge_pool, tasks, jobs, math.inf):
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
    print("\n".join(table(out)))


def _named(path: Path) -> tuple[str, int, str]:
    one, split, name = path.stem.rsplit("-", 2)
    return one, int(split), name


COLUMNS = ("nll", "crps", "rmse", "coverage90", "tenth_nll", "tenth_crps", "tenth_conformal90")


def table(out: Path) -> Iterator[str]:
    """Means over splits, by set, pool and choice."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in map(json.loads, out.open()):
        groups.setdefault((row["set"], row["pool"], row["choice"]), []).append(row)
    yield f"{'set':9} {'pool':9} {'choice':26} n " + " ".join(f"{name:>17}" for name in COLUMNS)
    for (one, name, choice), rows in sorted(groups.items()):
        means = " ".join(f"{np.mean([row.get(metric, np.nan) for row in rows]):17.4f}" for metric in COLUMNS)
        yield f"{one:9} {name:9} {choice:26} {len(rows)} {means}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training, judging = commands.add_parser("train"), commands.add_parser("judge")
    training.add_argument("data", type=Path)
    training.add_argument("--sets", default=",".join(SETS))
    training.add_argument("--pools", default=",".join(KINDS))
    training.add_argument("--splits", default="0,1,2,3,4,5")
    training.add_argument("--seconds", type=float, default=math.inf)
    judging.add_argument("pools", type=Path)
    for command in (training, judging):
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.command == "judge":
        judge(chosen.pools, chosen.out, chosen.jobs)
        return
    named = (chosen.sets.split(","), chosen.pools.split(","), [int(one) for one in chosen.splits.split(",")])
    train(chosen.data, chosen.out, *named, chosen.jobs, chosen.seconds)


if __name__ == "__main__":
    main()
