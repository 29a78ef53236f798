"""How wide should conformal intervals of an ensemble be whose members left out different rows? On training rows alone.

    python studies/uci_intervals.py train DATA --out POOLS [--sets yacht,…] [--splits 0,1,…] [--jobs 1] [--seconds 600]
    python studies/uci_intervals.py judge POOLS [--coverage 0.9]

A quarter of the training rows of a customary split takes the place of test rows, and the real ones are never looked at.
Pools of chains are those of `uci_settings.py`, columns in pieces. Half of the rows that chains left out choose members,
intervals rest on the other half, and the other way round; all ways to make intervals are judged on the same members.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from uci import PIECES, SETS, in_parallel, of_rows
from uci_settings import KINDS, Pool, greedy, panels_of, write_pool

from uraenas.data import Dataset
from uraenas.ensemble.residuals import Residuals
from uraenas.evaluation import conformal, numbers


def quarter_apart(file: Path, split: int) -> Dataset:
    """The training rows of a split, a quarter of them for testing."""
    with np.load(file) as arrays:
        known = ~arrays["test"][split].astype(bool)
        x, y = arrays["x"][known], arrays["y"][known].astype(np.float64)
    test = np.zeros(len(y), bool)
    test[np.random.default_rng([split, 77]).permutation(len(y))[: len(y) // 4]] = True
    return of_rows(file.stem, x, y, test, PIECES)


def pool(task: tuple[Path, Path, int]) -> str:
    file, path, split = task
    begun = time.process_time()
    write_pool(quarter_apart(file, split), split, KINDS["pieces"], path)
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
    """Share of rows inside, and width: mean over pools ± standard error."""
    for name in reversed(SETS):
        paths = sorted(one for one in folder.glob(f"{name}-*.npz") if ".part" not in one.name)
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training, judging = commands.add_parser("train"), commands.add_parser("judge")
    training.add_argument("data", type=Path)
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--sets", default="yacht,energy,concrete,wine-red")
    training.add_argument("--splits", default="0,1,2,3,4,5")
    training.add_argument("--jobs", type=int, default=1)
    training.add_argument("--seconds", type=float, default=math.inf)
    judging.add_argument("pools", type=Path)
    judging.add_argument("--coverage", type=float, default=0.9)
    chosen = parser.parse_args()
    if chosen.command == "judge":
        print("\n".join(judge(chosen.pools, chosen.coverage)))
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    wanted = [(one, int(split)) for split in chosen.splits.split(",") for one in chosen.sets.split(",")]
    places = [(chosen.data / f"{one}.npz", chosen.out / f"{one}-{split}.npz", split) for one, split in wanted]
    tasks = [task for task in places if not task[1].exists()]
    for line in in_parallel(pool, tasks, chosen.jobs, chosen.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
