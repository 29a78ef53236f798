"""Rows that no chain learns from: intervals of the whole ensemble rest on them, and their promise is exact."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from short_runs import stopped_in_training

from made_up_tables import METHODS, TINY, table
from uraenas import UraeNASRegressor
from uraenas.base.files import read_json, write_json
from uraenas.data.tables import TableSettings, frame_of, table_dataset
from uraenas.data.tables.table import rows_apart
from uraenas.deploy import Exported, Wanted, export_file
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.residuals import Residuals
from uraenas.evaluation import numbers
from uraenas.run import members
from uraenas.run.directory import Run
from uraenas.run.task import prepare

ROWS = 400  # of which 80 are for testing and 19 apart


def run_command(houses: Path, out: Path, **changes: object) -> tuple[object, ...]:
    settings = {**TINY, "data.target": "price", "data.leave_out": "sold", **changes}
    assigned = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ("run", houses, "--preset", "table", "--methods", METHODS, *assigned, "--out", out)


@pytest.fixture(scope="module")
def path(made_once: Callable[..., Path], uraenas: Callable) -> Path:
    def make(out: Path) -> None:
        out.mkdir()
        done = uraenas(*run_command(table(out / "houses.csv", ROWS), out / "run"))
        assert done.returncode == 0, done.stderr
        assert "none learns from 19 rows, which intervals rest on (data.apart)" in done.stderr + done.stdout

    return made_once("apart", make)


def assert_same(one: Path, other: Path, method: str) -> None:
    """Members, and what promises rest on, bit for bit."""
    ours, theirs = (Run(path).ensemble(method) for path in (one, other))
    assert ours.identity == theirs.identity
    kept = theirs.require_known().of_numbers.tensors()
    for name, tensor in ours.require_known().of_numbers.tensors().items():
        assert torch.equal(tensor, kept[name])


@pytest.mark.parametrize(
    ("rows", "apart"), [(100, 0), (189, 0), (190, 19), (389, 19), (390, 39), (1990, 199), (99_999, 199)]
)
def test_one_less_than_a_multiple_of_twenty_rows_are_apart(rows: int, apart: int) -> None:
    assert rows_apart(rows, 0.1) == apart
    assert rows_apart(rows, 0) == 0


def test_rows_apart_are_drawn_whatever_their_labels_and_columns_do_not_know_them() -> None:
    random, rows = np.random.default_rng(0), 400
    frame = frame_of(random.standard_normal((rows, 1)), ["x"]) | {"y": np.sort(random.standard_normal(rows))}
    nobody, settings = np.zeros(rows, bool), TableSettings("y", apart=0.1)
    found = [table_dataset("rows", frame, settings, nobody, key) for key in range(30)]
    places = [[int(name.split()[1]) - 1 for name in one.apart.names] for one in found]
    for dataset in found:
        parts = (dataset.train, dataset.validation, dataset.apart)
        assert len(dataset.apart) == 39
        assert len({name for part in parts for name in part.names}) == rows
    moved = {**frame, "x": frame["x"] + 1000 * np.isin(np.arange(rows), places[0])}
    assert table_dataset("rows", moved, settings, nobody, 0).columns == found[0].columns
    tenths = [np.bincount(np.array(own) // 40, minlength=10) for own in places]
    assert np.var(tenths) == pytest.approx(39 * 0.1 * 0.9 * 361 / 399, rel=0.25)  # by strata it were below 1
    classes = {**frame, "y": np.where(frame["y"] > 0, "a", "b").astype(object)}
    assert table_dataset("rows", classes, settings, nobody).apart is None
    assert table_dataset("rows", frame, TableSettings("y"), nobody).apart is None


def test_nothing_is_learned_from_rows_apart(path: Path) -> None:
    run = Run(path / "run")
    task = prepare(run.config())
    assert task.apart is not None
    assert len(task.apart) == 19
    assert len(task.train) == len(task.fold) == 301
    known = {name for part in (task.train, task.dataset.test) for name in part.names or ()}
    assert not known & set(task.apart.names or ())
    assert task.held_out is task.train
    assert run.data().apart_images == 19
    assert (
        "301 for training, held out in turn, 19 apart, 80 for testing"
        in (path / "run/report.html").read_text()
    )


def test_a_search_is_refused_where_rows_that_it_has_seen_are_held_out_or_apart_now(
    path: Path, tmp_path: Path, uraenas: Callable
) -> None:
    """The checksum of the rows is another where others are apart; they are the same rows all the same."""
    houses, of = path / "houses.csv", ("--search-of", path / "run")
    done = uraenas(*run_command(houses, tmp_path / "run", **{"train.folds": 0}), *of)
    assert done.returncode == 2
    assert "does not fit: train.folds was 5 and is now 0, so it may have seen what is held out" in done.stderr
    without = {"train.folds": 0, "methods": "uraenas-adam"}
    assert uraenas(*run_command(houses, tmp_path / "whole", **without)).returncode == 0
    done = uraenas(*run_command(houses, tmp_path / "run"), "--search-of", tmp_path / "whole")
    assert "does not fit: train.folds was 0 and is now 5, so it may have seen what is held out" in done.stderr
    assert not (tmp_path / "run").exists()
    assert uraenas(*run_command(houses, tmp_path / "run"), *of, "--dry-run").returncode == 0


@pytest.mark.parametrize("method", METHODS.split(","))
def test_intervals_are_those_of_the_whole_ensemble_by_rows_apart(path: Path, method: str) -> None:
    run = Run(path / "run")
    ensemble, apart, test = (
        run.ensemble(method),
        prepare(run.config()).apart,
        prepare(run.config()).dataset.test,
    )
    assert apart is not None
    predict = ensemble.predictor("cpu")
    mean, variance = numbers.moments(predict(apart.images).double())
    scores = ((torch.from_numpy(apart.labels) - mean).abs() / variance.sqrt()).sort().values
    mean, variance = numbers.moments(predict(test.images).double())
    kept = ensemble.require_known().of_numbers
    assert kept.images_apart == len(kept) == 19
    for coverage, place in ((0.5, 10), (0.9, 18), (0.95, 19)):  # 90 and 95 % of 20
        ends = kept.interval(predict(test.images), coverage)
        reach = scores[place - 1] * variance.sqrt()
        torch.testing.assert_close(ends, torch.stack([mean - reach, mean + reach], dim=1))
    assert kept.interval(predict(test.images), 0.96).isinf().all()
    assert ensemble.require_known().images == 19  # foreign rows are told by the same


def test_all_rows_that_were_left_out_choose_members_and_temperature(
    path: Path, uraenas: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    def greedy(predictions: torch.Tensor, labels: torch.Tensor, count: int, *more: object) -> list[int]:
        counts.append(len(labels))
        return [0] * count

    monkeypatch.setattr(members.selection, "greedy", greedy)
    choice = ("--set", "ensemble.selection=repeated", "--methods", "uraenas-adam")
    done = uraenas("members", path / "run", *choice, "--out", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert sum(counts) == 301 * 4 // 5 + 1  # four chains leave out four parts of five
    assert Run(tmp_path / "new").ensemble().require_known().of_numbers.images_apart == 19


def test_a_run_that_was_stopped_ends_the_same_and_exports_the_same(
    path: Path, uraenas: Callable, tmp_path: Path
) -> None:
    command = run_command(path / "houses.csv", tmp_path / "run")
    with stopped_in_training():
        assert uraenas(*command).returncode != 0
    done = uraenas(*command)
    assert done.returncode == 0, done.stderr
    for name in METHODS.split(","):
        assert_same(path / "run", tmp_path / "run", name)
    run, file = Run(tmp_path / "run"), tmp_path / "houses.onnx"
    export_file(run, file, wanted=Wanted(asked=Asked(coverage=0.9)))
    given = {"area": [50.0, 150.0], "rooms": [2.0, np.nan], "town": np.array(["a", "b"])}
    exported, ends = Exported(file)(given), run.ensemble().predict_interval(given, 0.9)
    unit = run.ensemble().normalisation.target.scale
    np.testing.assert_allclose(exported["low"], ends[:, 0], rtol=1e-5, atol=1e-5 * unit)
    np.testing.assert_allclose(exported["high"], ends[:, 1], rtol=1e-5, atol=1e-5 * unit)


def test_a_run_from_before_there_were_rows_apart_has_none_and_goes_on(
    path: Path, uraenas: Callable, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    done = uraenas(*run_command(path / "houses.csv", old, **{"data.apart": 0}))
    assert done.returncode == 0, done.stderr
    config = read_json(old / "config.json")
    assert config.pop("data.apart") == 0
    write_json(old / "config.json", config)
    assert "apart_images" not in read_json(old / "data.json")
    shutil.copytree(old, tmp_path / "copy")
    shutil.rmtree(old / "methods/uraenas-adam")
    done = uraenas(*run_command(path / "houses.csv", old))  # the preset has it now
    assert done.returncode == 0, done.stderr
    assert_same(old, tmp_path / "copy", "uraenas-adam")
    kept = Run(old).ensemble().require_known().of_numbers
    assert set(kept.panels.tolist()) == {0, 1, 2, 3}  # that vote
    assert prepare(Run(old).config()).apart is None


def test_estimators_have_rows_apart_unless_they_hold_out_rows_or_have_too_few() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((320, 2))
    y = x[:, 0] + 0.1 * random.standard_normal(320)
    small = {"method": "uniform-adam", "members": 2, "epochs": 2}
    for count, changes, apart in ((320, {}, 19), (300, {}, 0), (320, {"held_out": 0.2}, 0)):
        model = UraeNASRegressor(**small, **changes).fit(x[:count], y[:count])
        kept = model.ensemble_.require_known().of_numbers
        assert (len(kept) == 19) == bool(apart)
        assert model.predict_interval(x, 0.5).shape == (320, 2)


def test_ninety_and_ninety_five_percent_are_promised_exactly() -> None:
    """Of 19 rows apart and a new one, over random splits of a synthetic table: 18 and 19 of 20, no more and no less."""
    random = np.random.default_rng(1)
    x = random.standard_normal((20_000, 2))
    y = x[:, 0] + (0.1 + np.abs(x[:, 1])) * random.standard_normal(len(x))
    model = UraeNASRegressor("uniform-adam", members=2, epochs=3).fit(x[:200], y[:200])
    columns = model.ensemble_.normalisation.columns
    assert columns is not None
    images, _ = columns.encode(dict(zip(columns.names, x.T, strict=True)))
    said = model.ensemble_.predictor("cpu")(images).double()
    labels, held = torch.from_numpy(y), []
    for _ in range(600):
        apart, new = np.split(200 + random.choice(len(x) - 200, 219, replace=False), [19])
        nobody = torch.zeros(19)
        kept = Residuals.of(said[:, apart], labels[apart], nobody + 1, nobody, torch.zeros(len(said)))
        ends = [kept.interval(said[:, new], coverage) for coverage in (0.9, 0.95)]
        held.append(
            [float(((labels[new] >= e[:, 0]) & (labels[new] <= e[:, 1])).double().mean()) for e in ends]
        )
    means, errors = np.mean(held, axis=0), np.std(held, axis=0) / np.sqrt(len(held))
    assert np.abs(means - (0.9, 0.95)).max() < 4 * errors.max()
    assert errors.max() < 0.004
