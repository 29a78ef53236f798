"""Tables from files, and two that scikit-learn ships."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.dataset import Dataset
from uraenas.data.files import Damaged, blaming, open_limited
from uraenas.data.npz import read_npz
from uraenas.data.tables.frame import Frame, as_category, frame_of, has_beyond_exact
from uraenas.data.tables.table import TableSettings, table_dataset

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
# Of tables in .npz files: rows and targets, and those for testing where there are some.
ARRAYS = (
    ("x", "y", "x_test", "y_test"),
    ("X", "y", "X_test", "y_test"),
    ("x_train", "y_train", "x_test", "y_test"),
)
MOST_BYTES = 4 << 30
DELIMITERS = ",;\t|"
QUOTED = re.compile(r'"[^"]*"')
INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # what pandas calls a table's index, or nothing
NONE = TableSettings()
MEND = "It should be a table with a line of column names."


def is_table(path: Path) -> bool:
    """Whether a file is a table: by its ending, or an .npz file whose examples are rows."""
    if path.name.lower().endswith(ENDINGS):
        return True
    return path.suffix == ".npz" and path.is_file() and _arrays_in(path) is not None


def load_table(path: Path, settings: TableSettings) -> Dataset:
    """The dataset in a file; in an .npz file the target is y, or each of its columns, and rows for testing may be."""
    name, frame = path.name.split(".")[0], read_frame(path)
    if path.suffix != ".npz":
        return _without_index(name, frame, settings)
    if not settings.target:
        settings = replace(settings, target=",".join(name for name in frame if name.startswith("y")))
    found = _with_test_rows(path, name, frame, settings)
    return replace(found, notes=(*_on_ignored(path), *found.notes))


def _with_test_rows(path: Path, name: str, frame: Frame, settings: TableSettings) -> Dataset:
    """The dataset of arrays, whose rows for testing are those of the file where it has some."""
    tested = _arrays_in(path, 2)
    if tested is None:
        return table_dataset(name, frame, settings)
    more = _frame_in(*tested)
    if more.keys() != frame.keys():
        raise UraenasError(f"{path}: rows for testing must have as many columns and targets as the others")
    joined = {column: np.concatenate([frame[column], more[column]]) for column in frame}
    counts = [len(next(iter(part.values()))) for part in (frame, more)]
    return table_dataset(name, joined, settings, np.repeat([False, True], counts))


def _on_ignored(path: Path) -> Iterator[str]:
    """Said of arrays that are no part of the table; one of them may be meant to say which rows are for testing."""
    _, names = read_npz(path, set())
    used = next(keys for keys in ARRAYS if keys[0] in names)
    if others := [name for name in names if name not in used]:
        yield f"ignored in {path.name}: {', '.join(others[:8])}; rows for testing are {used[2]} and {used[3]}"


def _without_index(name: str, frame: Frame, settings: TableSettings) -> Dataset:
    """The dataset of a table without columns that only count rows, which a file's order may tie to the target."""
    meant = {*settings.targets(frame), settings.weight, *settings.leave_out}
    counts = [column for column in frame if INDEX.fullmatch(column) and column not in meant - {""}]
    if not counts:
        return table_dataset(name, frame, settings)
    others = {column: values for column, values in frame.items() if column not in counts}
    found = table_dataset(name, others, settings)
    named = ", ".join(column or "without a name" for column in counts)
    return replace(found, notes=(f"taken for an index, and left out: the column {named}", *found.notes))


def read_frame(path: Path) -> Frame:
    """The columns in a file."""
    if path.name.lower().endswith(".parquet"):
        return _parquet(path)
    if path.suffix == ".npz":
        arrays = _arrays_in(path)
        if arrays is None:
            raise UraenasError(f"{path} holds no table; needed: x (N×D) and y")
        return _frame_in(*arrays)
    return _csv(path)


def _frame_in(x: np.ndarray, y: np.ndarray | None) -> Frame:
    if y is None or y.ndim != 2:
        return frame_of(x) | ({} if y is None else {"y": y})
    return frame_of(x) | frame_of(y, [f"y{number}" for number in range(y.shape[1])])


def _csv(path: Path) -> Frame:
    with blaming(path, MEND), open_limited(path, MOST_BYTES) as file:
        return frame_in_text(file.read())


def frame_in_text(content: bytes) -> Frame:
    """The columns in a text whose first line names them, whatever divides its cells."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Damaged("it is not in UTF-8; save it so (in spreadsheets: CSV UTF-8)") from error
    first = next(filter(_is_written, io.StringIO(text, newline="")), "")
    delimiter = max(DELIMITERS, key=QUOTED.sub("", first).count)
    # Strict: else a quote that is not closed would join rows without a word. A blank after one that is may stand.
    # Nothing is tried twice: to remember where would take a hundred times the memory of a long text.
    plain = re.sub(rf'("[^"]*+(?:""[^"]*+)*+")(?: +(?=[{delimiter}\r\n]|\Z))?', r"\1", text)
    written = io.StringIO(plain, newline="").readlines()
    reader = csv.reader(written, delimiter=delimiter, skipinitialspace=True, strict=True)
    lines, rows = [], []
    try:
        for row in reader:
            if _is_written(written[reader.line_num - 1]):
                lines.append(reader.line_num)
                rows.append(row)
    except csv.Error as error:
        begun = lines[-1] + 1 if lines else 1
        raise Damaged(f"the row that begins in line {begun} cannot be read: {error}") from error
    if len(rows) < 2:
        raise Damaged("it has no rows below its first line")
    names = [name.strip() for name in rows[0]]
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise Damaged(f"two columns are called {twice[0]!r}")
    for number, row in zip(lines, rows, strict=True):
        if len(row) != len(names):
            raise Damaged(f"line {number} has {len(row)} values, and there are {len(names)} columns")
    columns = zip(*rows[1:], strict=True)
    return {name: np.array(own, dtype=object) for name, own in zip(names, columns, strict=True)}


def _is_written(line: str) -> bool:
    """Whether there is more to it than blanks; a cell that is empty in quotes is a missing one."""
    return line.strip(" \r\n") != ""


def _parquet(path: Path) -> Frame:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UraenasError(f"{path} needs pyarrow; install it with: pip install uraenas[tables]") from error
    with blaming(path, MEND):
        table = parquet.read_table(path)
        arrays = {name: _values(table[name]) for name in table.column_names}
        told = (table.schema.pandas_metadata or {}).get("columns", ())
        categories = {one["name"] for one in told if one.get("pandas_type") == "categorical"}
        return {name: as_category(own) if name in categories else own for name, own in arrays.items()}


def _values(column: Any) -> np.ndarray:
    """What a column holds; missing values of a dictionary would be others to numpy."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_integer(column.type) and column.null_count:
        ends = compute.min_max(column).as_py()
        if has_beyond_exact(*ends.values()):
            return np.array(column.to_pylist(), object)
    return column.to_numpy()


def _arrays_in(path: Path, first: int = 0) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Examples and labels of an .npz file, if they are rows: those of training, or with 2 of testing."""
    arrays, _ = read_npz(path, {key for keys in ARRAYS for key in keys})
    for keys in ARRAYS:
        if keys[0] in arrays and arrays[keys[0]].ndim == 2:
            examples, labels = keys[first], keys[first + 1]
            return (arrays[examples], arrays.get(labels)) if examples in arrays else None
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
