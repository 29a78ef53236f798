"""How wide should conformal intervals of an ensemble be whose members left out different rows? On training rows alone.

    python studies/uci_intervals.py train DATA --out POOLS [--sets yacht,…] [--splits 0,1,…] [--shares 0,0.1]
                                                           [--folds 5] [--jobs 1] [--seconds 600]
    python studies/uci_intervals.py judge POOLS [--coverage 0.9]
    python studies/uci_intervals.py compare DATA POOLS [--kinds 0-5,0.1-5,0.15-5]

A quarter of the training rows of a customary split takes the place of test rows, and the real ones are never looked at.
Pools of chains are those of `uci_settings.py`, columns in pieces. Half of the rows that chains left out choose members,
intervals rest on the other half, and the other way round; all ways to make intervals are judged on the same members.
Where pools have a share of the rows apart from all chains, all rows that chains left out choose members, and intervals
of the whole ensemble rest on the rows apart.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from uci import PIECES, SETS, in_parallel, of_rows
from uci_settings import Kind, Pool, greedy, panels_of, write_pool

from uraenas.data import Dataset
from uraenas.ensemble.residuals import Residuals
from uraenas.evaluation import conformal, numbers


def divided(file: Path, split: int, share: float) -> tuple[Dataset, np.ndarray]:
    """The training rows of a split, a quarter of them for testing; and which of its test rows are no chain's [N].

    These are about this share of the others, one less than a multiple of twenty.
    """
    with np.load(file) as arrays:
        known = ~arrays["test"][split].astype(bool)
        x, y = arrays["x"][known], arrays["y"][known].astype(np.float64)
    order, quarter = np.random.default_rng([split, 77]).permutation(len(y)), len(y) // 4
    count = max(0, 20 * round(share * (len(y) - quarter) / 20) - 1)
    where = np.zeros(len(y), int)
    where[order[:quarter]], where[order[quarter : quarter + count]] = 1, 2
    return of_rows(file.stem, x, y, where > 0, PIECES), where[where > 0] == 2


def pool(task: tuple[Path, Path, int, float, int]) -> str:
    file, path, split, share, folds = task
    begun = time.process_time()
    data, _ = divided(file, split, share)
    write_pool(data, split, Kind({"train.folds": folds}, pieces=True), path)
    return f"{path.stem}: {time.process_time() - begun:.0f} CPU-seconds"


@dataclass(frozen=True)
class Judged:
    """K panels of chosen members: their scores on rows apart, and what they say of N test rows."""

    residuals: Residuals
    scores: list[Tensor]  # by panel: |y − mean| / deviation
    errors: list[Tensor]  # |y − mean|
    mean: Tensor  # [K, N]
    deviation: Tensor
    members: Tensor  # [M, N, 2]
    labels: Tensor  # [N]

    @classmethod
    def of(cls, found: Pool, half: int) -> "Judged":
        panels = list(panels_of(found, half, own_temperature=False))
        picks = [greedy(1.0, repeated=True)(panel) for panel in panels]
        chosen = [[panel.members[m] for m in pick] for panel, pick in zip(panels, picks, strict=True)]
        said = [panel.said[pick] for panel, pick in zip(panels, picks, strict=True)]
        labels, seen = (torch.cat([getattr(p, name) for p in panels]) for name in ("labels", "seen"))
        judged_by = torch.cat([torch.full(panel.labels.shape, panel.number) for panel in panels])
        members = [m for some in chosen for m in some]
        of_panels = torch.from_numpy(found.own[members])
        kept = Residuals.of(torch.cat(said, dim=1), labels, ~seen, judged_by, of_panels)
        own = [numbers.moments(one[:, ~panel.seen]) for one, panel in zip(said, panels, strict=True)]
        errors = [(p.labels[~p.seen] - mean).abs() for p, (mean, _) in zip(panels, own, strict=True)]
        scores = [error / variance.sqrt() for error, (_, variance) in zip(errors, own, strict=True)]
        told = [numbers.moments(found.test[some]) for some in chosen]
        means, variances = (torch.stack(part) for part in zip(*told, strict=True))
        return cls(kept, scores, errors, means, variances.sqrt(), found.test[members], found.test_labels)


Ends = tuple[Tensor, Tensor]


def of_one_panel(one: Judged, coverage: float) -> Ends:
    """Split conformal prediction, each panel's as rows of their own."""
    quantiles = torch.tensor([conformal.conformal_quantile(own, coverage) for own in one.scores])
    reach = quantiles[:, None] * one.deviation
    return one.mean - reach, one.mean + reach


