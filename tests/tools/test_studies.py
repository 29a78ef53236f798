"""The studies still run, at toy size: their commands stand beside the results."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

STUDIES = Path(__file__).parents[2] / "studies"
SHORT = ("train.epochs=2", "search.epochs=1", "data.limit=200", "evaluate.suite=none")

Study = Callable[..., str]


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Study:
    """`study("weights", …)` → what it prints."""

    def run(name: str, *arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        monkeypatch.syspath_prepend(str(STUDIES))
        runpy.run_path(str(STUDIES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_kinds_of_weights_have_a_row_each(study: Study, tmp_path: Path) -> None:
    few = ("--preset", "tiny", "--epochs", 2, "--seeds", 0, "--members", 2, "--set", *SHORT[2:])
    printed = study("weights", tmp_path, *few, "--methods", "drnas", "mc-dropout")
    assert printed.endswith((tmp_path / "table.md").read_text())
    assert [line.split("|")[1].strip() for line in printed.splitlines()[2:]] == ["drnas", "mc-dropout"]


def test_kinds_of_weights_of_equal_training_time(study: Study, tmp_path: Path) -> None:
    """More seconds are more epochs; a run that is there keeps its own."""
    few = ("--preset", "tiny", "--epochs", 2, "--seeds", 0, "--members", 2, "--methods", "drnas", "--set")
    epochs = {}
    for seconds in (0.01, 3, 9):
        printed = study("weights", tmp_path / str(min(seconds, 3)), *few, *SHORT[2:], "--seconds", seconds)
        names, _, row = ([cell.strip() for cell in line.split("|")] for line in printed.splitlines())
        epochs[seconds] = int(row[names.index("epochs")])
    assert epochs[0.01] == 2 < epochs[3] == epochs[9]


def test_ways_to_learn_an_architecture_have_a_row_each_and_go_on(study: Study, tmp_path: Path) -> None:
    changes = (*SHORT, "ensemble.members=2", "search.queries=2")
    few = ("--preset", "tiny", "--seeds", 0, *(word for one in changes for word in ("--set", one)))
    study("architectures", tmp_path, "--entries", "snas", *few)
    first = (tmp_path / "snas-0" / "metrics.json").stat()
    study("architectures", tmp_path, "--entries", "snas,random", *few)
    assert (tmp_path / "snas-0" / "metrics.json").stat() == first
    table = (tmp_path / "table.md").read_text()
    assert "snas" in table
    assert "random" in table


def test_false_alarms_are_near_their_theory(study: Study, finished_run: Path) -> None:
    *_, last = study("false_alarms", finished_run, "--splits", 50).splitlines()
    found, theory = (float(cell.split()[0]) for cell in last.split("|")[2:4])
    assert abs(found - theory) < 2


def test_every_score_of_foreign_images_tells_noise(study: Study, finished_run: Path, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", images=images)
    printed = study("foreign_scores", finished_run, "uraenas", f"noise={tmp_path / 'noise.npz'}")
    rows = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in printed.splitlines()[1:]}
    assert float(rows["last"].split()[0]) > 60
    assert {"1 − p", "total", "energy", "relative", "kNN"} <= rows.keys()


def test_noise_is_foreign_from_whatever_reach_on(study: Study, finished_run: Path, tmp_path: Path) -> None:
    images, noise = load_digits().images, np.random.default_rng(0).integers(0, 256, (40, 8, 8))
    np.savez(
        tmp_path / "some.npz",
        images=np.round(images * 255 / 16).astype(np.uint8),
        noise=noise.astype(np.uint8),
    )
    where = tmp_path / "some.npz"
    sets = (f"{where}:images:100", f"digits={where}:images:100", f"noise={where}:noise:40")
    rows = [
        line.strip("| ").split(" | ") for line in study("reach", finished_run, "uraenas", *sets).splitlines()
    ]
    assert [row[0] for row in rows] == ["reach", "99 in 100", "all but one in n + 1", "ranks alone"]
    assert all(float(noise.split()[0]) > float(own.split()[0]) for _, own, noise in rows[1:])


def test_networks_learn_how_images_are_turned(study: Study, tmp_path: Path) -> None:
    images, labels = load_digits(n_class=3, return_X_y=True)
    images = np.round(images.reshape(-1, 8, 8) * 15).astype(np.uint8)
    named = {"x_train": images[:300], "y_train": labels[:300], "x_test": images[300:], "y_test": labels[300:]}
    np.savez(tmp_path / "plain.npz", **named)
    study("turned", "make", tmp_path / "plain.npz", tmp_path / "turned.npz", "--mirrored", "--choose")
    with np.load(tmp_path / "turned.npz") as arrays:
        x, y, upright = arrays["x_test"], arrays["y_test"], arrays["x_test"][arrays["y_test"] % 4 == 0]
        assert len(arrays["y_train"]) == 270 * 4 * 2
        assert len(y) == 30 * 4
        np.testing.assert_array_equal(x[y % 4 == 2], upright[:, ::-1, ::-1])
    given = (
        "--preset",
        "tiny",
        "--epochs",
        4,
        "--seeds",
        0,
        "--members",
        2,
        "--methods",
        "deep-ensemble",
        "--set",
    )
    study("weights", tmp_path / "runs", *given, f"data.name={tmp_path / 'turned.npz'}", "evaluate.suite=none")
    noise = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", images=noise)
    run, foreign = tmp_path / "runs" / "seed-0", f"noise={tmp_path / 'noise.npz'}"
    printed = study("turned", "judge", run, "deep-ensemble", foreign).splitlines()
    rows = {
        tuple(line.split("|")[1:3]): float(line.split("|")[3])
        for line in printed[1:]
        if "accuracy" not in line
    }
    assert rows[" 1 ", " first "] > 80
    assert rows[" 4 ", " first "] > 80
    assert float(printed[1].split()[-1]) > 40


def test_the_expected_architecture_has_a_rank(study: Study, finished_run: Path) -> None:
    assert "of 3 on 189 images" in study("genotype_rank", finished_run, "--random", 2)


def test_many_chains_take_as_long_as_their_architectures_differ(study: Study) -> None:
    run = STUDIES.parent / "results/cifar10/seed-0/joint"
    first, *rows = (json.loads(line) for line in study("scale", run, "--draws", 2).splitlines())
    assert len(set(first["measured"]["relative"])) > 3
    assert max(row["spread"] for row in rows) > 0
    assert {(row["chains"], row["devices"]) for row in rows} >= {(10, 1), (10, 512), (1000, 512)}
