"""Which settings suit the UCI tables? Pools of chains, and what ensembles of them would be, on training rows alone.

    python studies/uci_settings.py train DATA --out POOLS [--jobs 13] [--seconds 500] [--sets …] [--pools …]
    python studies/uci_settings.py judge POOLS --out rows.jsonl

The training rows of a customary split are divided once more, nine to one; the tenth takes the place of test rows, and
the real ones are never looked at. A pool is what chains of many recipes predict: of the rows that each left out, and of
that tenth. Choices of members and ways to calibrate them need no training, so all are judged on the same pools.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from uci import COMMON, PIECES, SETS, in_parallel, of_rows, settings_for

from uraenas.base import draws
from uraenas.data import Dataset
from uraenas.data.targets import FLOOR, Numbers
from uraenas.ensemble import selection
from uraenas.evaluation import numbers
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
    kind, begun = KINDS[name], time.process_time()
    data = inner(folder, one, split, kind.pieces)
    settings = settings_for(data, {**POOLED, **kind.settings}, kind.longer)
    known = preset("table", {"methods": "joint-adam"}).values
    told = {key: value for key, value in settings.items() if key in known}
    config = preset(
        "table", {"methods": "joint-adam", "evaluate.baseline": "joint-adam", **told, "seed": split}
    )
    loss = weighted_loss(kind.power) if kind.power else Numbers.loss
    with tempfile.TemporaryDirectory() as place, mock.patch.object(Numbers, "loss", loss):
        pipeline = Pipeline.checked(place, config, dataset=data)
        pipeline.begin()
        with pipeline.run.held():
            pipeline.train(pipeline.search())
        ensemble = pipeline.run.ensemble("joint-adam")
        train, fold = pipeline.task.train, pipeline.task.fold
    assert fold is not None
    members, predict = ensemble.members, ensemble.predictor("cpu")
    said, test = predict(train.images).numpy(), predict(data.test.images).numpy()
    chains = np.array([int(member.origin.chain.rsplit("-", 1)[1]) for member in members])
    recipes = config.method("joint-adam").recipes.draw(int(chains.max()) + 1, split, "sampled")
    own = chains % (fold.max() + 1)
    parts = [said[m, fold == part] for m, part in enumerate(own)]
    longest = max(map(len, parts))
    left_out = np.stack([np.pad(part, ((0, longest - len(part)), (0, 0))) for part in parts])
    path = out / f"{one}-{split}-{name}.npz"
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
    seconds = round(time.process_time() - begun, 1)
    return {"set": one, "split": split, "pool": name, "seconds": seconds}


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
    seen: np.ndarray  # [n]: the half that choices may look at

    @classmethod
    def read(cls, path: Path) -> "Pool":
        with np.load(path) as arrays:
            own, fold, labels = arrays["own"], arrays["fold"], torch.from_numpy(arrays["labels"])
            counts = np.bincount(fold)
            padded = torch.from_numpy(arrays["left_out"]).double()
            left_out = [padded[m, : counts[part]] for m, part in enumerate(own)]
            seen = np.random.default_rng(0).permutation(len(fold)) % 2 == 0
            test = torch.from_numpy(arrays["test"]).double()
            return cls(left_out, test, own, fold, labels, torch.from_numpy(arrays["test_labels"]), seen)

    def panels(self, chosen: list[int]) -> Iterator[tuple[int, list[int]]]:
        """Each part that somebody left out, and who did."""
        for part in range(int(self.fold.max()) + 1):
            if some := [m for m in chosen if self.own[m] == part]:
                yield part, some

    def changed(self, functions: list[Callable[[Tensor], Tensor]]) -> "Pool":
        """With other log-variances, by member."""

        def mended(mixture: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
            return torch.stack([mixture[..., 0], function(mixture[..., 1])], dim=-1)

        left_out = [mended(*pair) for pair in zip(self.left_out, functions, strict=True)]
        test = torch.stack([mended(*pair) for pair in zip(self.test, functions, strict=True)])
        return replace(self, left_out=left_out, test=test)

    def said(self, some: list[int]) -> Tensor:
        return torch.stack([self.left_out[m] for m in some])


def everyone(found: Pool) -> list[int]:
    return list(range(len(found.own)))


def greedy(share: float, apart: bool, repeated: bool = False) -> Callable[[Pool], list[int]]:
    """Members of each part, chosen by the rows that they left out: by half of these, or by all."""

    def choose(found: Pool) -> list[int]:
        chosen = []
        for part, some in found.panels(everyone(found)):
            rows = torch.from_numpy(found.seen[found.fold == part]) if apart else slice(None)
            judged = found.said(some)[:, rows], found.labels[found.fold == part][rows]
            count = max(1, round(share * len(some)))
            chosen += [some[place] for place in selection.greedy(*judged, count, Numbers(), repeated)]
        return chosen

    return choose


CHOICES: dict[str, tuple[Callable[[Pool], list[int]], bool]] = {  # and whether half of the rows are apart
    "all": (everyone, False),
    "quarter apart": (greedy(0.25, apart=True), True),
    "quarter": (greedy(0.25, apart=False), False),
    "half": (greedy(0.5, apart=False), False),
    "half apart": (greedy(0.5, apart=True), True),
    "weights": (greedy(1.0, apart=False, repeated=True), False),
    "weights apart": (greedy(1.0, apart=True, repeated=True), True),
}


def as_said(found: Pool) -> Pool:
    return found


def own_temperature(found: Pool) -> Pool:
    """Each member's variances times what makes those of the rows that it left out right."""
    factors = []
    for m, part in enumerate(found.own):
        mean, log_variance = found.left_out[m].unbind(dim=-1)
        ratio = (found.labels[found.fold == part] - mean) ** 2 * torch.exp(-log_variance)
        rows = len(mean)
        factors.append((float(ratio.sum()) + PRIOR) / (rows + PRIOR))
    return found.changed([lambda v, f=factor: v + math.log(f) for factor in factors])