def cv_plus(one: Judged, coverage: float, scaled: bool = True) -> Ends:
    """Each row makes an interval by its own panel; ends are quantiles of theirs (Barber and others, 2021)."""
    own = (
        zip(one.scores, one.deviation, strict=True)
        if scaled
        else ((error, torch.ones(1)) for error in one.errors)
    )
    reach = [score[:, None] * deviation for score, deviation in own]
    lows = torch.cat([mean - some for mean, some in zip(one.mean, reach, strict=True)])
    highs = torch.cat([mean + some for mean, some in zip(one.mean, reach, strict=True)])
    (place,) = conformal.conformal_places([len(lows)], coverage)
    return lows.kthvalue(len(lows) + 1 - place, dim=0).values, highs.kthvalue(place, dim=0).values


def about_the_whole(one: Judged, coverage: float, shrunk: bool = False) -> Ends:
    """Mean of all ± the quantile of all scores, in the panels' deviations; less the panels' disagreement, if shrunk.

    Of squares, (y − mean)² is the panels' average (y − mean_p)² less the variance of their means.
    """
    scores = torch.cat(one.scores)
    variance = one.deviation.square().mean(dim=0)
    if shrunk:
        variance = (variance - one.mean.var(dim=0, correction=0) / scores.square().mean()).clamp(
            min=0.1 * variance
        )
    reach = conformal.conformal_quantile(scores, coverage) * variance.sqrt()
    return one.mean.mean(dim=0) - reach, one.mean.mean(dim=0) + reach


def by_vote(one: Judged, coverage: float) -> Ends:
    """The package's."""
    low, high = one.residuals.interval(one.members, coverage).T
    return low, high


WAYS: dict[str, Callable[[Judged, float], Ends]] = {
    "one panel alone": of_one_panel,
    "CV+": cv_plus,
    "CV+, errors as they are": lambda one, coverage: cv_plus(one, coverage, scaled=False),
    "about the whole ensemble": about_the_whole,
    "the same, less disagreement": lambda one, coverage: about_the_whole(one, coverage, shrunk=True),
    "vote of panels": by_vote,
}


def judge(folder: Path, coverage: float) -> Iterator[str]:
    """Share of rows inside, and width: mean over pools ± standard error. Of pools that have no rows apart."""
    for name in reversed(SETS):
        paths = sorted(one for one in folder.glob(f"{name}-*-0-5.npz") if ".part" not in one.name)
        both = [[Judged.of(Pool.read(path), half) for half in (0, 1)] for path in paths]
        for way, ends in WAYS.items() if both else ():
            inside, width = (
                np.array([[_measured(one, *ends(one, coverage)) for one in pair] for pair in both]).mean(1).T
            )
            error = np.std(inside, ddof=1) / math.sqrt(len(inside)) if len(inside) > 1 else math.nan
            held = f"{100 * inside.mean():5.1f} ± {100 * error:.1f} %"
            yield f"{name:9} {len(both):2} {way:28} {held}  {width.mean():.4g}"


def _measured(one: Judged, low: Tensor, high: Tensor) -> tuple[float, float]:
    inside = (one.labels >= low) & (one.labels <= high)
    return float(inside.double().mean()), float((high - low).mean())


def compare(data: Path, folder: Path, kinds: list[str]) -> Iterator[str]:
    """Ensembles of pools that have some rows apart, of kinds SHARE-FOLDS: means over the splits that have them all.

    In parentheses: how much more than the first, the package's vote, mean over splits ± standard error; in percent but
    of nll, and in points of shares.
    """
    for name in reversed(SETS):
        found: dict[str, list[dict[str, float]]] = {}
        for split in range(20):
            paths = {kind: folder / f"{name}-{split}-{kind}.npz" for kind in kinds}
            for kind, path in paths.items() if all(path.exists() for path in paths.values()) else ():
                _, own = divided(data / f"{name}.npz", split, float(kind.split("-")[0]))
                for way, row in compared(Pool.read(path), own).items():
                    found.setdefault(f"{kind} {way}", []).append(row)
        for way, rows in found.items():
            first = next(iter(found.values()))
            cells = "  ".join(_difference(metric, rows, first) for metric in rows[0])
            yield f"{name:9} {len(rows)} {way:15} {cells}"


