"""Numbers of the customary UCI tables: joint ensembles, other ensembles, and peers, on the same twenty splits.

    python studies/uci.py measure DATA --out rows.jsonl [--sets yacht,energy] [--splits 0,1,2] [--methods uraenas,…]
    python studies/uci.py table rows.jsonl

DATA is a folder of .npz files with x [N, D], y [N] and test [20, N]. What rows.jsonl holds already is not measured
again, so a study can be cut off and go on. Rows that no network is trained on, 15 % of a training set, choose members
and fit the temperature; peers learn from them, too.
"""

import argparse
import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.data import Dataset
from uraenas.data.tables import TableSettings, frame_of, table_dataset
from uraenas.evaluation import MEASURES, numbers
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline

MEASURED = MEASURES["numbers"]
SHOWN = ("rmse", "nll", "crps", "coverage90", "width90")
COMMON = {
    "train.epochs": 150,
    "train.batch": 32,
    "train.prior_deviation": 0.5,
    "ensemble.members": 10,
    "ensemble.selection": "greedy",
}
DRAWN = {**COMMON, "train.sampled.architectures": 20, "train.sampled.copies": 1}
# A method of the table: its name in `METHODS`, and its settings.
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "uraenas": ("uraenas-adam", DRAWN),
    "autodeuq": ("autodeuq", {**DRAWN, "search.distribution": "evolution", "search.queries": 30}),
    "deep ensemble": ("deep-ensemble-adam", COMMON),
    "single": ("deep-ensemble-adam", {**COMMON, "ensemble.members": 1}),
    "MC dropout": ("mc-dropout", {**COMMON, "train.dropout.step_size": 0.02, "train.dropout.rate": 0.05}),
    "SWAG": ("swag", {**COMMON, "train.swag.step_size": 0.02}),
}


def dataset(file: Path, split: int) -> Dataset:
    """One of the twenty."""
    with np.load(file) as arrays:
        x, y, test = arrays["x"], arrays["y"], arrays["test"][split].astype(bool)
    frame = frame_of(x) | {"y": y.astype(np.float64)}
    return table_dataset(file.stem, frame, TableSettings("y", kind="numbers"), test)


def measured(mixture_MN2: Tensor, labels: Tensor) -> dict[str, float]:
    found = MEASURED.of(mixture_MN2, labels)
    return {name: found[name] for name in SHOWN}


def of_ours(name: str, data: Dataset, split: int) -> dict[str, float]:
    """A method of the package, temperature-scaled on held-out rows; conformal intervals beside it."""
    method, settings = OURS[name]
    config = preset("table", {"methods": method, "evaluate.baseline": method, **settings, "seed": split})
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.checked(folder, config, dataset=data)
        pipeline.begin()
        with pipeline.run.held():
            pipeline.train(pipeline.search())
        ensemble = pipeline.run.ensemble(method)
    members, _ = ensemble.predictor("cpu").look(data.test.images)
    labels = torch.from_numpy(data.test.labels)
    mixture = MEASURED.scaled(MEASURED.mean(members), ensemble.temperature)
    ends = numbers.conformal_interval(mixture, ensemble.require_known().of_numbers.quantile(0.9))
    inside = ((labels >= ends[:, 0]) & (labels <= ends[:, 1])).double().mean()
    return {**measured(mixture, labels), "conformal90": float(inside)}


def rows_of(data: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray, Tensor]:
    """Training rows with the held-out ones, their labels, test rows, and their labels."""
    assert data.validation is not None
    x = np.concatenate([data.train.images, data.validation.images])[:, 0, 0]
    y = np.concatenate([data.train.labels, data.validation.labels])
    return x, y, data.test.images[:, 0, 0], torch.from_numpy(data.test.labels)


def gaussian(mean: np.ndarray, deviation: np.ndarray) -> Tensor:
    return torch.from_numpy(np.stack([mean, 2 * np.log(deviation)], axis=-1))[None]


