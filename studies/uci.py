"""Numbers of the customary UCI tables: joint ensembles, other ensembles, and peers, on the same twenty splits.

    python studies/uci.py measure DATA --out rows.jsonl [--sets yacht,energy] [--splits 0,1,2] [--methods uraenas,…]
                                                        [--jobs 4] [--seconds 600] [--one-draw]
    python studies/uci.py table rows.jsonl [--methods uraenas,…]
    python studies/uci.py join rows.jsonl newer.jsonl

DATA is a folder of .npz files with x [N, D], y [N] and test [20, N]. What rows.jsonl holds already is not measured
again, so a study can be cut off and go on. With `join` newer rows take the place of those of the same cell. Chains
leave out parts of the training rows in turn, and are calibrated on what they left out; intervals rest on a few rows
that no chain learns from. Those are drawn anew in each split, or with `--one-draw` by one key in all, as in
results/uci/rows.jsonl. Peers learn from all training rows. `uci_settings.py` chose the settings on training rows
alone, and `uci_intervals.py` how many rows are apart.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from uraenas.data import Dataset
from uraenas.data.loader import suited_batch
from uraenas.data.tables import TableSettings, frame_of, table_dataset
from uraenas.data.tables.table import SPLIT_KEY
from uraenas.ensemble import Ensemble
from uraenas.evaluation import MEASURES
from uraenas.learning.methods import METHODS as PACKAGED
from uraenas.learning.methods import Method
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline
from uraenas.run.presets import PRESETS

MEASURED = MEASURES["numbers"]
Task = TypeVar("Task")
Found = TypeVar("Found")
Rows = dict[str, dict[str, float]]  # metrics by method
SHOWN = ("rmse", "nll", "crps", "coverage90", "width90")
# Those that take longest first.
SETS = ("naval", "power", "kin8nm", "wine-red", "concrete", "energy", "yacht")
STEPS = 2000  # of a chain, about
LATER = 6  # splits: AutoDEUQ takes longest, so others come first
PIECES = 8  # of each column, for networks
APART = PRESETS["table"]["data.apart"]  # of the rows, where chains leave out parts of the others in turn
SMALL = 2000  # rows; larger sets have larger batches
COMMON = {
    "engine.device": "cpu",  # many small runs side by side
    "search.epochs": 10,
    "search.sampling.cycles": 1,
    "network.widths": "16,32",
    "train.prior_deviation": 0.5,
    "train.folds": 5,
    "train.sampled.copies": 1,
    "train.dropout.step_size": 0.02,
    "train.dropout.rate": 0.05,
    "train.swag.step_size": 0.02,
    "train.swag.samples": 10,
}
RECIPES = {"train.varied.prior_deviation": "0.2,20", "train.varied.step_size": "0.2,3"}
JOINT = {
    **COMMON,
    **RECIPES,
    "train.sampled.architectures": 40,
    "ensemble.members": 40,
    "ensemble.selection": "repeated",
}
# At the cost of JOINT: copies of the expected architecture, and the same with recipes drawn and chosen as there.
COPIES = {**COMMON, "ensemble.members": 40, "ensemble.selection": "in-turn"}
VARIED = {**COPIES, **RECIPES, "ensemble.selection": "repeated"}
PACKAGED["varied-adam"] = Method("expected", "adam", recipes="varied")
# All that JOINT does but search: each network's architecture is any, with the same probability.
PACKAGED["unsearched-adam"] = Method("uniform", "adam", recipes="varied")
# AutoDEUQ holds rows out, as its authors do, and chooses members on them.
SEARCHED = {
    **COMMON,
    "search.distribution": "agebo",
    "search.weights": "adam",
    "search.prior_deviation": 0.5,  # as in training, so that recipes mean the same
    "search.queries": 30,
    "search.query_epochs": 40,
    "train.folds": 0,
    "train.sampled.architectures": 30,
    "ensemble.members": 10,
    "ensemble.selection": "greedy",
}
BESIDE = {**COMMON, "ensemble.members": 10, "ensemble.selection": "in-turn"}
OTHERS = {
    "deep ensemble": "deep-ensemble-adam",
    "single": "single-adam",
    "MC dropout": "mc-dropout",
    "SWAG": "swag",
}


def dataset(file: Path, split: int, key: int, pieces: int = 0, apart: float = 0.0) -> Dataset:
    """One of the twenty, divided further by the key."""
    with np.load(file) as arrays:
        rows = arrays["x"], arrays["y"], arrays["test"][split].astype(bool)
        return of_rows(file.stem, *rows, pieces, apart, key)


def of_rows(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    test: np.ndarray,
    pieces: int = 0,
    apart: float = 0.0,
    key: int = SPLIT_KEY,
) -> Dataset:
    frame = frame_of(x) | {"y": y.astype(np.float64)}
    settings = TableSettings("y", kind="numbers", pieces=pieces, apart=apart)
    return table_dataset(name, frame, settings, test, key)


def measured(mixture_MN2: Tensor, labels: Tensor) -> dict[str, float]:
    found = MEASURED.of(mixture_MN2, labels)
    return {name: found[name] for name in SHOWN}


def settings_for(data: Dataset, settings: dict[str, Any], longer: int = 1) -> dict[str, Any]:
    """With epochs and a batch for so many rows, and only what these methods have."""
    assert data.validation is not None
    rows = len(data.train) + len(data.validation)
    batch = 32 if rows < SMALL else 128
    epochs = math.ceil(longer * STEPS / (0.8 * rows // suited_batch(batch, rows)))
    return {**settings, "train.batch": batch, "train.epochs": epochs}


def trained(data: Dataset, split: int, methods: dict[str, str], settings: dict[str, Any]) -> Rows:
    """Methods of the package, in one run, which searches once: temperature-scaled, with conformal intervals."""
    way = {key: value for key, value in settings.items() if key == "search.distribution"}
    known = {key for name in methods.values() for key in preset("table", {"methods": name, **way}).values}
    wanted = {key: value for key, value in settings_for(data, settings).items() if key in known}
    told = {"methods": ",".join(methods.values()), "evaluate.baseline": next(iter(methods.values()))}
    config = preset("table", {**told, **wanted, "seed": split})
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.checked(folder, config, dataset=data)
        pipeline.begin()
        with pipeline.run.held():
            pipeline.train(pipeline.search())
        return {name: judged(pipeline.run.ensemble(method), data) for name, method in methods.items()}


def judged(ensemble: Ensemble, data: Dataset) -> dict[str, float]:
    """Metrics on test rows; coverage and width are those of the intervals that `predict` gives."""
    members, _ = ensemble.predictor("cpu").look(data.test.images)
    labels = torch.from_numpy(data.test.labels)
    mixture = MEASURED.scaled(MEASURED.mean(members), ensemble.temperature)
    found = measured(mixture, labels)
    ends = ensemble.require_known().of_numbers.interval(members, 0.9)
    inside = ((labels >= ends[:, 0]) & (labels <= ends[:, 1])).double().mean()
    own = {"coverage90": float(inside), "width90": float((ends[:, 1] - ends[:, 0]).mean())}
    return {**found, **own, "central90": found["coverage90"], "temperature": ensemble.temperature}


def rows_of(data: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray, Tensor]:
    """Training rows with the held-out ones, their labels, test rows, and their labels."""
    assert data.validation is not None
    x = np.concatenate([data.train.images, data.validation.images])[:, 0, 0]
    y = np.concatenate([data.train.labels, data.validation.labels])
    return x, y, data.test.images[:, 0, 0], torch.from_numpy(data.test.labels)


def gaussian(mean: np.ndarray, deviation: np.ndarray) -> Tensor:
    return torch.from_numpy(np.stack([mean, 2 * np.log(deviation)], axis=-1))[None]


def of_ngboost(data: Dataset, split: int) -> dict[str, float]:
    """NGBoost with a Gaussian, its defaults."""
    from ngboost import NGBRegressor

    x, y, new, labels = rows_of(data)
    told = NGBRegressor(random_state=split, verbose=False).fit(x, y).pred_dist(new)
    return measured(gaussian(told.params["loc"], told.params["scale"]), labels)


MOST_FITTED, MOST_ROWS = 500, 2000  # of a Gaussian process, whose cost grows with their cube


def of_process(data: Dataset, split: int) -> dict[str, float]:
    """scikit-learn's Gaussian process: a squared exponential with a length for each column, and noise.

    Its kernel is fitted to at most MOST_FITTED rows, and at most MOST_ROWS are then conditioned on.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    x, y, new, labels = rows_of(data)
    chosen = np.random.default_rng(split).permutation(len(y))[:MOST_ROWS]
    few = chosen[:MOST_FITTED]
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1])) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=split).fit(x[few], y[few])
    if len(chosen) > len(few):
        model = GaussianProcessRegressor(model.kernel_, optimizer=None, normalize_y=True)
        model.fit(x[chosen], y[chosen])
    mean, deviation = model.predict(new, return_std=True)
    return measured(gaussian(mean, deviation), labels)


