"""What a reader of tables notes, and what it refuses, in words that say how to mend it."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.data.catalog import load_dataset
from uraenas.data.dataset import Dataset
from uraenas.data.tables import Frame, TableSettings, table_dataset
from uraenas.data.tables.frame import checked

NUMBER = TableSettings("y", kind="numbers")


def with_target(**columns: np.ndarray) -> Dataset:
    frame: Frame = {**columns, "y": np.arange(60.0) ** 2}
    return table_dataset("rows", frame, NUMBER)


def test_arrays_that_are_no_part_of_the_table_are_named(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    arrays = {"x": x, "y": x[:, 0]}
    np.savez(tmp_path / "t.npz", **arrays, test=np.zeros((20, 60), bool))
    said = "ignored in t.npz: test; rows for testing are x_test and y_test"
    assert load_dataset(tmp_path / "t.npz").notes[0] == said
    np.savez(tmp_path / "t.npz", **arrays, x_test=x[:5], y_test=x[:5, 0])
    assert not any("ignored" in note for note in load_dataset(tmp_path / "t.npz").notes)


def test_rows_without_any_value_are_counted() -> None:
    x, town = np.arange(60.0), np.array(list("ab") * 30, object)
    x[[3, 7, 9]], town[[7, 9]] = np.nan, None
    said = [note for note in with_target(x=x, town=town).notes if "no value but" in note]
    assert len(said) == 1
    assert said[0].startswith("2 rows, such as row 8, have no value but the target's")


@pytest.mark.parametrize("empty", [np.full(60, np.nan), np.array([""] * 60)])
def test_a_table_without_any_value_but_the_targets_is_refused(empty: np.ndarray) -> None:
    with pytest.raises(UraenasError, match="no training row has a value in any column but the target"):
        with_target(a=empty, b=np.full(60, np.nan))


def test_of_such_a_file_nothing_is_written(uraenas: Callable, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("a,b,y\n" + "".join(f",NA,{n}.5\n" for n in range(60)))
    done = uraenas("run", path, "--preset", "table", "--set", "data.target=y", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "there is nothing to learn from" in done.stderr
    assert not (tmp_path / "run").exists()


DATES = {
    "Mar 5, 2020": "March 12, 2021",
    "2020-03": "2020-12",
    "03/2020": "12/2021",
    "12:00": "9:45",
    "10:00:00": "23:59:59",
    "9:45 PM": "12:00 am",
    "5.3.2020": "6.3.2020",
    "2020-03-05T10:00:00Z": "2020-03-06T10:00:00+01:00",
    "3/5/20": "12/31/21",
    "3/5/20 10:00": "12/31/21 9:30",
    "5 Mar 2020": "Fri, 6 March 2020",
    "5 März 2020": "6 Juni 2020",
    "Jan 2020": "2020 Feb",
    "5th May": "1st June",
}


@pytest.mark.parametrize("first", DATES)
def test_dates_and_times_are_refused_however_they_are_written(first: str) -> None:
    with pytest.raises(
        UraenasError, match=f"column day holds dates such as {re.escape(first)}; make numbers"
    ):
        checked({"day": np.array([first, "", DATES[first]] * 20, object)})


def test_a_few_other_words_beside_dates_make_no_names_of_them() -> None:
    days = [f"3/{day}/20" for day in range(1, 31)]
    with pytest.raises(UraenasError, match="dates such as 3/1/20"):
        checked({"day": np.array([*days, "unknown", "n/a"], object)})


@pytest.mark.parametrize(
    "values",
    [
        ("10-12", "13-15", "16-18"),  # ages
        ("1999-2003", "2004-2010"),
        ("2009-10", "2010-11", "2011-12", "2012-13"),  # seasons
        ("1.2.3", "1.10.2", "2.0.0"),  # versions
        ("1.10.12", "1.2.3", "1.9.11"),
        ("12:1", "3:2", "4:3"),  # ratios
        ("16:10", "21:10"),
        ("May", "June", "July"),  # a category as good as any
        ("Mon", "Tue"),
        ("12 apples", "3 pears"),
        ("A-12-20", "B-11-19"),
        ("Room 5, 2020", "Room 6, 2021"),
        ("12:00", "noon", "evening", "night"),
        ("", ""),
    ],
)
def test_what_only_looks_like_dates_is_a_category(values: tuple[str, ...]) -> None:
    checked({"x": np.array([*values, "" if values[0] else "a"] * 20, object)})


def test_plain_years_are_numbers() -> None:
    found = checked({"year": np.array(["1999", "2020", ""], object)})["year"]
    assert found.dtype == np.float64


def on_missing(x: np.ndarray) -> list[str]:
    found = table_dataset("rows", {"x": x, "z": np.arange(len(x)), "y": np.arange(len(x)) ** 2.0}, NUMBER)
    return [note for note in found.notes if "if that means that it is missing" in note]


@pytest.mark.parametrize("value", [-999.0, 9999.0])
@pytest.mark.parametrize("share", [0.01, 0.4])
def test_a_number_that_may_stand_for_a_missing_value_is_noted(value: float, share: float) -> None:
    x = np.round(np.random.default_rng(0).normal(40, 10, 400), 1)
    x[: int(400 * share)], x[-1] = value, np.nan
    (said,) = on_missing(x)
    assert said.startswith(f"x is {value:g} in {400 * share:.0f} rows and ")
    x[0] = -99999.0 if value < 0 else 99999.0  # once alone it is no more than an outlier
    assert not any("99999 in" in note for note in on_missing(x))


def test_codes_of_nines_are_noted_beside_few_values() -> None:
    x = np.arange(400) % 5 + 1.0
    x[:20], x[20:30] = 99, 98
    assert [note.split()[2] for note in on_missing(x)] == ["99"]


def test_two_such_numbers_are_both_noted() -> None:
    x = np.random.default_rng(0).normal(40, 10, 400)
    x[:20], x[20:40], x[40:60] = -9999, -999, 9999
    assert [note.split()[2] for note in on_missing(x)] == ["-9999", "-999", "9999"]


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(0).lognormal(0, 1, 400),  # a long tail
        np.minimum(np.round(np.random.default_rng(0).lognormal(0, 1, 400), 2), 5),  # cut off
        (np.arange(400) % 50 == 0).astype(float),  # rare, of two values
        np.where(np.arange(400) % 10 == 0, np.arange(400) % 7, 0.0),  # mostly 0
        np.arange(400) % 5 + 1.0,
        np.array([-5, -2.4, -2.4, -2.4, -2.3, -2.3, -2.3, 0])[
            np.arange(400) % 8
        ],  # few values, chosen by hand
        np.random.default_rng(0).poisson(0.3, 400).astype(float),
    ],
)
def test_other_columns_are_not_suspected(x: np.ndarray) -> None:
    assert on_missing(x) == []


def on_counts(**columns: np.ndarray) -> list[str]:
    return [note for note in with_target(**columns).notes if "counts the rows" in note]


def test_columns_that_count_the_rows_are_named() -> None:
    mixed = np.random.default_rng(0).permutation(60).astype(float)
    assert on_counts(id=np.arange(60.0) + 7, x=mixed) == [
        "id counts the rows, and new ones have other numbers; if it says no more than which row it is, leave it out "
        "(of a file by data.leave_out)"
    ]
    gaps = np.where(mixed < 2, np.nan, np.arange(60.0))
    assert on_counts(x=np.arange(60.0)) == []  # there is nothing else to learn from
    assert on_counts(x=mixed, gaps=gaps, twice=np.arange(60.0) * 2, town=np.array(list("abc") * 20)) == []


def test_rows_are_counted_as_they_are_in_the_file() -> None:
    y = np.arange(60.0) ** 2
    y[[5, 30]] = np.nan
    frame: Frame = {"id": np.arange(60.0), "x": np.random.default_rng(0).normal(size=60), "y": y}
    assert any(note.startswith("id counts the rows") for note in table_dataset("rows", frame, NUMBER).notes)


def on_wild(y: np.ndarray) -> list[str]:
    x = np.random.default_rng(0).normal(size=60)
    several = {"x": x, "y": y, "z": x + 1}
    both = [
        table_dataset("rows", {"x": x, "y": y}, NUMBER),
        table_dataset("rows", several, TableSettings("y,z", kind="numbers")),
    ]
    one, two = ([note for note in dataset.notes if "learn from such rows" in note] for dataset in both)
    assert one == two
    return one


@pytest.mark.parametrize("wild", [1e12, -1e12])
def test_a_wild_number_to_predict_is_noted_with_its_row(wild: float) -> None:
    y = np.random.default_rng(1).normal(5, 1, 60)
    row = int(table_dataset("rows", {"x": y, "y": y}, NUMBER).train.names[0].split()[1]) - 1
    y[row] = wild
    (said,) = on_wild(y)
    assert said.startswith(f"y is {wild:.6g} in row {row + 1}, and 4.")


@pytest.mark.parametrize(
    "y",
    [np.random.default_rng(1).lognormal(0, 1, 60), np.arange(60) ** 3.0, np.maximum(np.arange(60) - 50.0, 0)],
)
def test_other_numbers_to_predict_are_not_wild(y: np.ndarray) -> None:
    assert on_wild(y) == []


def test_a_wild_number_is_named_by_its_row_whether_it_is_learned_from_or_refused() -> None:
    x, y = np.random.default_rng(0).normal(5, 1, (2, 400))
    parts = set()
    for row in range(0, 400, 13):
        wild = y.copy()
        wild[row] = 1e9
        try:
            notes = table_dataset("rows", {"x": x, "y": wild}, replace(NUMBER, apart=0.1)).notes
            assert any(note.startswith(f"y is 1e+09 in row {row + 1}, and ") for note in notes)
            parts.add("training")
        except UraenasError as error:
            said = re.fullmatch(
                rf"rows: y is 1e\+09 in row {row + 1} \((\w+)\), [\d.e+]+ standard deviations .*", str(error)
            )
            assert said
            parts.add(said[1])
    assert parts == {"training", "test", "validation", "apart"}
