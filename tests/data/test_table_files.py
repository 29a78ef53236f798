"""Files of tables, of several kinds and many hands."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.data import load_dataset
from uraenas.data.tables import (
    TableSettings,
    frame_of,
    read_frame,
    table_dataset,
)
from uraenas.data.tables.frame import checked
from uraenas.data.tables.reading import frame_in_text


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


def test_two_columns_of_one_name_in_a_parquet_file_are_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table([[1.0], [2.0]], names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(UraenasError, match=r"twice\.parquet is damaged or of another kind"):
        read_frame(tmp_path / "twice.parquet")


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
