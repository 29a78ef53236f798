"""What a reader of tables notes, and what it refuses, in words that say how to mend it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.data.catalog import load_dataset
from uraenas.data.dataset import Dataset
from uraenas.data.tables import Frame, TableSettings, table_dataset

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
