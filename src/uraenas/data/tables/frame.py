"""A table in memory: named columns of numbers (NaN where one is missing) or of texts ("" where one is missing)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.tables.dates import date_among

Frame = dict[str, np.ndarray]  # by name: what there is, or once it is checked float64 [N] or texts [N]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})  # texts that say so, in any case
NO_CLASS = frozenset({"", "?"})  # the same of classes that are words: one of them may be None or NA
EXACT = 2**53  # whole numbers up to here are different in float64
COMMAS = re.compile(
    r"[+-]?(\d+|\d{1,3}(\.\d{3})+)?,\d+([eE][+-]?\d+)?|[+-]?\d{1,3}(,\d{3})+(\.\d+)?"
)  # 1,5 and 1.234,5 and 1,234.5


def frame_of(rows: Any, names: Sequence[str] | None = None) -> Frame:
    """A pandas table, a mapping of columns, or an array N×D, its columns called x0, x1 … unless there are names."""
    if hasattr(rows, "columns") and hasattr(rows, "to_dict"):  # pandas, without importing it
        called = [str(name) for name in rows.columns]
        if len(set(called)) < len(called):
            twice = next(name for name in called if called.count(name) > 1)
            raise UraenasError(f"two columns are called {twice!r}; give each a name of its own")
        return {str(name): _of_pandas(rows[name]) for name in rows.columns}
    if isinstance(rows, Mapping):
        return {str(name): np.asarray(values) for name, values in rows.items()}
    array = np.asarray(rows)
    if array.ndim != 2:
        raise UraenasError(f"a table has rows and columns, N×D, not the shape {array.shape}")
    if names is not None and len(names) != array.shape[1]:
        raise UraenasError(f"this table has {array.shape[1]} columns, and {len(names)} are needed")
    given = names or [f"x{number}" for number in range(array.shape[1])]
    return {name: array[:, number] for number, name in enumerate(given)}


def _of_pandas(column: Any) -> np.ndarray:
    kind = str(column.dtype).lower()
    if kind.startswith("period"):
        raise _no_dates(column.name, next(iter(column.dropna()), column.dtype))
    if kind.startswith("categor"):
        return as_category(column.to_numpy(object))
    rounded = column.dtype.kind in "iu" and column.hasnans and has_beyond_exact(column.min(), column.max())
    return column.to_numpy(object if rounded else None)


def has_beyond_exact(*ends: Any) -> bool:
    """Whether whole numbers between these are rounded as float64, which numpy makes of them beside missing ones."""
    return any(text_of(end) and abs(int(end)) > EXACT for end in ends)


def as_category(values: np.ndarray) -> np.ndarray:
    """Values of a category whatever they look like: in numpy's own type of texts, which are never read as numbers."""
    return np.array([written(one) for one in values], np.dtypes.StringDType())


def as_classes(values: np.ndarray) -> np.ndarray:
    """A column of classes as texts, with all their digits and the zeros before them; empty where one is missing.

    Words such as NA are classes among words, and say among numbers that one is missing.
    """
    texts = [written(one) for one in values]
    known = {text for text in texts if text.lower() not in MISSING}
    among_numbers = known and all(number_of(text) is not None for text in known)
    missing = MISSING if among_numbers else NO_CLASS
    return np.array(["" if text.lower() in missing else text for text in texts], dtype=str)


def checked(columns: Mapping[str, np.ndarray]) -> Frame:
    """Columns as numbers where all their values are, else as texts; dates, commas and infinite values are refused."""
    return of_one_length({name: column_of(name, values) for name, values in columns.items()})


def of_one_length(frame: Frame) -> Frame:
    """The columns, if they have as many values each."""
    if len({len(values) for values in frame.values()}) > 1:
        raise UraenasError("columns of a table must have one length")
    return frame


def column_of(name: str, values: np.ndarray) -> np.ndarray:
    """One column."""
    require_column(name, values)
    if values.dtype.kind in "biuf":
        return _finite(name, values.astype(np.float64))
    if values.dtype.kind == "T":
        return np.array([text_of(one) for one in values], dtype=str)
    texts = [text_of(one) for one in values.tolist()]
    numbers = [number_of(text) for text in texts]
    if None not in numbers:
        return _finite(name, np.array(numbers, np.float64))
    if date := date_among(texts):
        raise _no_dates(name, date)
    strange = [text for text, number in zip(texts, numbers, strict=True) if number is None]
    if all(map(COMMAS.fullmatch, strange)):
        raise UraenasError(
            f"column {name} holds numbers with a comma such as {strange[0]}; write 1234.5 for 1234 and a half"
        )
    return np.array(texts, dtype=str)


def require_column(name: str, values: np.ndarray) -> None:
    """Refuse what is no column of numbers or texts."""
    if values.ndim != 1:
        raise UraenasError(f"column {name} has the shape {values.shape}; it must be one value for each row")
    if values.dtype.kind == "M":
        days = (np.datetime_as_string(one, unit="auto") for one in values if one == one)
        raise _no_dates(name, next(days, values.dtype))
    if values.dtype.kind not in "biufOUST":
        raise UraenasError(f"column {name} holds {values.dtype}; allowed: numbers and texts")
    for kind in set(map(type, values)) if values.dtype.kind == "O" else ():
        if issubclass(kind, (list, tuple, dict, set, np.ndarray)):
            raise UraenasError(f"column {name} holds a {kind.__name__}; allowed: numbers and texts")


def as_texts(values: np.ndarray) -> np.ndarray:
    """A column as texts, whole numbers without a point."""
    if values.dtype.kind != "f":
        return values
    return np.array(["" if np.isnan(one) else as_text(one) for one in values], dtype=str)


def as_text(number: float) -> str:
    """A number as text, a whole one without a point."""
    return f"{number:.12g}"


def text_of(value: Any) -> str:
    """A value as text; a missing one is empty, and so is a word that says so."""
    text = _as_it_came(value)
    return "" if text.lower() in MISSING else text


def written(value: Any) -> str:
    """A value as it is written, a whole number without a point; nothing where there is none."""
    if not isinstance(value, float | np.floating):
        return _as_it_came(value)
    return _as_it_came(value + 0.0).removesuffix(".0")  # −0 is 0


def _as_it_came(value: Any) -> str:
    """A value as text, whatever it says; nothing where there is none."""
    unlike = value != value  # so is NaN; of pandas' NA nobody knows
    if value is None or not isinstance(unlike, bool | np.bool_) or unlike:
        return ""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text.strip()


def number_of(text: str) -> float | None:
    """The number that a text is, if it is one."""
    if text == "":
        return float("nan")
    try:
        return None if "_" in text else float(text.replace("−", "-"))
    except ValueError:
        return None


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise UraenasError(
            f"column {name} is infinite in row {row + 1}; put a number there, or nothing if it is missing"
        )
    return values


def _no_dates(name: str, value: Any) -> UraenasError:
    return UraenasError(
        f"column {name} holds dates such as {value}; make numbers of them (a year, a month, days since a day, hours), "
        "or leave it out (of a file by data.leave_out)"
    )