def own_line(found: Pool) -> Pool:
    """Each member's variances times one number, plus another."""
    lines = []
    for m, part in enumerate(found.own):
        lines.append(widened_fit(found.left_out[m][None], found.labels[found.fold == part]))
    return found.changed([lambda v, a=slope, b=added: torch.log(a * v.exp() + b) for slope, added in lines])


PRIOR = 4  # rows that speak for members as they are
MENDED = {"as said": as_said, "own temperature": own_temperature, "own line": own_line}


def judged(found: Pool, chosen: list[int], apart: bool) -> dict[str, float]:
    """Metrics of an ensemble, temperature-scaled in several ways, and its intervals of several kinds."""
    least = min(len(some) for _, some in found.panels(chosen))
    panels = list(found.panels(chosen))
    labels = torch.cat([found.labels[found.fold == part] for part, _ in panels])
    seen = np.concatenate([found.seen[found.fold == part] for part, _ in panels])
    fitted = torch.from_numpy(seen if apart else np.ones_like(seen))
    promised = torch.from_numpy(~seen if apart else np.ones_like(seen))
    held_out = torch.cat([found.said(some[:least]) for _, some in panels], dim=1)
    test, truth = found.test[chosen], found.test_labels
    raw = numbers.fit_temperature(held_out[:, fitted], labels[fitted])
    more = numbers.temperature_of_more(raw, held_out, len(chosen))
    metrics = {"members": len(chosen), "raw": raw, "temperature": more}
    for name, temperature in (("", more), ("_raw", raw)):
        scaled = numbers.scaled(test, temperature)
        metrics |= {f"{k}{name}": float(v.mean()) for k, v in numbers.per_row(scaled, truth).items()}
    metrics["rmse"] = math.sqrt(metrics["squared"])
    slope, added = widened_fit(held_out[:, fitted], labels[fitted])
    metrics |= {
        f"{k}_widened": float(v.mean())
        for k, v in numbers.per_row(widened(test, slope, added), truth).items()
        if k in ("nll", "crps", "coverage90")
    }
    metrics |= {"slope": slope, "added": added / float(found.labels.var())}
    by_row = [numbers.residuals(found.said(some), found.labels[found.fold == part]) for part, some in panels]
    scores = torch.cat(by_row)
    for name, own in (("pooled", promised), ("pooled_all", torch.ones_like(promised))):
        quantile = float(
            np.quantile(
                scores[own].numpy(),
                min(1.0, math.ceil((own.sum() + 1) * 0.9) / int(own.sum())),
                method="inverted_cdf",
            )
        )
        mean, variance = numbers.moments(test)
        reach = quantile * variance.sqrt()
        metrics |= inside(torch.stack([mean - reach, mean + reach], dim=1), truth, name)
    for name, own in (("crossed", promised), ("crossed_all", torch.ones_like(promised))):
        ends = crossed(found, panels, by_row, own, 0.9)
        metrics |= inside(ends, truth, name)
    return metrics


