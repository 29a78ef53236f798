"""Whether new rows of a table look like training rows, column by column, and how far chance alone would move them.

n new rows with mean x̄ and deviation s in units of the m training rows, whose mean is 0 and deviation 1: by chance x̄ is
normal with the variance of both together, (n s² + m) / (n + m), times 1/n + 1/m; and log s, or (s² − 1) / 2 where s
is below 1, with variance (κ − 1) / 4 · (1/n + 1/m), κ the kurtosis. Where a column has rare large values κ is
larger than few rows show, and p too small; fewer than 20 are not asked for s. All new rows have one value x with a
probability of at most (1 + x²)⁻ⁿ: no larger share of the training rows can have it (Cantelli).

Of a category the shares p of new rows are held against those q of training rows: they differ by ½ Σ |p − q|, and
Σ (p − q)² / r / (1/n + 1/m), r the shares of both together, is chi-squared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from uraenas.data.tables.columns import Category, Columns, Number

ROUNDING = 1e-6  # a deviation no larger is that of one value
# Fewer show neither spread nor kurtosis: two rows have a kurtosis of 1, whatever they come from.
LEAST_ROWS = 20


@dataclass(frozen=True)
class Moved:
    """How far a column has moved."""

    name: str
    shift: float  # of a number, in deviations; of a category, the share of rows
    by_chance: float  # its mean size where nothing has moved
    spread: float | None  # of a number, in deviations
    p_value: float  # how rarely chance alone moves one of all columns so far (Holm)


def moved(columns: Columns, rows_ND: np.ndarray, training_rows: int) -> list[Moved]:
    """All columns of which enough is known, the least likely by chance first; rows are as `Columns.encode` has them."""
    found, start = [], 0
    for part in columns.parts:
        values = rows_ND[:, start : start + part.width].astype(np.float64)
        start += part.width
        if isinstance(part, Number):
            if not part.is_constant:  # else encoded rows do not tell its value
                found.append(_number(part, values, training_rows))
        elif part.shares:
            found.append(_category(part, values, training_rows))
    found.sort(key=lambda one: (one.p_value, -abs(one.shift)))
    return _adjusted(found)


def _number(column: Number, values: np.ndarray, training_rows: int) -> Moved:
    units, n = values[:, 0], len(values)
    mean, spread = float(units.mean()), float(units.std())
    per_row = 1 / n + 1 / training_rows
    error = math.sqrt((n * spread**2 + training_rows) / (n + training_rows) * per_row)
    p_values = [_two_sided(mean / error)] if spread > ROUNDING else [(1 + mean**2) ** -n]
    if spread > ROUNDING and n >= LEAST_ROWS:
        kurtosis = float(((units - mean) ** 4).mean()) / spread**4
        around = math.sqrt(max(kurtosis - 1, 1e-3) / 4 * per_row)
        wider = math.log(spread) if spread > 1 else (spread**2 - 1) / 2
        p_values.append(_two_sided(wider / around))
    if column.flagged and column.missing is not None:
        share = float(values[:, 1].mean())
        p_values.append(
            _chi_squared([share, 1 - share], [column.missing, 1 - column.missing], n, training_rows)
        )
    by_chance = math.sqrt(2 / math.pi) * error
    return Moved(column.name, mean, by_chance, spread, min(1.0, len(p_values) * min(p_values)))


def _category(column: Category, values: np.ndarray, training_rows: int) -> Moved:
    new, old = values.mean(axis=0), np.array(column.shares)
    per_row = 1 / len(values) + 1 / training_rows
    by_chance = float(np.sqrt(2 / math.pi * old * (1 - old) * per_row).sum()) / 2
    p_value = _chi_squared(new, old, len(values), training_rows)
    return Moved(column.name, float(np.abs(new - old).sum()) / 2, by_chance, None, p_value)


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


def _chi_squared(
    new: Sequence[float] | np.ndarray, old: Sequence[float] | np.ndarray, n: int, training_rows: int
) -> float:
    """How rarely chance alone makes shares differ so much."""
    p, q = np.asarray(new), np.asarray(old)
    both = (n * p + training_rows * q) / (n + training_rows)
    there = both > 0
    statistic = float(((p - q)[there] ** 2 / both[there]).sum()) / (1 / n + 1 / training_rows)
    freedom = max(int(there.sum()) - 1, 1)
    return float(
        torch.special.gammaincc(torch.tensor(freedom / 2.0).double(), torch.tensor(statistic / 2).double())
    )


def _adjusted(found: list[Moved]) -> list[Moved]:
    """Holm: the k-th smallest of D p-values times D − k + 1, and none below the one before it."""
    least, adjusted = 0.0, []
    for k, one in enumerate(found):
        least = max(least, min(1.0, (len(found) - k) * one.p_value))
        adjusted.append(replace(one, p_value=least))
    return adjusted
