"""Labels of any unit: what is measured follows it, and comes back from the run's files."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from made_up_tables import TINY
from uraenas.run.directory import Run

LARGE = 2.0**36  # of labels about 150: their variance is beyond 1e25
IN_UNITS = ("rmse", "mae", "crps", "width")  # metrics that begin like this


def measured(path: Path, unit: float, uraenas: Callable) -> dict[tuple[str, ...], float]:
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 3))
    y = 150 + 20 * x[:, 0] + random.normal(size=120)
    path.mkdir()
    np.savez(path / "rows.npz", x=x[:80], y=unit * y[:80], x_test=x[80:], y_test=unit * y[80:])
    assigned = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    told = ("--preset", "table", "--methods", "uraenas-adam", *assigned, "--set", "evaluate.references=true")
    done = uraenas("run", path / "rows.npz", *told, "--out", path / "run")
    assert done.returncode == 0, done.stderr
    assert (path / "run" / "report.html").exists()
    rows = Run(path / "run").metrics().rows
    return {(row.method, row.metric, row.calibration, str(row.members)): row.value for row in rows}


def test_what_is_measured_follows_the_unit_of_labels(tmp_path: Path, uraenas: Callable) -> None:
    small, large = (measured(tmp_path / name, unit, uraenas) for name, unit in (("a", 1.0), ("b", LARGE)))
    assert small.keys() == large.keys()
    assert {metric for _, metric, _, _ in small} >= {"rmse", "width90", "nll", "total_uncertainty"}
    for key, value in small.items():
        metric = key[1]
        if metric == "nll":
            wanted = value + math.log(LARGE)
        else:
            power = 2 if metric.endswith("_uncertainty") else int(metric.startswith(IN_UNITS))
            wanted = value * LARGE**power
        assert large[key] == pytest.approx(wanted, rel=1e-4, abs=1e-6), key


def test_a_test_label_beyond_all_others_is_refused_before_anything_is_trained(
    tmp_path: Path, uraenas: Callable
) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 60))
    y[55] = 1e9
    np.savez(tmp_path / "rows.npz", x=x[:40, None], y=y[:40], x_test=x[40:, None], y_test=y[40:])
    done = uraenas("run", tmp_path / "rows.npz", "--preset", "table", "--out", tmp_path / "run")
    assert done.returncode != 0
    assert "y is 1e+09 in row 56 (test)" in done.stderr
    assert not (tmp_path / "run").exists()
