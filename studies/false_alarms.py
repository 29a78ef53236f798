"""Does a small model keep its promised share of false alarms? Held-out and test images of a run, divided anew.

    python studies/false_alarms.py RUN [--method uraenas] [--share 0.05] [--splits 1000]

What the run's ensemble sees of its held-out and test images is computed once; none of them was trained on. Each split
draws some as the held-out ones, and asks how many of the rest are called foreign. By theory the share is k / (n + 1) in
the mean, k = ⌊share · (n + 1)⌋, and varies from split to split as a beta-binomial does.
"""

import argparse
import math

import torch
from torch import Tensor

from uraenas import Run
from uraenas.base import draws
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import MembersPredictor
from uraenas.ensemble.joining import conformal_p_values
from uraenas.run.task import prepare

HELD_OUT = (45, 90, 150)


def scores_of(run: Run, method: str) -> tuple[Tensor, Tensor, int]:
    """Of all images that were not trained on [S, N], what is beyond reach [S], and how many scores have ranks."""
    ensemble, task = run.ensemble(method), prepare(run.config())
    known = ensemble.known
    if known is None:
        raise SystemExit(f"{run.path} does not tell foreign images")
    engine = Engine(EngineSettings(device="cpu", precision=ensemble.precision))
    predictor = MembersPredictor(ensemble.members, task.space, task.normalisation, engine)
    seen = [known.scores_of(*predictor.look(part.images)) for part in (task.held_out, task.dataset.test)]
    return torch.cat([known.stacked(one) for one in seen], dim=1), known.reach_S, known.ranked


def shares_of(
    scores_SN: Tensor, reach_S: Tensor, ranked: int, held_out: int, share: float, splits: int
) -> Tensor:
    """The share of false alarms in each split."""
    found = []
    for number in range(splits):
        order = draws.permutation(draws.at(draws.key(0, "splits"), number), scores_SN.shape[1])
        own, new = scores_SN[:, order[:held_out]], scores_SN[:, order[held_out:]]
        found.append((conformal_p_values(own, new, reach_S, ranked) <= share).double().mean())
    return torch.stack(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--method", default="uraenas")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--splits", type=int, default=1000)
    given = parser.parse_args()
    scores, reach, ranked = scores_of(Run(given.run), given.method)
    print("| held out | false alarms | by theory | one split in ten has at least |\n|---|---|---|---|")
    for held_out in (n for n in HELD_OUT if 2 * n <= scores.shape[1]):
        shares, new = (
            shares_of(scores, reach, ranked, held_out, given.share, given.splits),
            scores.shape[1] - held_out,
        )
        mean = math.floor(given.share * (held_out + 1)) / (held_out + 1)
        spread = math.sqrt(mean * (1 - mean) * (1 / (held_out + 2) + 1 / new))
        found = f"{100 * shares.mean():.2f} ± {100 * shares.std():.2f} %"
        theory, worst = f"{100 * mean:.2f} ± {100 * spread:.2f} %", f"{100 * shares.quantile(0.9):.1f} %"
        print(f"| {held_out} | {found} | {theory} | {worst} |")


if __name__ == "__main__":
    main()