def _difference(metric: str, rows: list[dict[str, float]], first: list[dict[str, float]]) -> str:
    ours, theirs = (np.array([row[metric] for row in some]) for some in (rows, first))
    more = ours - theirs
    if metric in ("rmse", "crps") or metric.startswith("width"):
        more = 100 * more / theirs
    error = np.std(more, ddof=1) / math.sqrt(len(more)) if len(more) > 1 else math.nan
    return f"{metric} {ours.mean():.3f} ({more.mean():+.2f} ± {error:.2f})"


def compared(pool: Pool, own: np.ndarray) -> dict[str, dict[str, float]]:
    """Metrics of ensembles from a pool, some of whose test rows are no chain's, by the way they are made."""
    rows = replace(pool, test=pool.test[:, ~own], test_labels=pool.test_labels[~own])
    voted = [_by_vote(rows, half) for half in (0, 1)]
    ways = {"vote": {metric: float(np.mean([one[metric] for one in voted])) for metric in voted[0]}}
    if own.any():
        chosen, temperature = _chosen(rows, None)
        said, labels = pool.test[chosen][:, own], pool.test_labels[own]
        nobody = torch.zeros(len(labels))
        kept = Residuals.of(said, labels, nobody + 1, nobody, torch.zeros(len(chosen)))
        ways["whole"] = _metrics(rows, chosen, temperature, kept)
    return ways


def _by_vote(pool: Pool, half: int) -> dict[str, float]:
    return _metrics(pool, *_chosen(pool, half), Judged.of(pool, half).residuals)


def _chosen(pool: Pool, half: int | None) -> tuple[list[int], float]:
    """Members, and their temperature, by one half of the rows that they left out or by all."""
    panels = list(panels_of(pool, half, own_temperature=False))
    picks = [greedy(1.0, repeated=True)(panel) for panel in panels]
    said = torch.cat([panel.said[pick] for panel, pick in zip(panels, picks, strict=True)], dim=1)
    labels, seen = (torch.cat([getattr(p, name) for p in panels]) for name in ("labels", "seen"))
    members = [panel.members[m] for panel, pick in zip(panels, picks, strict=True) for m in pick]
    fitted = numbers.fit_temperature(said[:, seen], labels[seen])
    return members, numbers.temperature_of_more(fitted, said, len(members))


def _metrics(pool: Pool, chosen: list[int], temperature: float, kept: Residuals) -> dict[str, float]:
    said, labels = pool.test[chosen], pool.test_labels
    means = {
        k: float(v.mean()) for k, v in numbers.per_row(numbers.scaled(said, temperature), labels).items()
    }
    found = {"rmse": math.sqrt(means["squared"]), "nll": means["nll"], "crps": means["crps"]}
    for coverage in (0.9, 0.95):
        low, high = kept.interval(said, coverage).T
        inside, width = (
            float(((labels >= low) & (labels <= high)).double().mean()),
            float((high - low).mean()),
        )
        found |= {f"held{100 * coverage:g}": 100 * inside, f"width{100 * coverage:g}": width}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training, judging = commands.add_parser("train"), commands.add_parser("judge")
    comparing = commands.add_parser("compare")
    comparing.add_argument("data", type=Path)
    comparing.add_argument("pools", type=Path)
    comparing.add_argument("--kinds", default="0-5,0.1-5,0.15-5")
    training.add_argument("data", type=Path)
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--sets", default="yacht,energy,concrete,wine-red")
    training.add_argument("--splits", default="0,1,2,3,4,5")
    training.add_argument("--shares", default="0")
    training.add_argument("--folds", default="5")
    training.add_argument("--jobs", type=int, default=1)
    training.add_argument("--seconds", type=float, default=math.inf)
    judging.add_argument("pools", type=Path)
    judging.add_argument("--coverage", type=float, default=0.9)
    chosen = parser.parse_args()
    if chosen.command == "judge":
        print("\n".join(judge(chosen.pools, chosen.coverage)))
        return
    if chosen.command == "compare":
        print("\n".join(compare(chosen.data, chosen.pools, chosen.kinds.split(","))))
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    tasks = [
        (chosen.data / f"{one}.npz", path, int(split), float(share), int(folds))
        for split in chosen.splits.split(",")
        for one in chosen.sets.split(",")
        for share in chosen.shares.split(",")
        for folds in chosen.folds.split(",")
        if not (path := chosen.out / f"{one}-{split}-{share}-{folds}.npz").exists()
    ]
    for line in in_parallel(pool, tasks, chosen.jobs, chosen.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
