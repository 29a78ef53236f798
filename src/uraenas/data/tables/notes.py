"""What a user should know of a table's columns and rows, in words."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.tables.columns import Category, Columns
from uraenas.data.tables.frame import Frame

# Of a number that may stand for a missing value: how far it is from all others, in the distance of their quartiles, in
# which share of rows it is at least, and of how many different others. One of nines need be far from quartiles alone.
FAR, LEAST_SHARE, LEAST_TIMES = 10.0, 0.01, 2
LEAST_OTHERS = 10
NINES = re.compile("-?999*")
FEW_ROWS = 20  # of fewer, numbers may count them by chance
WILD = 1000.0  # a number to predict that lies as far from the quartiles as so many of their distances is wild


def on_strangers(classes: Sequence[str], *learned: np.ndarray) -> Iterator[str]:
    """Said of classes that no network learns."""
    strangers = np.setdiff1d(np.arange(len(classes)), np.concatenate(learned))
    if len(strangers):
        of = f"{len(strangers):,} of {len(classes):,} classes, such as {classes[strangers[0]]}"
        yield f"in test rows alone, and so never predicted: {of}"


def on_nothing_told(columns: Columns, test: Frame) -> Iterator[str]:
    """Said of columns that networks could learn nothing from; of one value only if test rows have others."""
    for part in columns.parts:
        if isinstance(part, Category):
            if part.is_empty:
                yield f"{part.name} has no value in any training row, and tells nothing"
        elif part.is_constant and np.nanmax(np.abs(test[part.name] - part.median), initial=0) > 0:
            yield f"{part.name} is {part.median:g} in all training rows, not in all test rows, and tells nothing"


def on_empty_rows(frame: Frame, numbers_N: np.ndarray) -> Iterator[str]:
    """Said of rows, of these numbers in their file, without a value in any column that is read."""
    empty = np.all([np.isnan(own) if own.dtype.kind == "f" else own == "" for own in frame.values()], axis=0)
    if empty.any():
        such = f"{empty.sum():,} rows, such as row {numbers_N[empty][0] + 1}"
        yield f"{such}, have no value but the target's: they are predicted alike; leave them out if that is not meant"


def on_counts_of_rows(frame: Frame, numbers_N: np.ndarray) -> Iterator[str]:
    """Said of columns, beside others, that count the rows of these numbers in their file."""
    if len(frame) < 2 or len(numbers_N) < FEW_ROWS:
        return
    for name, values in frame.items():
        if values.dtype.kind == "f" and len(np.unique(values - numbers_N)) == 1:
            yield (
                f"{name} counts the rows, and new ones have other numbers; if it says no more than which row it is, "
                "leave it out (of a file by data.leave_out)"
            )


def on_wild_targets(names: Sequence[str], values_NP: np.ndarray, numbers_N: np.ndarray) -> Iterator[str]:
    """Said of numbers to predict, one column of each name, that are far from all others, as errors of writing are."""
    for name, values in zip(names, values_NP.T, strict=True):
        low, high = np.quantile(values, [0.25, 0.75])
        wild = np.maximum(low - values, values - high) > WILD * (high - low)
        if low < high and wild.any():
            first = int(wild.argmax())
            such = f"row {numbers_N[first] + 1}" + (f" and {wild.sum() - 1:,} more" if wild.sum() > 1 else "")
            yield (
                f"{name} is {values[first]:.6g} in {such}, and {low:.6g} to {high:.6g} in the middle half of all rows; "
                "networks learn from such rows as from any other: correct them, or leave them out, if they are wrong"
            )


def on_numbers_for_missing(frame: Frame) -> Iterator[str]:
    """Said of columns in which one number, such as -999, is the least or largest, far from all others, and often so."""
    for name, values in frame.items():
        others = values[~np.isnan(values)] if values.dtype.kind == "f" else values[:0]
        for end in (np.min, np.max):
            while len(others) > LEAST_OTHERS and _is_far(others, value := end(others), len(values)):
                count = int((others == value).sum())
                others = others[others != value]
                yield (
                    f"{name} is {value:.12g} in {count:,} rows and {others.min():.6g} to {others.max():.6g} in others; "
                    "if that means that it is missing, leave these cells empty"
                )


def _is_far(known: np.ndarray, value: float, rows: int) -> bool:
    """Whether this value of a column is often there, and far from its others."""
    others = known[known != value]
    if len(known) - len(others) < max(LEAST_TIMES, LEAST_SHARE * rows) or len(others) < LEAST_OTHERS:
        return False
    low, high = np.quantile(others, [0.25, 0.75])
    reach = FAR * (high - low)
    if NINES.fullmatch(f"{value:.12g}"):
        return bool(0 < reach < max(low - value, value - high))
    apart = max(others.min() - value, value - others.max())
    return bool(0 < reach < apart) and len(np.unique(others)) >= LEAST_OTHERS


def require_values(name: str, columns: Columns) -> None:
    """Refuse a table of which training rows say nothing."""
    if all(isinstance(part, Category) and part.is_empty for part in columns.parts):
        raise UraenasError(
            f"{name}: no training row has a value in any column but the target; there is nothing to learn from"
        )
