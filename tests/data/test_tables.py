"""Tables: columns as scikit-learn's transformers have them, how rows are divided, and input that cannot be used."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from made_up_tables import HEAD, lines
from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.data import load_dataset
from uraenas.data.tables import (
    Columns,
    Number,
    TableSettings,
    columns_of,
    frame_of,
    read_frame,
    table_dataset,
)
from uraenas.data.tables.frame import as_category, checked


def test_columns_are_what_scikit_learns_transformers_make_of_them(houses: Path) -> None:
    raw = read_frame(houses)
    frame = checked({name: raw[name] for name in ("rooms", "area", "town")})
    train = {name: values[:40] for name, values in frame.items()}
    columns = columns_of(train)
    rows, strange = columns.encode(frame)
    assert rows.shape == (60, 1, 1, columns.width)
    assert not strange.any()
    table = np.empty((60, 3), object)
    for number, values in enumerate(frame.values()):
        table[:, number] = values
    order = list(columns.parts[2].values)
    theirs = ColumnTransformer(
        [
            ("rooms", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), [0]),
            ("missing", MissingIndicator(), [0]),
            ("area", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), [1]),
            ("town", OneHotEncoder(categories=[order], sparse_output=False), [2]),
        ]
    ).fit(table[:40])
    numeric = table.copy()
    numeric[:, :2] = numeric[:, :2].astype(float)
    np.testing.assert_allclose(rows[:, 0, 0], theirs.transform(numeric).astype(float), rtol=1e-6, atol=1e-6)


def test_columns_survive_being_stored_as_json(houses: Path) -> None:
    raw = read_frame(houses)
    columns = columns_of(checked({name: raw[name] for name in ("rooms", "area", "town")}), pieces=4)
    again = Columns.of(Fields("here", json.loads(json.dumps(columns.as_json()))))
    assert again == columns
    assert Columns.of(Fields("here", {})) is None


def test_a_number_in_pieces_has_come_as_far_through_each_as_its_quantiles_say() -> None:
    columns = columns_of({"a": np.array([0.0, 1, 2, 3, 10]), "b": np.array([0.0, 0, 1, 1, 1])}, pieces=2)
    rows, _ = columns.encode({"a": np.array([-5.0, 1, 2, 6, 99, np.nan]), "b": np.zeros(6)})
    assert columns.width == 4  # two values have no pieces
    np.testing.assert_allclose(rows[:, 0, 0, 1], [-1, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(rows[:, 0, 0, 2], [-1, -1, -1, 0, 1, -1])


def test_a_dataset_divides_rows_and_learns_columns_from_training_rows_alone(houses: Path) -> None:
    settings = TableSettings("price", ("day",))
    found = load_dataset(houses, table=settings)
    assert found.classes == ()
    assert found.target.name == "numbers"
    assert [len(part) for part in found.parts.values()] == [39, 12, 9]
    names = [name for part in found.parts.values() for name in part.names]
    assert len(set(names)) == 60
    assert found.columns is not None
    (area,) = (part for part in found.columns.parts if part.name == "area")
    rows = [int(name.split()[1]) - 1 for name in found.train.names]
    own = np.array([float(line.split(",")[1]) for line in lines()])[rows]
    assert area.mean == pytest.approx(own.mean())
    by_name = dict(zip(found.test.names, found.test.labels, strict=True))
    again = load_dataset(houses, table=settings).test
    assert by_name == dict(zip(again.names, again.labels, strict=True))


def test_several_targets_are_columns_of_labels_and_rows_need_all_of_them(tmp_path: Path) -> None:
    frame = {
        "x": np.arange(40.0),
        "a, b": np.arange(40.0) ** 2,
        "c": np.arange(40) % 3,
        "d": np.sin(np.arange(40)),
    }
    frame["d"][:5] = np.nan
    found = table_dataset("rows", frame, TableSettings("c,d", ("a, b",)))
    assert found.notes[0] == "5 rows without d are left out"
    frame["d"][:4] = 1
    assert (
        table_dataset("rows", frame, TableSettings("c,d", ("a, b",))).notes[0]
        == "1 row without d is left out"
    )
    assert [part.column for part in found.target.parts] == ["c", "d"]
    assert found.columns is not None
    assert found.columns.names == ("x",)
    rows = [int(name.split()[1]) - 1 for name in found.train.names]
    np.testing.assert_array_equal(found.train.labels, np.stack([frame["c"], frame["d"]], axis=1)[rows])
    alone = table_dataset("rows", frame, TableSettings("a, b"))  # a name with a comma in it
    assert [part.column for part in alone.target.parts] == ["a, b"]
    np.savez(tmp_path / "two.npz", x=frame["x"][:, None], y=np.stack([frame["c"], frame["a, b"]], axis=1))
    assert [part.column for part in load_dataset(tmp_path / "two.npz").target.parts] == ["y0", "y1"]


def test_a_column_of_weights_says_how_much_rows_count_and_is_no_input() -> None:
    frame = {"x": np.arange(40.0), "w": np.arange(40.0) % 4, "y": np.arange(40.0) ** 2}
    found = table_dataset("rows", frame, TableSettings("y", weight="w"))
    assert found.notes[0] == "10 rows whose w is 0 are left out"
    assert found.columns is not None
    assert found.columns.names == ("x",)
    for part in (found.train, found.test):
        rows = [int(name.split()[1]) - 1 for name in part.names]
        np.testing.assert_array_equal(part.weights, frame["w"][rows])


def changed(column: int, value: str) -> list[str]:
    return [",".join([*(cells := line.split(","))[:column], value, *cells[column + 1 :]]) for line in lines()]


BAD = {
    "no target": (lines(), {"target": ""}, "it is not said what to predict"),
    "unknown target": (lines(), {"target": "cost"}, "there is no column 'cost'; columns are rooms, area"),
    "constant target": (changed(4, "7.5"), {}, "price is 7.5 in all rows; a constant"),
    "no row has it": (changed(4, ""), {}, "all rows lack price"),
    "infinite": (changed(1, "inf"), {}, "column area is infinite in row 1"),
    "not closed": (
        ['1,2,"a,2020-01-02,3', *lines()],
        {},
        "begins in line 2 cannot be read: unexpected end of data",
    ),
    "months": (changed(2, "31 Dec 1999"), {}, "column town holds dates such as 31 Dec 1999"),
    "dates": (lines(), {"leave_out": ()}, "column day holds dates such as 2020-01-02; make numbers"),
    "short dates": (changed(2, "31.12.99"), {}, "column town holds dates such as 31.12.99"),
    "decimal commas": (
        changed(1, '"81,5"'),
        {},
        "column area holds numbers with a comma such as 81,5; write",
    ),
    "some decimal commas": (
        [*lines(), '1,"1.081,5",ab,2020-01-02,3'],
        {},
        "column area holds numbers with a comma",
    ),
    "thousands": (changed(4, '"1,234.5"'), {}, "column price holds numbers with a comma such as 1,234.5"),
    "few rows": (lines(6), {}, "6 row.s. have price; needed: 10"),
    "texts as numbers": (lines(), {"target": "town", "kind": "numbers"}, "town holds texts"),
    "a word among numbers": (
        [*lines(), "1,2,ab,2020-01-02,>900"],
        {},
        "price has 60 different numbers.*'>900'",
    ),
    "dates to predict": ([*lines(), "1,2,ab,2020-01-02,2020-01-02"], {}, "dates .* data.predict=classes"),
    "something infinite to predict": (
        [*lines(), "1,2,ab,2020-01-02,inf"],
        {},
        "row 61.* data.predict=classes",
    ),
    "several, one unknown": (lines(), {"target": "price, cost"}, "there is no column 'cost'"),
    "several, one constant": (changed(1, "3"), {"target": "price,area"}, "area is 3 in all rows"),
    "several, one of texts": (
        lines(),
        {"target": "price,town"},
        "town holds texts.*several targets are numbers",
    ),
    "several classes": (lines(), {"target": "price,area", "kind": "classes"}, "several targets are numbers"),
    "one twice": (lines(), {"target": "price,price"}, "two or more, each once, not price, price"),
    "weights of texts": (lines(), {"weight": "town"}, "town is to be a row's weight, a number of 0 or more"),
    "weights below 0": (changed(1, "-1"), {"weight": "area"}, "area is to be a row's weight"),
    "weights of 0": (changed(1, "0"), {"weight": "area"}, "0 row.s. have area above 0; needed: 10"),
    "no such weights": (lines(), {"weight": "pric"}, "Did you mean 'price'"),
    "target left out": (
        lines(),
        {"leave_out": ("day", "price")},
        "price is to be predicted, and cannot be data.leave",
    ),
    "target as weight": (lines(), {"weight": "price"}, "price is to be predicted, and cannot be data.weight"),
    "weights left out": (lines(), {"weight": "day"}, "day is data.weight, and cannot be data.leave_out"),
    "ragged": ([*lines(), "1,2"], {}, "line 62 has 2 values"),
    "ragged after a gap": (["", *lines(), "1,2"], {}, "line 63 has 2 values"),
    "nothing": ([], {}, "no rows below its first line"),
    "unknown column": (lines(), {"leave_out": ("dai",)}, "Did you mean 'day'"),
}


@pytest.mark.parametrize("case", BAD)
def test_input_that_cannot_be_used_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    rows, more, said = BAD[case]
    path = tmp_path / "bad.csv"
    path.write_text("\n".join([HEAD, *rows]))
    settings = TableSettings(**{"target": "price", "leave_out": ("day",), **more})
    with pytest.raises(UraenasError, match=said) as refused:
        load_dataset(path, table=settings)
    assert "\n" not in str(refused.value)


def test_a_note_says_where_a_word_made_texts_of_measurements() -> None:
    random = np.random.default_rng(0)
    measured = random.integers(1, 60, 200).astype(str).astype(object)
    measured[:9] = "<1"
    frame = {"crp": measured, "town": random.choice(["a", "b", "3"], 200), "y": random.normal(size=200)}
    (note, *_) = [one for one in table_dataset("t", frame, TableSettings("y")).notes if "crp" in one]
    assert "different numbers, which are read as texts since it also holds '<1'" in note
    measured[:9] = ""
    clean = table_dataset("t", frame, TableSettings("y"))
    assert not [one for one in clean.notes if "read as texts" in one]
    measured[:9] = "<1"
    meant = {**frame, "crp": as_category(measured)}
    assert not [one for one in table_dataset("t", meant, TableSettings("y")).notes if "read as texts" in one]
    assert len(table_dataset("t", meant, TableSettings("crp")).classes) == len(set(measured))
    assert isinstance(clean.columns.parts[0], Number)


@pytest.mark.parametrize("names", [["a", "a"], [0, "0"]])
def test_two_columns_of_one_name_in_a_pandas_table_are_refused(names: list) -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UraenasError, match=f"two columns are called '{names[0]}'; give each"):
        frame_of(pandas.DataFrame([[1.0, 2.0]], columns=names))


@pytest.mark.parametrize(
    ("days", "named"), [(["NaT", "2020-01-02"], "2020-01-02"), (["NaT"], "datetime64"), ([], "datetime64")]
)
def test_a_date_that_is_there_is_named(days: list[str], named: str) -> None:
    with pytest.raises(UraenasError, match=f"column day holds dates such as {named}"):
        checked({"day": np.array(days, "datetime64[D]")})


@pytest.mark.parametrize("day", ["2020-01-02", "2020-01-02T12:30"])
def test_a_date_is_named_without_the_zeros_of_its_time(day: str) -> None:
    with pytest.raises(UraenasError, match=f"column day holds dates such as {day}; make numbers"):
        checked({"day": np.array([day], "datetime64[ns]")})


def test_no_rows_are_refused() -> None:
    columns = columns_of(checked({"town": np.array(["ab", "cd"], object), "area": np.array([1.0, 2.0])}))
    with pytest.raises(UraenasError, match="no rows"):
        columns.frame({"town": [], "area": []})


def test_large_numbers_are_read_back_and_too_large_ones_refused() -> None:
    nanoseconds = 1.7e18 + np.arange(20) * 1e15
    columns = columns_of({"time": nanoseconds}, pieces=4)
    assert Columns.of(Fields("here", json.loads(json.dumps(columns.as_json())))) == columns
    with pytest.raises(UraenasError, match=r"time holds 1e\+200, and at most 1e\+100"):
        columns_of({"time": np.array([1.0, 1e200])})
    with pytest.raises(UraenasError, match=r"y is as large as 1.9e\+30, and at most 1e\+14"):
        table_dataset(
            "t", {"x": np.arange(20.0), "y": np.arange(20.0) * 1e29}, TableSettings("y", kind="numbers")
        )


def test_numbers_that_differ_by_too_little_to_be_squared_are_refused() -> None:
    with pytest.raises(UraenasError, match=r"values of column x differ by 1e-200.*multiply it"):
        columns_of({"x": np.array([0, 1e-200])})
    frame, settings = {"x": np.arange(20.0)}, TableSettings("y", kind="numbers")
    with pytest.raises(
        UraenasError, match=r"values of y differ by .*e-39, and at least 1e-15 is needed; mult"
    ):
        table_dataset("t", {**frame, "y": np.arange(20) * 1e-40}, settings)
    for constant in (0.0, 3e-200):
        assert columns_of({"x": np.full(3, constant)}).parts[0].mark == "0 1"
    assert table_dataset("t", {**frame, "y": np.arange(20) * 1e-12}, settings).target.name == "numbers"


def test_a_column_of_one_value_means_nothing_later_either() -> None:
    columns = columns_of({"year": np.array([2024.0, np.nan, 2024.0]), "x": np.arange(3.0)})
    old, new = ({"year": np.array([year]), "x": np.ones(1)} for year in (2024.0, 2030.0))
    np.testing.assert_allclose(columns.encode(new)[0], columns.encode(old)[0], atol=1e-30)
    assert columns.parts[0].unseen(np.array([2024.0, 2030.0, np.nan])).tolist() == [False, True, False]


@pytest.mark.parametrize(("later", "told"), [(2024.0, False), (np.nan, False), (2030.0, True)])
def test_a_note_says_where_test_rows_alone_have_other_values(later: float, told: bool) -> None:
    test = np.arange(40) % 4 == 0
    frame = {"x": np.arange(40.0), "year": np.where(test, later, 2024.0), "y": np.arange(40.0) ** 2}
    found = table_dataset("rows", frame, TableSettings("y", kind="numbers"), test)
    note = "year is 2024 in all training rows, not in all test rows, and tells nothing"
    assert (note in found.notes) == told


@pytest.mark.parametrize("empty", [np.full(40, np.nan), np.array([""] * 40)])
def test_a_column_without_any_value_tells_nothing_and_a_note_says_so(empty: np.ndarray) -> None:
    frame = {"x": np.arange(40.0), "e": empty, "y": np.arange(40.0) ** 2}
    found = table_dataset("rows", frame, TableSettings("y", kind="numbers"))
    assert "e has no value in any training row, and tells nothing" in found.notes
    assert found.columns is not None
    later = found.columns.frame({"x": [1.0, 1.0], "e": ["", "5"]})
    images, strange = found.columns.encode(later)
    np.testing.assert_array_equal(images[0], images[1])
    assert strange.tolist() == [False, True]


@pytest.mark.parametrize("form", ["${}", "{} %", "5 {:03d}", "5'{:03d}", "−€{}.5"])
def test_a_note_says_where_signs_make_texts_of_numbers(form: str) -> None:
    texts = np.array([form.format(n) for n in range(40)])
    frame = {"x": np.arange(40.0), "a": texts, "y": np.arange(40.0) ** 2}
    notes = table_dataset("rows", frame, TableSettings("y", kind="numbers")).notes
    assert any(note.startswith("a has 40 different texts such as") for note in notes)
    codes = {**frame, "a": np.array([f"A{n}" for n in range(40)])}
    assert not any("a has" in note for note in table_dataset("rows", codes, TableSettings("y")).notes)
    with pytest.raises(UraenasError, match=r"y has 40 different texts .* data.predict=classes"):
        table_dataset("rows", {"x": frame["x"], "y": texts}, TableSettings("y"))