def of_quantiles(data: Dataset, split: int) -> dict[str, float]:
    """Gradient boosting of 10 quantiles, 5 % … 95 %; CRPS is twice their mean pinball loss; there is no density."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    x, y, new, labels = rows_of(data)
    shares = (np.arange(10) + 0.5) / 10

    def told(**more: Any) -> np.ndarray:
        return HistGradientBoostingRegressor(random_state=split, **more).fit(x, y).predict(new)

    quantiles = np.sort([told(loss="quantile", quantile=share) for share in shares], axis=0)
    known = labels.numpy()
    over = known - quantiles
    pinball = np.maximum(shares[:, None] * over, (shares[:, None] - 1) * over).mean()
    low, high = quantiles[0], quantiles[-1]
    return {
        "rmse": float(np.sqrt(np.mean((known - told()) ** 2))),
        "crps": 2 * float(pinball),
        "coverage90": float(((known >= low) & (known <= high)).mean()),
        "width90": float((high - low).mean()),
    }


# Methods of the package that are trained in one run, by what they are called here, and its settings.
RUNS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"uraenas": "joint-adam"}, JOINT),
    (OTHERS, BESIDE),
    ({"deep ensemble of 40": "deep-ensemble-adam"}, COPIES),
    ({"40 recipes": "varied-adam"}, VARIED),
    ({"no search": "unsearched-adam"}, JOINT),
    ({"autodeuq": "autodeuq"}, SEARCHED),
]
PEERS: dict[str, Callable[[Dataset, int], dict[str, float]]] = {
    "NGBoost": of_ngboost,
    "Gaussian process": of_process,
    "boosted quantiles": of_quantiles,
}
TOGETHER = [*(tuple(names) for names, _ in RUNS), *((name,) for name in PEERS)]  # what is measured at once
METHODS = [name for names in TOGETHER for name in names]


def cell(task: tuple[Path, str, int, tuple[str, ...], bool]) -> list[dict[str, Any]]:
    """Rows of methods that are measured at once; seconds are CPU, of a whole run."""
    folder, one, split, names, one_draw = task
    run = next((one for one in RUNS if names[0] in one[0]), None)
    pieces = 0 if run is None else PIECES  # peers read columns as they are
    apart = APART if run is not None and run[1]["train.folds"] else 0.0
    key = SPLIT_KEY if one_draw else SPLIT_KEY + 10 * split
    data, begun = dataset(folder / f"{one}.npz", split, key, pieces, apart), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a kernel at its bounds is no news
        if run is None:
            found = {name: PEERS[name](data, split) for name in names}
        else:
            found = trained(data, split, {name: run[0][name] for name in names}, run[1])
    seconds = round(time.process_time() - begun, 1)
    rows = []
    for name in names:
        row = {"set": one, "split": split, "method": name, "rows": len(data.test)}
        finite = {metric: value for metric, value in found[name].items() if math.isfinite(value)}
        rounded = {metric: float(f"{value:.6g}") for metric, value in finite.items()}
        rows.append({**row, **rounded, "seconds": seconds})
    return rows


def measure(
    folder: Path,
    out: Path,
    sets: list[str],
    splits: list[int],
    methods: list[str],
    jobs: int,
    seconds: float,
    one_draw: bool,
) -> None:
    """Append a row for each set, split and method that is not there yet; a whole split before the next."""
    known = {(row["set"], row["split"], row["method"]) for row in _read(out)}
    tasks = [
        (folder, one, split, wanted, one_draw)
        for split in splits
        for names in TOGETHER
        for one in sets
        if (wanted := tuple(name for name in names if name in methods and (one, split, name) not in known))
    ]
    tasks.sort(key=lambda task: task[2] + LATER * (task[3] == ("autodeuq",)))
    for rows in in_parallel(cell, tasks, jobs, seconds):
        with out.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def in_parallel(
    work: Callable[[Task], Found], tasks: Sequence[Task], jobs: int, seconds: float
) -> Iterator[Found]:
    """What becomes of tasks, each in one of so many processes of one thread; none begins after so many seconds."""
    os.environ["OMP_NUM_THREADS"] = "1"  # processes that are spawned read it
    until, done = time.time() + seconds, 0
    with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as processes:
        going = [processes.submit(_in_time, work, task, until) for task in tasks]
        for future in as_completed(going):
            if future.exception() is not None:
                print(f"failed: {future.exception()!r}", file=sys.stderr, flush=True)
            elif (found := future.result()) is not None:
                done += 1
                yield found
    print(f"{done} of {len(tasks)} done", file=sys.stderr)


def _in_time(work: Callable[[Task], Found], task: Task, until: float) -> Found | None:
    return work(task) if time.time() < until else None


def _read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def join(out: Path, newer: Path) -> None:
    """Newer rows take the place of those of the same set, split and method; others follow at the end."""
    rows = {(row["set"], row["split"], row["method"]): row for path in (out, newer) for row in _read(path)}
    out.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))


def table(out: Path, wanted: list[str]) -> Iterator[str]:
    """Markdown: mean ± standard error over splits (their number), mean ranks, sign tests of uraenas against each.

    Only sets and splits count that all of these methods were measured on, as far as the file has them.
    """
    rows = [row for row in _read(out) if row["method"] in wanted]
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    counts = Counter((row["set"], row["split"]) for row in rows)
    rows = [row for row in rows if counts[row["set"], row["split"]] == len(methods)]
    sets = [one for one in reversed(SETS) if any(row["set"] == one for row in rows)]
    for metric in SHOWN:
        last = "mean gap to 90 %, points" if metric == "coverage90" else "mean rank"
        yield f"\n**{metric}**\n\n| method | {' | '.join(sets)} | {last} | uraenas better |"
        yield f"|---|{'---:|' * (len(sets) + 2)}"
        ranks = _ranks(rows, metric)
        for method in methods:
            cells = [_cell([r[metric] for r in rows if _is(r, one, method) and metric in r]) for one in sets]
            mean = f"{np.mean(ranks[method]):.2f}" if ranks.get(method) else "–"
            if metric == "coverage90":
                mean = _mean_gap([row for row in rows if row["method"] == method])
            yield f"| {method} | {' | '.join(cells)} | {mean} | {_sign_test(ranks, method)} |"


def _sign_test(ranks: dict[str, list[int]], other: str) -> str:
    """In how many cells the first method is better, and the p-value of a two-sided sign test."""
    from scipy.stats import binomtest

    if other == METHODS[0] or other not in ranks or METHODS[0] not in ranks:
        return "–"
    better = sum(a < b for a, b in zip(ranks[METHODS[0]], ranks[other], strict=True))
    count = len(ranks[other])
    return f"{better} of {count}, p = {binomtest(better, count).pvalue:.2g}"


def _mean_gap(rows: list[dict[str, Any]]) -> str:
    """How far the mean coverage of each set is from 90 %, on average over sets."""
    held: dict[str, list[float]] = {}
    for row in rows:
        held.setdefault(row["set"], []).append(row["coverage90"])
    return f"{100 * np.mean([abs(np.mean(own) - 0.9) for own in held.values()]):.1f}"


def _is(row: dict[str, Any], one: str, method: str) -> bool:
    return row["set"] == one and row["method"] == method


def _cell(values: list[float]) -> str:
    if not values:
        return "–"
    mean, count = float(np.mean(values)), len(values)
    places = min(7, max(3, 2 - math.floor(math.log10(abs(mean) or 1))))  # naval's numbers are small
    if count == 1:
        return f"{mean:.{places}f} (1)"
    return f"{mean:.{places}f} ± {np.std(values, ddof=1) / math.sqrt(count):.{places}f} ({count})"


def _ranks(rows: list[dict[str, Any]], metric: str) -> dict[str, list[int]]:
    """By method, its rank in every set and split, which all have, among those that have the metric."""
    if metric not in ("rmse", "nll", "crps"):
        return {}
    cells: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        if metric in row:
            cells.setdefault((row["set"], row["split"]), {})[row["method"]] = row[metric]
    found: dict[str, list[int]] = {}
    for cell in cells.values():
        for rank, name in enumerate(sorted(cell, key=cell.__getitem__), start=1):
            found.setdefault(name, []).append(rank)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("data", type=Path)
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--sets", default=",".join(SETS))
    measuring.add_argument("--splits", default=",".join(map(str, range(20))))
    measuring.add_argument("--jobs", type=int, default=1)
    measuring.add_argument("--seconds", type=float, default=math.inf)
    measuring.add_argument("--one-draw", action="store_true")
    showing, joining = commands.add_parser("table"), commands.add_parser("join")
    for command in (showing, joining):
        command.add_argument("rows", type=Path)
    joining.add_argument("newer", type=Path)
    for command in (measuring, showing):
        command.add_argument("--methods", default=",".join(METHODS))
    chosen = parser.parse_args()
    if chosen.command == "join":
        join(chosen.rows, chosen.newer)
        return
    if chosen.command == "table":
        print("\n".join(table(chosen.rows, chosen.methods.split(","))))
        return
    splits = [int(one) for one in chosen.splits.split(",")]
    named = (chosen.sets.split(","), splits, chosen.methods.split(","))
    measure(chosen.data, chosen.out, *named, chosen.jobs, chosen.seconds, chosen.one_draw)


if __name__ == "__main__":
    main()
