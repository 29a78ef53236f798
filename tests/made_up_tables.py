"""Small tables of houses, and a run on one for each kind of target."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

TINY = {
    "search.epochs": 2,
    "search.sampling.cycles": 1,
    "train.epochs": 4,
    "train.sampled.architectures": 2,
    "network.widths": "4,8",
    "network.nodes": 2,
    "ensemble.members": 4,
    "evaluate.bootstrap": 20,
    "evaluate.subsets": 2,
    "evaluate.references": "false",
}
METHODS = "uraenas-adam,deep-ensemble-adam"
HEAD = "rooms,area,town,day,price"


def lines(count: int = 60) -> list[str]:
    """Rows of a text file with this head."""
    random = np.random.default_rng(0)
    towns = random.choice(["ab", "cd", "ef"], count)
    areas = random.uniform(40, 200, count)
    return [
        f"{'' if n % 7 == 0 else n % 5},{areas[n]:.1f},{towns[n]},2020-01-02,{3 * areas[n]:.2f}"
        for n in range(count)
    ]


def table(path: Path, rows: int = 90) -> Path:
    random = np.random.default_rng(0)
    with path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["area", "rooms", "town", "price", "sold"])
        for n in range(rows):
            area, town = random.uniform(40, 200), "abc"[n % 3]
            price = 3 * area + 40 * (n % 3) + random.normal(0, 10)
            writer.writerow(
                [
                    f"{area:.1f}",
                    "" if n % 9 == 0 else n % 5,
                    town,
                    f"{price:.2f}",
                    "yes" if area > 90 else "no",
                ]
            )
    return path


def make_runs(folder: Path, uraenas: Callable, changes: Mapping[str, object] = MappingProxyType({})) -> None:
    """`numbers` predicts the price, `classes` whether it was sold, `several` price and rooms at once."""
    folder.mkdir()
    houses = table(folder / "houses.csv")
    wanted = (
        ("numbers", "price", "sold", METHODS),
        ("classes", "sold", "price", METHODS),
        ("several", "price,rooms", "sold", "uraenas-adam"),
    )
    for kind, target, other, methods in wanted:
        settings = {**TINY, "data.target": target, "data.leave_out": other, **changes}
        assigned = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        done = uraenas(
            "run", houses, "--preset", "table", "--methods", methods, *assigned, "--out", folder / kind
        )
        assert done.returncode == 0, done.stderr
