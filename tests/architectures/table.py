"""A made-up benchmark of 15,625 architectures with the accuracies of NAS-Bench-201.

Which architecture is good follows from effects of its options, of pairs of them, and a part that nothing explains.
Their ranks are then given the accuracies of CIFAR-10 in the benchmark: median 90.75, best 94.37, and the upper tail
that random search sees there.

    python tests/architectures/table.py

prints what 100 queries find in 20 such tables, as docs/architectures.md has it.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from uraenas.architectures import DISTRIBUTIONS, queried
from uraenas.base import draws

OPTIONS = (5,) * 6
# (share of architectures that are worse, accuracy)
QUANTILES = [
    (0, 10.0),
    (0.02, 55.0),
    (0.1, 83.0),
    (0.5, 90.75),
    (0.9, 93.0),
    (0.9888, 93.63),
    (0.9944, 93.78),
    (0.9972, 93.90),
    (0.9989, 94.01),
    (0.9998, 94.25),
    (1, 94.37),
]


class Table:
    """Accuracies [5, 5, 5, 5, 5, 5], in percent."""

    def __init__(self, seed: int, pairs: float = 0.45, rest: float = 0.35) -> None:
        generator = np.random.default_rng(seed)
        shape, count = OPTIONS, len(OPTIONS)
        latent = rest * generator.normal(size=shape)
        for d in range(count):
            effect = generator.normal(size=5)
            latent += effect.reshape([-1 if place == d else 1 for place in range(count)])
        for both in itertools.combinations(range(count), 2):
            effect = pairs * generator.normal(size=(5, 5))
            latent += effect.reshape([5 if place in both else 1 for place in range(count)])
        ranks = latent.ravel().argsort().argsort() / (latent.size - 1)
        worse, accuracy = zip(*QUANTILES, strict=True)
        self.accuracy = np.interp(ranks, worse, accuracy).reshape(shape)

    def __getitem__(self, options: Sequence[int]) -> float:
        return float(self.accuracy[tuple(options)])


def searched(here: Any, table: Table, queries: int, seed: int) -> dict[str, torch.Tensor]:
    """The state after so many queries of the table."""
    state = here.initial(OPTIONS, 0)
    key = draws.key(seed, "table")
    while (done := len(state["values"])) < queries:
        count = min(here.together, queries - done)
        asked = here.propose(state, count, draws.at(key, done), lambda options: True)
        state = queried.told(state, asked, [table[options] for options in asked])
    return state


def main() -> None:
    for name, row in DISTRIBUTIONS.items():
        if row.made.loop == "queries":
            states = (searched(row.make(), Table(seed), 100, seed) for seed in range(20))
            found = np.array([float(state["values"].max()) for state in states])
            print(f"{name:10} {found.mean():.2f} ± {found.std(ddof=1):.2f}", flush=True)


if __name__ == "__main__":
    main()
