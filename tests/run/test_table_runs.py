"""Tables from one end to the other: a run on numbers and one on classes, their files, pages and predictions."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from made_up_tables import TINY, table
from onnx_alone import run_alone
from uraenas import report
from uraenas.base.errors import UraenasError
from uraenas.data.tables.columns import Category, Number
from uraenas.deploy import Exported, Wanted, export_file
from uraenas.deploy.serving.rows import RowsModel
from uraenas.deploy.web import export_web
from uraenas.ensemble import Ensemble
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.table_rows import predict_rows
from uraenas.evaluation import numbers
from uraenas.run.directory import Run
from uraenas.run.hub import push


@pytest.fixture
def runs(table_runs: dict[str, Path]) -> dict[str, Path]:
    return table_runs


def test_numbers_have_their_metrics_for_every_method_and_size(runs: dict[str, Path]) -> None:
    rows = Run(runs["numbers"]).metrics().rows
    full = {row.metric for row in rows if row.members == 4 and row.calibration == "temperature"}
    assert set(numbers.METRICS) <= full
    assert {row.metric for row in rows if row.members == 2} == {"rmse", "mae", "nll"}
    found = {
        row.metric: row.value for row in rows if row.method == "uraenas-adam" and row.calibration == "raw"
    }
    parts = (found[f"{part}_uncertainty"] for part in ("data", "weight", "architecture"))
    assert sum(parts) == pytest.approx(found["total_uncertainty"])
    assert {row.metric for row in Run(runs["classes"]).metrics().rows} >= {"accuracy", "ece", "nll"}


def test_several_targets_have_metrics_of_their_own_and_a_mean(
    runs: dict[str, Path], uraenas: Callable
) -> None:
    run = Run(runs["several"])
    found = {
        row.metric: row.value for row in run.metrics().rows if row.members == 4 and row.calibration == "raw"
    }
    assert {f"{name}{metric}" for name in ("", "price.", "rooms.") for metric in numbers.METRICS} <= set(
        found
    )
    price, rooms = run.ensemble().normalisation.target.parts
    mean = (found["price.crps"] / price.scale + found["rooms.crps"] / rooms.scale) / 2
    assert found["crps"] == pytest.approx(mean)
    assert {row.metric for row in run.metrics().rows if row.low is not None} >= {
        "rmse",
        "price.rmse",
        "rooms.nll",
    }
    page = (runs["several"] / "report.html").read_text()
    assert "2 numbers to predict: price and rooms" in page
    for words in (
        "price, uraenas-adam",
        "rooms: Observed coverage",
        "Conformal intervals of rooms",
        "rooms, in its own unit",
    ):
        assert words in page
    assert "each in units of its standard deviation" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_several_targets_are_predicted_printed_exported_and_served(
    runs: dict[str, Path], tmp_path: Path, uraenas: Callable
) -> None:
    run, file = Run(runs["several"]), tmp_path / "both.onnx"
    ensemble, asked = run.ensemble(), Asked(coverage=0.5)
    given = {"area": np.array([50.0, 150.0]), "town": np.array(["a", "never seen"], object)}
    rows = predict_rows(ensemble, given, asked)
    fields = ("predicted", "deviation", "low", "high", "total", "data", "weights", "architecture")
    names = [f"{target}.{field}" for target in ("price", "rooms") for field in fields]
    assert list(rows[0]) == ["row", *names, "p_value", "foreign", "note"]
    told = {name: np.array([row[name] for row in rows]) for name in names}
    split, ends = ensemble.uncertainty(given), ensemble.predict_interval(given, 0.5)
    for k, target in enumerate(("price", "rooms")):
        np.testing.assert_array_equal(told[f"{target}.predicted"], ensemble.predict(given)[:, k])
        np.testing.assert_array_equal(told[f"{target}.high"], ends[:, k, 1])
        np.testing.assert_array_equal(told[f"{target}.architecture"], split.architecture[:, k])
    export_file(run, file, wanted=Wanted(asked=Asked(coverage=0.5)))
    exported = Exported(file)(given)
    for name in names:
        np.testing.assert_allclose(exported[name], told[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(exported["p_value"], [row["p_value"] for row in rows], atol=0.02)
    served = RowsModel("both", ensemble, asked)
    assert served([{"area": 50.0, "town": "a"}, {"area": 150.0, "town": "never seen"}]) == rows
    assert served.about()["targets"] == ["price", "rooms"]
    assert [output.name for output in served.outputs] == [*names, "p_value", "foreign"]
    assert set(served.schema["properties"]) == set(rows[0])
    new = table(tmp_path / "new.csv", 3)
    text = uraenas("predict", runs["several"], new, "--csv").stdout
    assert set(names) <= set(next(csv.DictReader(io.StringIO(text))))
    said = uraenas("predict", runs["several"], new).stdout
    assert [said.count(word) for word in ("price", "rooms")] == [3, 3]
    assert "for each target by itself" in said


def test_the_page_has_the_sections_of_its_target(runs: dict[str, Path]) -> None:
    page = (runs["numbers"] / "report.html").read_text()
    for id in ("observed", "intervals", "drift", "unsure", "uncertainty", "training"):
        assert f'id="{id}"' in page
    assert 'id="classes"' not in page
    assert "so this is a check that should find nothing" in page  # test and training rows are of one file
    classes = (runs["classes"] / "report.html").read_text()
    assert all(f'id="{id}"' in classes for id in ("classes", "drift", "unsure"))
    assert not any(f'id="{id}"' in classes for id in ("shift", "outside", "images"))


# Names of settings.
STORED = {"image", "data.image_size", "training_images", "held_out_images", "test_images"}


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_the_page_of_a_table_speaks_of_rows(runs: dict[str, Path], kind: str) -> None:
    page = (runs[kind] / "report.html").read_text()
    body = re.sub(r"(?s)<(style|script)>.*?</\1>", "", page)
    said = {words.strip() for words in re.split(r'[<>"]', body) if "image" in words.lower()}
    assert said <= STORED
    assert "n = 18 test rows" in body


def test_columns_remember_how_categories_and_gaps_were_spread(runs: dict[str, Path]) -> None:
    columns = Run(runs["numbers"]).inputs("uraenas-adam")
    assert columns is not None
    area, rooms, town = columns.parts
    assert isinstance(area, Number)
    assert area.missing == 0
    assert isinstance(rooms, Number)
    assert 0 < (rooms.missing or 0) < 0.2
    assert isinstance(town, Category)
    assert sum(town.shares) == pytest.approx(1)


def test_show_and_comparisons_have_the_columns_of_the_target(
    runs: dict[str, Path], uraenas: Callable
) -> None:
    said = {kind: uraenas("show", path).stdout for kind, path in runs.items()}
    assert "RMSE" in said["numbers"]
    assert "as predicted, without a temperature" in said["numbers"]
    assert "Acc" in said["classes"]
    number, several = (Run(runs[kind]) for kind in ("numbers", "several"))
    two = report.build([(number, None), (number, None)])
    assert "RMSE, test: best" in two
    words = "means over 2 targets"
    assert f"All values are {words}" in report.build([(several, None), (several, None)])
    assert words in uraenas("report", several.path, "--format", "csv").stderr
    assert [kind for kind in runs if words in said[kind]] == ["several"]
    assert words not in two + uraenas("report", number.path, "--format", "csv").stderr
    assert "Answered at" not in two
    assert "not tested on the same rows" in report.build([(number, None), (several, None)])


@pytest.mark.parametrize("form", ["html", "md", "csv", "latex"])
@pytest.mark.parametrize("against", ["", "uraenas-adam"])
def test_classes_and_numbers_have_no_table_in_common(
    runs: dict[str, Path], tmp_path: Path, uraenas: Callable, form: str, against: str
) -> None:
    for first, other in (("numbers", "classes"), ("classes", "numbers")):
        words = ["--format", form, "--against", against, "--out", tmp_path / "page"]
        done = uraenas("report", runs[first], runs[other], *words)
        assert done.returncode == 2
        assert f"{runs['numbers']} predicts numbers and" in done.stderr.splitlines()[-1]
        assert not (tmp_path / "page").exists()


def test_members_are_chosen_among_chains_that_left_out_the_same_rows(
    runs: dict[str, Path], uraenas: Callable, tmp_path: Path
) -> None:
    choice = ("--set", "ensemble.selection=repeated", "--set", "ensemble.members=3")
    to = ("--methods", "deep-ensemble-adam", "--out", tmp_path / "new")
    done = uraenas("members", runs["numbers"], *choice, *to)
    assert done.returncode == 0, done.stderr
    members = Run(tmp_path / "new").ensemble().members
    # One of each of three folds.
    assert [member.origin.chain[-2:] for member in members] == ["00", "01", "02"]


def test_a_saved_ensemble_says_the_same_of_rows_in_any_form(runs: dict[str, Path], tmp_path: Path) -> None:
    ensemble = Run(runs["numbers"]).ensemble()
    ensemble.save(tmp_path / "kept")
    again = Ensemble.load(tmp_path / "kept")
    rows = {"area": [100, 50], "rooms": [3, np.nan], "town": ["a", "b"]}
    mean, deviation = ensemble.predict_distribution(rows)
    np.testing.assert_array_equal(again.predict(rows), mean)
    np.testing.assert_array_equal(again.predict(np.array([[100, 3, "a"], [50, "", "b"]])), mean)
    assert (deviation > 0).all()
    ends = ensemble.predict_interval(rows, 0.5)
    assert ((ends[:, 0] < mean) & (mean < ends[:, 1])).all()
    split = ensemble.uncertainty(rows)
    torch.testing.assert_close(split.data + split.weights + split.architecture, split.total)
    stored = json.loads((tmp_path / "kept" / "ensemble.json").read_text())
    assert [one["kind"] for one in stored["columns"]] == ["number", "number", "category"]


def test_a_category_never_seen_is_predicted_with_a_note_and_more_doubt(runs: dict[str, Path]) -> None:
    ensemble = Run(runs["numbers"]).ensemble()
    towns = ["a", "b", "c", "zz"]
    *known, strange = predict_rows(ensemble, {"area": [100] * 4, "rooms": [3] * 4, "town": towns})
    assert {row["note"] for row in known} == {""}
    assert strange["note"] == "never seen in training: town = zz"
    assert strange["predicted"] == pytest.approx(np.mean([row["predicted"] for row in known]))
    assert strange["total"] > np.mean([row["total"] for row in known])


def test_predict_prints_rows_of_a_table(runs: dict[str, Path], tmp_path: Path, uraenas: Callable) -> None:
    new = table(tmp_path / "new.csv", 5)
    for kind, keys in (
        ("numbers", {"predicted", "low", "high"}),
        ("classes", {"prediction_set", "probability", "abstain"}),
    ):
        done = uraenas("predict", runs[kind], new, "--json", "--coverage", "50%")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        found = told["predictions"]
        assert ("threshold" in told) == (kind == "classes")
        if kind == "classes":  # what was asked for, and what so few rows can promise
            assert (told["certainty"], told["threshold"]["certainty"]) == (0.95, 0.0)
        assert len(found) == 5
        assert keys <= set(found[0])
        text = uraenas("predict", runs[kind], new, "--csv", "--coverage", "0.5").stdout
        cells = list(csv.DictReader(io.StringIO(text)))
        assert [row["row"] for row in cells] == list("12345")
        if kind == "classes":
            assert [row["probabilities"] for row in found] == [
                {name: pytest.approx(float(row[f"p({name})"])) for name in ("no", "yes")} for row in cells
            ]
        printed = uraenas("predict", runs[kind], new).stdout
        assert ("Row" in printed, "abstain" in printed) == (True, kind == "classes")
        scaled = {"numbers": "± is temperature-scaled", "classes": "Prob is temperature-scaled"}[kind]
        assert scaled in printed
        assert str(new) not in printed
        doubts = uraenas(
            "predict", runs[kind], new, "--coverage", "0.999", "--foreign", "0.001", "--risk", "0.001"
        )
        said = doubts.stderr + doubts.stdout
        assert "image" not in said
        assert said.count("held-out row") >= 2
        both = uraenas("predict", runs[kind], new, table(tmp_path / "other.csv", 3)).stdout
        of_first, of_second = both.split(str(new))[1].split(str(tmp_path / "other.csv"))
        assert re.findall(r"^ *(\d) ", of_first, re.M) == list("12345")
        assert re.findall(r"^ *(\d) ", of_second, re.M) == list("123")
    (tmp_path / "less.csv").write_text("area,town\n1,a\n")
    done = uraenas("predict", runs["numbers"], tmp_path / "less.csv")
    assert done.returncode == 2
    assert f"{tmp_path / 'less.csv'}: column 'rooms' is missing" in done.stderr


@pytest.mark.parametrize("asked", ["risk", "certainty", "coverage", "foreign"])
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_share_that_is_none_is_refused_at_once_by_whoever_is_asked(
    runs: dict[str, Path], tmp_path: Path, uraenas: Callable, kind: str, asked: str
) -> None:
    new, out = table(tmp_path / "new.csv", 5), tmp_path / "file.onnx"
    for command in (
        ("predict", runs[kind], new),
        ("serve", runs[kind]),
        ("export", runs[kind], "--out", out),
    ):
        for wrong in ("1", "nan"):
            form = ("--format", "onnx") if command[0] == "export" else ()
            done = uraenas(*command, f"--{asked}", wrong, *form)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert "is out of range; it must be more than 0 and less than 1" in done.stderr


def test_a_note_says_what_is_missing_that_never_was(runs: dict[str, Path]) -> None:
    """Rooms were missing in training, too, and have a column that says so."""
    given = {"area": [np.nan, 80.0], "rooms": [3.0, np.nan], "town": ["a", ""]}
    found = predict_rows(Run(runs["numbers"]).ensemble(), given)
    assert [row["note"] for row in found] == [
        "never seen in training: area missing",
        "never seen in training: town missing",
    ]


@pytest.mark.parametrize("kind", ["numbers", "classes", "several"])
def test_a_row_whose_prediction_is_no_number_is_named_and_the_exit_code_says_so(
    runs: dict[str, Path], tmp_path: Path, uraenas: Callable, kind: str
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("area,rooms,town\n100,3,a\n1e60,3,a\n")
    done = uraenas("predict", runs[kind], new, "--json")
    assert done.returncode == 1
    assert "Infinity" not in done.stdout
    assert "NaN" not in done.stdout
    found = json.loads(done.stdout)
    assert [row["row"] for row in found["predictions"]] == [1]
    assert [row["row"] for row in found["without"]] == [2]
    assert "new.csv: row 2: no prediction" in done.stderr
    assert "1 of 2 rows predicted" in done.stderr
    assert len(uraenas("predict", runs[kind], new, "--csv").stdout.splitlines()) == 2
    assert "nan" not in uraenas("predict", runs[kind], new).stdout
    new.write_text("area,rooms,town\n1e60,3,a\n")
    for way in ("--csv", "--json"):
        assert uraenas("predict", runs[kind], new, way).returncode == 1


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_file_takes_columns_and_says_what_predict_says_without_torch_and_this_package(
    runs: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    file, ensemble = tmp_path / "houses.onnx", Run(runs[kind]).ensemble()
    facts = export_file(Run(runs[kind]), file, wanted=Wanted(asked=Asked(coverage=0.5)))
    given = {
        "area": np.array([50.0, 150.0, 90.0, 60.0]),
        "rooms": np.array([2.0, np.nan, 4.0, 1.0]),
        "town": np.array(["a", "b", "never seen", ""]),
    }
    found, stored = run_alone(file, given, tmp_path)
    rows = predict_rows(ensemble, given, Asked(coverage=0.5))
    unit = getattr(ensemble.normalisation.target, "scale", 1.0)
    same = dict.fromkeys(("total", "data", "weights", "architecture"), unit**2)
    same |= dict.fromkeys(("predicted", "deviation", "low", "high"), unit) if kind == "numbers" else {}
    for name, own in same.items():
        expected = [row[name] for row in rows]
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5 * own, err_msg=name)
    np.testing.assert_allclose(found["p_value"], [row["p_value"] for row in rows], atol=0.02)
    if kind == "classes":
        np.testing.assert_allclose(found["probabilities"], ensemble.predict_proba(given), atol=1e-5)
        sets = [[ensemble.classes[k] for k in np.flatnonzero(one)] for one in found["prediction_set"]]
        assert list(map(sorted, sets)) == [sorted(row["prediction_set"]) for row in rows]
        assert found["abstain"].tolist() == [row["abstain"] for row in rows]
    assert "image" not in json.dumps(facts["outputs"])
    exported = Exported(file)(given)
    assert all(np.array_equal(exported[name], one) for name, one in found.items())
    assert max(facts["parity"][name] for name in same) < 1e-5
    assert stored["parity"] == facts["parity"]
    assert [one["name"] for one in stored["columns"]] == ["area", "rooms", "town"]
    if kind == "numbers":  # more than so few held-out rows can promise
        export_file(Run(runs[kind]), file, wanted=Wanted(asked=Asked(coverage=0.999)))
        assert np.isinf(Exported(file)(given)["high"]).all()


def test_what_takes_images_alone_refuses_tables(
    runs: dict[str, Path], tmp_path: Path, uraenas: Callable
) -> None:
    for form, precision in (("onnx", "int8"), ("torch", "float32")):
        with pytest.raises(UraenasError, match="rows of a table is written as ONNX in float32"):
            export_file(Run(runs["classes"]), tmp_path / "file", form, wanted=Wanted(precision))
    with pytest.raises(UraenasError, match="a page in the browser takes images"):
        export_web(Run(runs["classes"]), tmp_path / "page", tmp_path)
    settings = ("--set", f"data.name={table(tmp_path / 'houses.csv')}", "--set", "data.target=price")
    done = uraenas("run", *settings, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "a table needs --preset table" in done.stderr
    done = uraenas(
        "run", "--preset", "table", "--methods", "expected-heads", *settings, "--out", tmp_path / "run"
    )
    assert "heads predict classes" in done.stderr
    done = uraenas("run", "--preset", "table", "--methods", "mimo", *settings, "--out", tmp_path / "run")
    assert "no layer that alone reads the input" in done.stderr
    outside = ("--set", f"evaluate.outside={tmp_path}")
    done = uraenas("run", "--preset", "table", *settings, *outside, "--out", tmp_path / "run")
    assert "evaluate.outside names images from elsewhere, and a table has rows" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["houses.csv"]
    done = uraenas("distil", runs["classes"], "--into", "deep-ensemble-adam", "--out", tmp_path / "run")
    assert "distillation is for images" in done.stderr
    with pytest.raises(UraenasError, match="the hub takes images"):
        push(Run(runs["classes"]), "someone/houses")


def test_the_plan_of_a_table_speaks_of_rows(tmp_path: Path, uraenas: Callable) -> None:
    houses = table(tmp_path / "houses.csv")
    own = ("--set", f"data.name={houses}", "--set", "data.target=price", "--out", tmp_path / "run")
    done = uraenas("run", "--preset", "table", "--dry-run", *own)
    assert done.returncode == 0, done.stderr
    assert re.search(r"evaluate +│ 1 set of \d+ rows", done.stdout), done.stdout


def test_a_target_that_is_not_there_leaves_nothing_behind(tmp_path: Path, uraenas: Callable) -> None:
    houses = table(tmp_path / "houses.csv")
    done = uraenas("run", "--preset", "table", "--set", f"data.name={houses}", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "it is not said what to predict" in done.stderr
    assert not (tmp_path / "run").exists()


def test_what_members_cannot_tell_apart_is_no_number_in_the_table(
    runs: dict[str, Path], tmp_path: Path, uraenas: Callable
) -> None:
    new = table(tmp_path / "new.csv", 2)
    printed = uraenas("predict", runs["numbers"], new, "--method", "deep-ensemble-adam").stdout
    assert "The part of architecture is not defined" in printed
    assert [line.split()[-1] for line in printed.splitlines() if line.split()[:1] in (["1"], ["2"])] == 2 * [
        "–"
    ]


def test_fewer_members_are_chosen_where_each_architecture_has_two_chains(
    runs: dict[str, Path], tmp_path: Path, uraenas: Callable
) -> None:
    words = ("--methods", "uraenas-adam", "--set")
    done = uraenas("members", runs["numbers"], "--out", tmp_path / "few", *words, "ensemble.members=3")
    assert done.returncode == 0, done.stderr
    few, every = (Run(path).ensemble("uraenas-adam").members for path in (tmp_path / "few", runs["numbers"]))
    assert [one.identity for one in few] == [one.identity for one in every[:3]]
    assert len({one.architecture for one in every}) == 2
    done = uraenas("members", runs["numbers"], "--out", tmp_path / "more", *words, "ensemble.members=9")
    assert "no finished chain sampled-adam-04" in done.stderr


@pytest.fixture
def far(tmp_path: Path, uraenas: Callable) -> Callable[[float], Run]:
    """A run on the same numbers, so much larger."""

    def made(offset: float) -> Run:
        folder = tmp_path / f"by-{offset:g}"
        folder.mkdir()
        text = table(folder / "houses.csv").read_text()
        lines = list(csv.DictReader(io.StringIO(text)))
        with (folder / "houses.csv").open("w") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows({**line, "price": f"{float(line['price']) + offset:.2f}"} for line in lines)
        settings = {**TINY, "data.target": "price", "data.leave_out": "sold"}
        assigned = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        words = ("--preset", "table", "--methods", "uraenas-adam", *assigned, "--out", folder / "run")
        done = uraenas("run", folder / "houses.csv", *words)
        assert done.returncode == 0, done.stderr
        return Run(folder / "run")

    return made


def test_numbers_far_from_zero_are_measured_and_scaled_like_others(far: Callable[[float], Run]) -> None:
    near, away = far(0), far(1e12)
    values = [
        {(row.metric, row.members, row.calibration): row.value for row in run.metrics().rows}
        for run in (near, away)
    ]
    assert values[0].keys() == values[1].keys()
    for key, value in values[0].items():
        assert values[1][key] == pytest.approx(value, rel=1e-3, abs=1e-3), key
    assert away.ensemble().temperature == pytest.approx(near.ensemble().temperature, rel=1e-3)


def test_a_file_holds_numbers_far_from_zero_or_is_refused(
    far: Callable[[float], Run], tmp_path: Path
) -> None:
    export_file(far(2e6), tmp_path / "houses.onnx")
    with pytest.raises(UraenasError, match="which a file in float32 cannot tell apart"):
        export_file(far(1e12), tmp_path / "houses.onnx")