def inside(ends: Tensor, truth: Tensor, name: str) -> dict[str, float]:
    held = ((truth >= ends[:, 0]) & (truth <= ends[:, 1])).double().mean()
    return {f"held_{name}": float(held), f"width_{name}": float((ends[:, 1] - ends[:, 0]).mean())}


def crossed(
    found: Pool, panels: list[tuple[int, list[int]]], by_row: list[Tensor], which: Tensor, coverage: float
) -> Tensor:
    """CV+ (Barber and others, 2021): quantiles of the ends that each left-out row has by those who left it out."""
    low, high = [], []
    places = which.split([len(scores) for scores in by_row])
    for (_, some), scores, own in zip(panels, by_row, places, strict=True):
        mean, variance = numbers.moments(found.test[some])
        reach = scores[own][:, None] * variance.sqrt()
        low.append(mean - reach)
        high.append(mean + reach)
    lows, highs = torch.cat(low), torch.cat(high)
    count = len(lows)
    rank = min(count, math.ceil((count + 1) * coverage))
    return torch.stack(
        [lows.kthvalue(count + 1 - rank, dim=0).values, highs.kthvalue(rank, dim=0).values], dim=1
    )


def widened(mixture: Tensor, slope: float, added: float) -> Tensor:
    """Stretched about its mean, and then with a variance added to each member's."""
    found = numbers.scaled(mixture, slope)
    return torch.stack([found[..., 0], torch.log(found[..., 1].exp() + added)], dim=-1)


def widened_fit(mixture: Tensor, labels: Tensor) -> tuple[float, float]:
    """A temperature and an added variance of least NLL."""
    from scipy.optimize import minimize

    scale = float(labels.var())

    def loss(logs: np.ndarray) -> float:
        told = widened(mixture, math.exp(logs[0]), scale * math.exp(logs[1]))
        return -float(numbers.log_density(told, labels).mean())

    best = minimize(loss, np.array([0.0, -7.0]), method="Nelder-Mead", options={"maxfev": 80}).x
    return math.exp(best[0]), scale * math.exp(best[1])


def judge_pool(task: tuple[Path]) -> list[dict[str, Any]]:
    (path,) = task
    one, split, name = path.stem.rsplit("-", 2)
    found = Pool.read(path)
    rows = []
    for mended, mend in MENDED.items():
        pool = mend(found)
        for choice, (choose, apart) in CHOICES.items():
            metrics = judged(pool, choose(pool), apart)
            rounded = {key: float(f"{value:.6g}") for key, value in metrics.items()}
            cell = {"set": one, "split": int(split), "pool": name, "mended": mended, "choice": choice}
            rows.append({**cell, **rounded})
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


COLUMNS = ("nll", "nll_widened", "crps", "rmse", "coverage90", "held_pooled", "held_crossed", "temperature")


def table(out: Path) -> Iterator[str]:
    """Means over splits, by set, pool and choice."""
    groups: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for row in map(json.loads, out.open()):
        groups.setdefault((row["set"], row["pool"], row["mended"], row["choice"]), []).append(row)
    yield f"{'set':9} {'pool':9} {'mended':15} {'choice':14}  n " + " ".join(
        f"{name:>12}" for name in COLUMNS
    )
    for (one, name, mended, choice), rows in sorted(groups.items()):
        means = " ".join(f"{np.mean([row[metric] for row in rows]):12.4f}" for metric in COLUMNS)
        yield f"{one:9} {name:9} {mended:15} {choice:14} {len(rows):2} {means}"


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
