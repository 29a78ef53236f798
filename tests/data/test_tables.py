"""Tables: columns as scikit-learn's transformers have them, files of several kinds, and input that cannot be used."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.data import load_dataset
from uraenas.data.tables import (
    Category,
    Columns,
    Frame,
    Number,
    TableSettings,
    columns_of,
    frame_of,
    read_frame,
    table_dataset,
)
from uraenas.data.tables.frame import as_category, as_text, checked, text_of
from uraenas.data.tables.reading import frame_in_text

HEAD = "rooms,area,town,day,price"


def lines(count: int = 60) -> list[str]:
    random = np.random.default_rng(0)
    towns = random.choice(["ab", "cd", "ef"], count)
    areas = random.uniform(40, 200, count)
    return [
        f"{'' if n % 7 == 0 else n % 5},{areas[n]:.1f},{towns[n]},2020-01-02,{3 * areas[n]:.2f}"
        for n in range(count)
    ]


@pytest.fixture
def houses(tmp_path: Path) -> Path:
    path = tmp_path / "houses.csv"
    path.write_text("\n".join([HEAD, *lines()]))
    return path


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


def test_a_category_that_was_never_seen_is_taken_for_another_in_each_variant(houses: Path) -> None:
    raw = read_frame(houses)
    columns = columns_of(checked({"town": raw["town"]}))
    new = columns.frame({"town": ["ab", "zz"]})
    variants = [columns.encode(new, variant) for variant in range(3)]
    assert all(strange.tolist() == [False, True] for _, strange in variants)
    assert {tuple(rows[1].ravel()) for rows, _ in variants} == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}
    assert len({tuple(rows[0].ravel()) for rows, _ in variants}) == 1


def test_files_pandas_and_arrays_hold_the_same_table(houses: Path, tmp_path: Path) -> None:
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    import pyarrow

    raw = read_frame(houses)
    wanted = checked({name: raw[name] for name in ("area", "town", "price")})
    table = pandas.DataFrame({name: list(values) for name, values in wanted.items()})
    parquet.write_table(
        pyarrow.table({name: list(values) for name, values in wanted.items()}), tmp_path / "h.parquet"
    )
    (tmp_path / "h.tsv").write_text(houses.read_text().replace(",", "\t"))
    for found in (frame_of(table), read_frame(tmp_path / "h.parquet"), read_frame(tmp_path / "h.tsv")):
        for name, values in checked({name: found[name] for name in wanted}).items():
            np.testing.assert_array_equal(values, wanted[name])
    np.savez(tmp_path / "h.npz", x=np.stack([wanted["area"], wanted["area"]], axis=1), y=wanted["price"])
    assert list(read_frame(tmp_path / "h.npz")) == ["x0", "x1", "y"]


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


def test_whole_numbers_of_few_values_are_classes_unless_told() -> None:
    frame = {"x": np.arange(40.0), "y": np.arange(40) % 3}
    found = table_dataset("rows", frame, TableSettings("y"))
    assert found.classes == ("0", "1", "2")
    assert "taken for classes" in found.notes[0]
    assert table_dataset("rows", frame, TableSettings("y", kind="numbers")).classes == ()


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


def test_a_category_is_read_as_in_training_whatever_stands_beside_it() -> None:
    columns = columns_of(checked({"code": np.array(["007", "1.0", "A12", "7"] * 3, object)}))
    (code,) = columns.parts
    together = columns.frame({"code": ["007", "1.0", "A12", "7"]})["code"].tolist()
    alone = [columns.frame({"code": [one]})["code"][0] for one in ("007", "1.0", "A12", "7")]
    assert together == alone == ["007", "1.0", "A12", "7"]
    assert columns.frame({"code": ["7.0", "1", " 007 ", "08", None]})["code"].tolist() == [
        *("7", "1", "007", "08", "")
    ]
    assert columns.frame({"code": np.array([1.0, 8.0, np.nan])})["code"].tolist() == ["1.0", "8", ""]
    assert code.encode(columns.frame({"code": [np.nan, 1.0]})["code"], 0)[1].tolist() == [True, False]
    assert columns.frame({"code": np.array([7.0, np.nan])})["code"].tolist() == ["7", ""]


@pytest.mark.parametrize("words", [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_truths_are_the_same_as_words_as_truths_and_as_numbers(words: tuple[str, str]) -> None:
    truths = [True, False, True, True]
    as_words = [words[not one] for one in truths]
    forms = (np.array(truths), np.array(truths, object), np.array(truths, float), np.array(as_words, object))
    for yes, no in (("True", "False"), ("TRUE", "FALSE"), ("true", "false"), ("1", "0")):
        forms += (np.array([yes if one else no for one in truths], object),)  # as another file may have them
    learned = (columns_of(checked({"ok": np.array([*as_words, None], object)})),)
    learned += (columns_of(checked({"ok": np.array([*truths, False])})),)
    for columns in learned:
        rows = [columns.encode(columns.frame({"ok": form})) for form in forms]
        assert not any(strange.any() for _, strange in rows)
        for images, _ in rows[1:]:
            np.testing.assert_array_equal(images, rows[0][0])
    with pytest.raises(UraenasError, match="holds 'maybe', and had numbers"):
        learned[1].frame({"ok": ["true", "maybe"]})
    with pytest.raises(UraenasError, match="holds 'true', and had numbers"):
        columns_of({"area": np.array([3.0, 4.0])}).frame({"area": ["1", "true"]})


def test_missing_values_of_pandas_own_types_are_missing() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {
            "town": pandas.array(["ab", None, "cd"], dtype="string"),
            "rooms": pandas.array([1, None, 3], dtype="Int64"),
            "new": pandas.array([True, None, False], dtype="boolean"),
        }
    )
    found = checked(frame_of(table))
    assert found["town"].tolist() == ["ab", "", "cd"]
    np.testing.assert_array_equal(found["rooms"], [1, np.nan, 3])
    assert found["new"].tolist() == ["True", "", "False"]


@pytest.mark.parametrize("codes", [[3, 1, 2], [3.0, 1.0, None], ["03", "1", "2"], [True, False, None]])
def test_a_category_of_pandas_is_one_whatever_its_values(codes: list, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    plain = pandas.DataFrame({"x": np.arange(30.0), "code": codes * 10})
    rows = plain.astype({"code": "category"})
    rows.to_parquet(tmp_path / "rows.parquet")
    for frame in (frame_of(rows), read_frame(tmp_path / "rows.parquet")):
        columns = columns_of(checked(frame))
        number, category = columns.parts
        assert (type(number), type(category)) == (Number, Category)
        assert set(category.values) == {text_of(as_text(one) if type(one) is float else one) for one in codes}
        known, strange = columns.encode(columns.frame(rows))
        assert not strange.any()
        assert known[:, 0, 0, 1:].sum() == 30
        np.testing.assert_array_equal(columns.encode(columns.frame(plain))[0], known)


def test_two_columns_of_one_name_in_a_parquet_file_are_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table([[1.0], [2.0]], names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(UraenasError, match=r"twice\.parquet is damaged or of another kind"):
        read_frame(tmp_path / "twice.parquet")


@pytest.mark.parametrize("names", [["a", "a"], [0, "0"]])
def test_two_columns_of_one_name_in_a_pandas_table_are_refused(names: list) -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UraenasError, match=f"two columns are called '{names[0]}'; give each"):
        frame_of(pandas.DataFrame([[1.0, 2.0]], columns=names))


def test_a_column_of_numbers_may_come_as_a_category() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"x": [1.0, 2.5, 4.0]})
    columns = columns_of(checked(frame_of(rows)))
    found = columns.frame(rows.astype({"x": "category"}))
    np.testing.assert_array_equal(found["x"], [1, 2.5, 4])


@pytest.mark.parametrize(
    ("days", "named"), [(["NaT", "2020-01-02"], "2020-01-02"), (["NaT"], "datetime64"), ([], "datetime64")]
)
def test_a_date_that_is_there_is_named(days: list[str], named: str) -> None:
    with pytest.raises(UraenasError, match=f"column day holds dates such as {named}"):
        checked({"day": np.array(days, "datetime64[D]")})


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


def test_text_files_of_many_hands_are_read_alike(tmp_path: Path) -> None:
    cells = [(f"{n / 7:.3f}", ("a, b", "c")[n % 2], str(n)) for n in range(-20, 20)]
    plain = [f'{x},"{town}",{y}' for x, town, y in cells]
    files = {
        "plain": ["x,town,y", *plain],
        "blank lines": [" ", "", "x,town,y", "  ", *(line for one in plain for line in (one, " "))],
        "a space after commas": ["x, town, y", *(f'{x}, "{town}", {y}' for x, town, y in cells)],
        "a space before commas": ["x ,town ,y", *(f'{x} ,"{town}" ,{y} ' for x, town, y in cells)],
        "a space after quotes": ['"x" ,"town" ,"y" ', *(f'"{x}" ,"{town}" ,"{y}" ' for x, town, y in cells)],
        "semicolons": [" ", '"x";"town";"y"', *(f'{x};"{town}";{y}' for x, town, y in cells)],
        "a minus sign": ["x,town,y", *(line.replace("-", "−") for line in plain)],
    }
    rows = []
    for number, text in enumerate(files.values()):
        path = tmp_path / f"{number}.csv"
        path.write_text("\ufeff" + "\r\n".join(text))
        rows.append(load_dataset(path, table=TableSettings("y", kind="numbers")).train.images)
        np.testing.assert_array_equal(rows[0], rows[-1])
    many_commas = tmp_path / "names.csv"
    many_commas.write_text("\n".join(['"x, in m, or so";"y"', *(f"{x};{y}" for x, _, y in cells)]))
    assert load_dataset(many_commas, table=TableSettings("y")).columns.names == ("x, in m, or so",)


def test_a_lone_cell_that_is_empty_in_quotes_is_a_row_and_a_blank_line_is_none() -> None:
    """As pandas writes a table of one column with a missing value."""
    found = frame_in_text(b'x\n1\n""\n  \n\n3\n')
    assert found["x"].tolist() == ["1", "", "3"]


def test_blanks_within_quotes_are_kept() -> None:
    found = frame_in_text(b'town,y\n"the ""old"" , one" ,1\n"the ""old"", one",2\n')
    assert found["town"].tolist() == ['the "old" , one', 'the "old", one']


def test_both_kinds_of_text_files_may_be_packed(houses: Path, tmp_path: Path) -> None:
    text = houses.read_text().replace(",", "\t").encode()
    (tmp_path / "h.tsv.gz").write_bytes(gzip.compress(text))
    found = load_dataset(tmp_path / "h.tsv.gz", table=TableSettings("price", ("day",)))
    assert found.columns is not None
    assert found.columns.names == ("rooms", "area", "town")


@pytest.mark.parametrize("called", ["", "Unnamed: 0"])
def test_an_index_that_pandas_wrote_is_no_column(houses: Path, called: str, tmp_path: Path) -> None:
    first, *rows = houses.read_text().splitlines()
    counted = [f"{called},{first}", *(f"{n},{row}" for n, row in enumerate(rows))]
    (tmp_path / "counted.csv").write_text("\n".join(counted))
    settings = TableSettings("price", ("day",))
    found, plain = (
        load_dataset(path, table=settings) for path in (tmp_path / "counted.csv", tmp_path / "houses.csv")
    )
    assert found.columns == plain.columns
    np.testing.assert_array_equal(found.train.images, plain.train.images)
    said = f"taken for an index, and left out: the column {called or 'without a name'}"
    assert found.notes == (said, *plain.notes)


def test_the_index_of_a_parquet_file_is_no_column(houses: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    shuffled = pandas.read_csv(houses).sample(frac=1, random_state=0)
    shuffled.to_parquet(tmp_path / "shuffled.parquet")
    settings = TableSettings("price", ("day",))
    found = load_dataset(tmp_path / "shuffled.parquet", table=settings)
    assert found.columns.names == ("rooms", "area", "town")
    assert "__index_level_0__" in found.notes[0]
    # One that is to be predicted or to count is meant.
    named = load_dataset(tmp_path / "shuffled.parquet", table=TableSettings("__index_level_0__", ("day",)))
    assert named.columns.names == ("rooms", "area", "town", "price")


def test_an_ending_may_be_in_capitals(houses: Path) -> None:
    settings = TableSettings("price", ("day",))
    expected = load_dataset(houses, table=settings)
    found = load_dataset(houses.rename(houses.with_name("houses.CSV")), table=settings)
    np.testing.assert_array_equal(found.train.images, expected.train.images)


def test_another_encoding_is_named(houses: Path) -> None:
    houses.write_bytes(houses.read_text().replace("ab", "äb").encode("latin-1"))
    with pytest.raises(UraenasError, match="it is not in UTF-8"):
        read_frame(houses)


def test_rows_are_called_by_their_place_in_the_file_where_some_are_left_out() -> None:
    count = 60
    frame = {"x": np.arange(count, dtype=float), "y": np.arange(count) * 0.5, "w": np.ones(count)}
    frame["y"][:7], frame["w"][20:23] = np.nan, 0
    found = table_dataset("t", frame, TableSettings("y", weight="w"))
    for part in (found.train, found.test, found.validation):
        assert part is not None
        assert part.names == tuple(f"row {int(2 * label) + 1}" for label in part.labels)


@pytest.mark.parametrize("names", [("x", "y", "x_test", "y_test"), ("X", "y", "X_test", "y_test")])
def test_rows_for_testing_in_a_file_of_arrays_are_those_tested_on(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    x = np.arange(80.0).reshape(40, 2)
    parts = (x[:30], x[:30, 0] / 3, x[30:], x[30:, 0] / 3)
    np.savez(tmp_path / "t.npz", **dict(zip(names, parts, strict=True)))
    found = load_dataset(tmp_path / "t.npz")
    np.testing.assert_array_equal(found.test.labels, parts[3])
    assert len(found.train) + len(found.validation or ()) == 30
    assert list(read_frame(tmp_path / "t.npz")["x0"]) == list(x[:30, 0])
    np.savez(tmp_path / "t.npz", **dict(zip(names[:3], parts, strict=False)))
    with pytest.raises(UraenasError, match="rows for testing must have as many columns and targets"):
        load_dataset(tmp_path / "t.npz")


def in_all_forms(column: list, folder: Path) -> list[Frame]:
    """A table with this column as y: in CSV, in Parquet, from pandas as objects and as a category."""
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"x": np.arange(40.0), "y": pandas.array((column * 40)[:40])})
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "rows.parquet")
    rows.astype({"y": "category"}).to_parquet(folder / "category.parquet")
    files = [read_frame(folder / name) for name in ("rows.csv", "rows.parquet", "category.parquet")]
    return [frame_of(rows), frame_of(rows.astype({"y": "category"})), *files]


@pytest.mark.parametrize("missing", [[], [None]])
@pytest.mark.parametrize(
    "codes",
    [
        [12345678901234567, 12345678901234568],
        ["123456789012345678901", "123456789012345678902", "5"],
        ["007", "012", "7"],
        ["-1", "+1"],
        ["1e5", "10e4"],
        [0.1234567890123456, 0.1234567890123457, 7.5],
        ["+", "-"],
        ["None", "NA", "nan", "inf", "1e5", "True", "-1", "null"],
        [True, False],
    ],
)
def test_classes_are_called_as_they_are_written(codes: list, missing: list, tmp_path: Path) -> None:
    column = (codes + missing) * 40
    for frame in in_all_forms(column, tmp_path):
        found = table_dataset("rows", frame, TableSettings("y", kind="classes"))
        assert set(found.classes) == set(map(str, codes))
        called = {
            int(row.split()[1]) - 1: found.classes[label]
            for part in found.parts.values()
            for row, label in zip(part.names, part.labels, strict=True)
        }
        assert called == {n: str(code) for n, code in enumerate(column[:40]) if code is not None}


def test_a_missing_value_of_a_category_in_a_parquet_file_is_missing(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    town = pyarrow.array(["ab", None, "cd", None]).dictionary_encode()
    parquet.write_table(pyarrow.table({"town": town}), tmp_path / "rows.parquet")
    assert checked(read_frame(tmp_path / "rows.parquet"))["town"].tolist() == ["ab", "", "cd", ""]


def test_codes_that_are_taken_for_classes_keep_their_digits_and_the_order_of_numbers() -> None:
    frame = {"x": np.arange(40.0), "y": np.array(["010", "9", "12345678901234567", "12345678901234568"] * 10)}
    found = table_dataset("rows", frame, TableSettings("y"))
    assert found.classes == ("9", "010", "12345678901234567", "12345678901234568")
    assert "y has 4 different whole numbers, taken for classes" in found.notes[0]
    last = {**frame, "y": frame["y"][2::4].repeat(4)}
    last["y"][::2] = "12345678901234568"
    assert len(table_dataset("rows", last, TableSettings("y")).classes) == 2


@pytest.mark.parametrize(
    ("labels", "classes"), [([True, False], ("False", "True")), ([-0.0, 0.0, 1.0], ("0", "1"))]
)
def test_truths_are_classes_and_0_has_no_sign(labels: list, classes: tuple[str, ...]) -> None:
    frame = {"x": np.arange(60.0), "y": np.resize(labels, 60)}
    found = table_dataset("rows", frame, TableSettings("y"))
    assert found.classes == classes
    assert any("whole numbers" in note for note in found.notes) == (classes[0] == "0")


def test_notes_say_which_words_are_classes_and_which_say_that_one_is_missing() -> None:
    words = {"x": np.arange(40.0), "y": np.array(["yes", "no", "NA", "?"] * 10)}
    found = table_dataset("rows", words, TableSettings("y"))
    assert set(found.classes) == {"yes", "no", "NA"}
    assert "10 rows without y (?) are left out" in found.notes
    assert "y: taken for classes: NA; leave cells empty where nothing is known" in found.notes
    numbers = {"x": np.arange(40.0), "y": np.array(["1", "1.0", "NA", "?"] * 10)}
    found = table_dataset("rows", numbers, TableSettings("y"))
    assert found.classes == ("1", "1.0")
    assert "20 rows without y (?, NA) are left out" in found.notes
    assert "y: 1 and 1.0 are one number and two classes, as they are written" in found.notes


@pytest.mark.parametrize("count", [1, 3])
def test_a_note_counts_classes_that_no_training_row_has(count: int) -> None:
    names = np.array(["a", "b"] * 20 + [f"rare {n}" for n in range(count)])
    test = np.char.startswith(names, "rare") | (np.arange(len(names)) < 10)
    frame = {"x": np.arange(len(names)) * 1.0, "y": names}
    note = f"in test rows alone, and so never predicted: {count} of {count + 2} classes, such as rare 0"
    assert note in table_dataset("rows", frame, TableSettings("y"), test).notes
    none = table_dataset("rows", frame, TableSettings("y"), np.zeros(len(names), bool))
    assert not any("never predicted" in one for one in none.notes)
