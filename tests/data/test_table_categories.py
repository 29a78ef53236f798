"""Categories, truths and classes of tables, in whatever form they come."""

from pathlib import Path

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.data.tables import (
    Category,
    Frame,
    Number,
    TableSettings,
    columns_of,
    frame_of,
    read_frame,
    table_dataset,
)
from uraenas.data.tables.frame import as_text, checked, text_of


def test_a_category_that_was_never_seen_is_taken_for_another_in_each_variant(houses: Path) -> None:
    raw = read_frame(houses)
    columns = columns_of(checked({"town": raw["town"]}))
    new = columns.frame({"town": ["ab", "zz"]})
    variants = [columns.encode(new, variant) for variant in range(3)]
    assert all(strange.tolist() == [False, True] for _, strange in variants)
    assert {tuple(rows[1].ravel()) for rows, _ in variants} == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}
    assert len({tuple(rows[0].ravel()) for rows, _ in variants}) == 1


def test_whole_numbers_of_few_values_are_classes_unless_told() -> None:
    frame = {"x": np.arange(40.0), "y": np.arange(40) % 3}
    found = table_dataset("rows", frame, TableSettings("y"))
    assert found.classes == ("0", "1", "2")
    assert "taken for classes" in found.notes[0]
    assert table_dataset("rows", frame, TableSettings("y", kind="numbers")).classes == ()


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


def test_a_column_of_numbers_may_come_as_a_category() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"x": [1.0, 2.5, 4.0]})
    columns = columns_of(checked(frame_of(rows)))
    found = columns.frame(rows.astype({"x": "category"}))
    np.testing.assert_array_equal(found["x"], [1, 2.5, 4])


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