def of_ngboost(name: str, data: Dataset, split: int) -> dict[str, float]:
    """NGBoost with a Gaussian, its defaults."""
    from ngboost import NGBRegressor

    x, y, new, labels = rows_of(data)
    told = NGBRegressor(random_state=split, verbose=False).fit(x, y).pred_dist(new)
    return measured(gaussian(told.params["loc"], told.params["scale"]), labels)


MOST_FITTED, MOST_ROWS = 500, 2000  # of a Gaussian process, whose cost grows with their cube


def of_process(name: str, data: Dataset, split: int) -> dict[str, float]:
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


def of_quantiles(name: str, data: Dataset, split: int) -> dict[str, float]:
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
        "nll": math.nan,
        "crps": 2 * float(pinball),
        "coverage90": float(((known >= low) & (known <= high)).mean()),
        "width90": float((high - low).mean()),
    }


Measure = Callable[[str, Dataset, int], dict[str, float]]
METHODS: dict[str, Measure] = {
    **dict.fromkeys(OURS, of_ours),
    "NGBoost": of_ngboost,
    "Gaussian process": of_process,
    "boosted quantiles": of_quantiles,
}


def measure(folder: Path, out: Path, sets: list[str], splits: list[int], methods: list[str]) -> None:
    """Append a row for each set, split and method that is not there yet."""
    known = {(row["set"], row["split"], row["method"]) for row in _read(out)}
    for split in splits:
        for one in sets:
            data = dataset(folder / f"{one}.npz", split)
            for name in methods:
                if (one, split, name) in known:
                    continue
                begun = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # a kernel at its bounds is no news
                    values = METHODS[name](name, data, split)
                seconds = time.process_time() - begun  # of CPU
                row = {"set": one, "split": split, "method": name, "rows": len(data.test), "seconds": seconds}
                with out.open("a") as file:
                    file.write(json.dumps({**row, **values}) + "\n")


def _read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(out: Path) -> Iterator[str]:
    """Markdown: mean ± standard error over splits, and mean ranks over sets and splits that all methods have."""
    rows = _read(out)
    sets, methods = (list(dict.fromkeys(row[key] for row in rows)) for key in ("set", "method"))
    for metric in (*SHOWN[:4], "conformal90"):
        yield f"\n**{metric}**\n\n| method | {' | '.join(sets)} | mean rank |\n|---|{'---:|' * (len(sets) + 1)}"
        ranks = _ranks(rows, metric)
        for method in methods:
            cells = [_cell([r[metric] for r in rows if _is(r, one, method) and metric in r]) for one in sets]
            mean = f"{np.mean(ranks[method]):.2f} (n = {len(ranks[method])})" if ranks.get(method) else "–"
            yield f"| {method} | {' | '.join(cells)} | {mean} |"


def _is(row: dict[str, Any], one: str, method: str) -> bool:
    return row["set"] == one and row["method"] == method


def _cell(values: list[float]) -> str:
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return "–"
    spread = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{np.mean(values):.3f} ± {spread:.3f}"


def _ranks(rows: list[dict[str, Any]], metric: str) -> dict[str, list[int]]:
    """By method, its rank in every cell in which all methods that have the metric were measured."""
    if metric not in ("rmse", "nll", "crps"):
        return {}
    cells: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        if math.isfinite(row[metric]):
            cells.setdefault((row["set"], row["split"]), {})[row["method"]] = row[metric]
    most = max(len(cell) for cell in cells.values())
    found: dict[str, list[int]] = {}
    for cell in (cell for cell in cells.values() if len(cell) == most):
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
    measuring.add_argument("--sets", default="yacht,energy,concrete,wine-red,kin8nm,power,naval")
    measuring.add_argument("--splits", default=",".join(map(str, range(20))))
    measuring.add_argument("--methods", default=",".join(METHODS))
    commands.add_parser("table").add_argument("rows", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "table":
        print("\n".join(table(chosen.rows)))
        return
    splits = [int(one) for one in chosen.splits.split(",")]
    measure(chosen.data, chosen.out, chosen.sets.split(","), splits, chosen.methods.split(","))


if __name__ == "__main__":
    main()
