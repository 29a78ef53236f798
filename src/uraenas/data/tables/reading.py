"""Tables from files, and two that scikit-learn ships."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.dataset import Dataset
from uraenas.data.files import Damaged, blaming, open_limited
from uraenas.data.npz import read_npz
from uraenas.data.tables.frame import Frame, frame_of
from uraenas.data.tables.table import TableSettings, table_dataset

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
ARRAYS = (("x", "y"), ("X", "y"), ("x_train", "y_train"))  # of tables in .npz files
MOST_BYTES = 4 << 30
DELIMITERS = ",;\t|"
NONE = TableSettings()
MEND = "It should be a table with a line of column names."


def is_table(path: Path) -> bool:
    """Whether a file is a table: by its ending, or an .npz file whose examples are rows."""
    if path.name.endswith(ENDINGS):
        return True
    return path.suffix == ".npz" and path.is_file() and _rows_in(path) is not None


def load_table(path: Path, settings: TableSettings) -> Dataset:
    """The dataset in a file; in an .npz file the target is y, or each of its columns."""
    frame = read_frame(path)
    if path.suffix == ".npz" and not settings.target:
        settings = replace(settings, target=",".join(name for name in frame if name.startswith("y")))
    return table_dataset(path.name.split(".")[0], frame, settings)


def read_frame(path: Path) -> Frame:
    """The columns in a file."""
    if path.name.endswith(".parquet"):
        return _parquet(path)
    if path.suffix == ".npz":
        arrays = _rows_in(path)
        if arrays is None:
            raise UraenasError(f"{path} holds no table; needed: x (N×D) and y")
        x, y = arrays
        if y is None or y.ndim != 2:
            return frame_of(x) | ({} if y is None else {"y": y})
        return frame_of(x) | frame_of(y, [f"y{number}" for number in range(y.shape[1])])
    return _csv(path)


def _csv(path: Path) -> Frame:
    with blaming(path, MEND), open_limited(path, MOST_BYTES) as file:
        try:
            text = file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Damaged("it is not in UTF-8, in which tables are read") from error
        first = text.partition("\n")[0]
        delimiter = max(DELIMITERS, key=first.count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        lines, rows = [], []
        for row in reader:
            if row:
                lines.append(reader.line_num)
                rows.append(row)
        if len(rows) < 2:
            raise Damaged("it has no rows below its first line")
        names = [name.strip() for name in rows[0]]
        if twice := {name for name in names if names.count(name) > 1}:
            raise Damaged(f"two columns are called {sorted(twice)[0]!r}")
        for number, row in zip(lines, rows, strict=True):
            if len(row) != len(names):
                raise Damaged(f"line {number} has {len(row)} values, and there are {len(names)} columns")
        return {name: np.array(values, dtype=object) for name, values in _columns(names, rows[1:])}


def _columns(names: list[str], rows: list[list[str]]) -> list[tuple[str, tuple[str, ...]]]:
    return list(zip(names, zip(*rows, strict=True), strict=True))


def _parquet(path: Path) -> Frame:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UraenasError(f"{path} needs pyarrow; install it with: pip install uraenas[tables]") from error
    with blaming(path, MEND):
        table = parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _rows_in(path: Path) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Examples and labels of an .npz file, if they are rows."""
    arrays, _ = read_npz(path, {key for keys in ARRAYS for key in keys})
    for examples, labels in ARRAYS:
        if examples in arrays and arrays[examples].ndim == 2:
            return arrays[examples], arrays.get(labels)
    return None


def diabetes(settings: TableSettings = NONE) -> Dataset:
    """442 patients, ten measurements, and how far their diabetes has come a year later.

    Only pieces and rows apart are chosen.
    """
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    frame = frame_of(bunch.data, bunch.feature_names) | {"progression": bunch.target.astype(np.float64)}
    own = TableSettings("progression", kind="numbers", pieces=settings.pieces, apart=settings.apart)
    return table_dataset("diabetes", frame, own)


def breast_cancer(settings: TableSettings = NONE) -> Dataset:
    """569 tumours, thirty measurements of their cells, and whether they are malignant; only pieces are chosen."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    names = [str(name) for name in bunch.feature_names]
    frame = frame_of(bunch.data, names) | {"diagnosis": bunch.target_names[bunch.target].astype(str)}
    own = TableSettings("diagnosis", kind="classes", pieces=settings.pieces)
    return table_dataset("breast-cancer", frame, own)
