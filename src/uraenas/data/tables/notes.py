"""What a user should know of a table's columns and rows, in words."""

from collections.abc import Iterator, Sequence

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.tables.columns import Category, Columns
from uraenas.data.tables.frame import Frame


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


def require_values(name: str, columns: Columns) -> None:
    """Refuse a table of which training rows say nothing."""
    if all(isinstance(part, Category) and part.is_empty for part in columns.parts):
        raise UraenasError(
            f"{name}: no training row has a value in any column but the target; there is nothing to learn from"
        )
