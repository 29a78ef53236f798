"""What all cells say together: suite means, bootstrap intervals, and paired differences within a run or between two.

Every run on the same test images draws the same resamples of them, so a replicate of one run pairs with the same
replicate of another.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from uraenas import shifts
from uraenas.base.files import digest_of
from uraenas.evaluation.evaluator import Cell
from uraenas.evaluation.outcome import Metrics
from uraenas.evaluation.row import Row, sizes_of

INTERVAL = (0.025, 0.975)


def summarise(cells: Sequence[Cell]) -> tuple[Metrics, dict[str, Tensor]]:
    """Metrics and bootstrap replicates: the clean set and suite means at all sizes, cells at full size."""
    groups = _groups(cells)
    replicates = {
        f"{shift}/{key}": torch.stack([cell.replicates[key] for cell in group]).double().mean(dim=0)
        for shift, group in groups.items()
        for key in group[0].replicates
    }
    averaged = [row for shift, group in groups.items() for row in _mean_rows(group, shift)]
    measured = Measured(averaged, replicates)
    shifted = [row for cell in cells if cell.shift != "none" for row in cell.rows]
    result = Metrics(
        rows=measured.with_intervals() + [row for row in shifted if measured.is_full(row)],
        differences=measured.differences(),
        temperatures=groups["none"][0].temperatures,
        suite=_suite(cells),
    )
    return result, replicates


@dataclass(frozen=True, eq=False)
class Measured:
    """Values on the clean set and of suite means, with bootstrap replicates by "shift/method/calibration/metric"."""

    rows: Sequence[Row]
    replicates: Mapping[str, Tensor]
    suite: str = ""  # the checksum of the shifted images, if it is known

    @cached_property
    def sizes(self) -> dict[str, int]:
        return sizes_of(self.rows)

    def is_full(self, row: Row) -> bool:
        """Whether it is of a whole ensemble, not of some of its members."""
        return row.members == self.sizes[row.method]

    def with_intervals(self) -> list[Row]:
        """The rows; those that were bootstrapped have an interval."""
        return [
            row._replace(**_interval(self.replicates[_key(row)]))
            if self.is_full(row) and _key(row) in self.replicates
            else row
            for row in self.rows
        ]

    def differences(self) -> list[Row]:
        """Between all methods that were measured alike: method minus baseline."""
        pairs = itertools.product(self._bootstrapped.values(), self.sizes)
        others = [(row, baseline) for row, baseline in pairs if row.method != baseline]
        return [
            self._minus(row, self, one) for row, one in others if _opposite(row, one) in self._bootstrapped
        ]

    def differences_to(self, other: "Measured", baseline: str) -> list[Row]:
        """All methods minus a method of another run, wherever both were measured on the same sets."""
        alike = self._cells == other._cells and same_suite(self.suite, other.suite)
        own = [row for row in self._bootstrapped.values() if alike or row.shift == "none"]
        found = [row for row in own if _opposite(row, baseline) in other._bootstrapped]
        return [self._minus(row, other, baseline) for row in found]

    @property
    def resamples(self) -> int:
        """How many there are."""
        return max((len(replicate) for replicate in self.replicates.values()), default=0)

    @property
    def _cells(self) -> set[tuple[str, int]]:
        """The shifts and severities that suite means are over."""
        return {(row.shift, row.severity) for row in self.rows if row.severity > 0}

    def _minus(self, row: Row, other: "Measured", baseline: str) -> Row:
        opposite = _opposite(row, baseline)
        value = row.value - other._bootstrapped[opposite].value
        spread = _interval(self.replicates[_key(row)].double() - other.replicates[opposite].double())
        return row._replace(baseline=baseline, value=value, **spread)

    @cached_property
    def _bootstrapped(self) -> dict[str, Row]:
        """The rows that have replicates."""
        full = {_key(row): row for row in self.rows if self.is_full(row)}
        return {key: row for key, row in full.items() if key in self.replicates}


def _suite(cells: Sequence[Cell]) -> str:
    """The checksum of all shifted images; none if a cell does not have its own."""
    shifted = [cell for cell in cells if cell.shift != "none"]
    if not shifted or not all(cell.images for cell in shifted):
        return ""
    return digest_of(*sorted(f"{cell.shift}-{cell.severity}-{cell.images}" for cell in shifted))


def same_suite(*checksums: str) -> bool:
    """Whether these runs were measured on the same shifted images."""
    return len({*checksums}) <= 1


def _key(row: Row) -> str:
    """The name of its replicates."""
    return f"{row.shift}/{row.method}/{row.calibration}/{row.metric}"


def _opposite(row: Row, method: str) -> str:
    """The name of another method's in the same place."""
    return _key(row._replace(method=method))


def _interval(replicate: Tensor) -> dict[str, Any]:
    low, high = torch.quantile(replicate, torch.tensor(INTERVAL, dtype=replicate.dtype)).tolist()
    return {"low": low, "high": high}


def _groups(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The clean cell, all shifted cells, and those of the fifteen main corruptions where there are more than these."""
    names = tuple(dict.fromkeys(cell.shift for cell in cells if cell.shift != "none"))
    fifteen = tuple(shifts.SUITES["cifar10-c-15"])
    suites: dict[str, tuple[str, ...]] = {"none": ("none",)}
    if names:
        suites[f"mean{len(names)}"] = names
    if len(names) > len(fifteen) and set(fifteen) <= set(names):
        suites["mean15"] = fifteen
    return {suite: [cell for cell in cells if cell.shift in members] for suite, members in suites.items()}


def _mean_rows(group: Sequence[Cell], shift: str) -> list[Row]:
    """Rows averaged over cells: a metric is computed per (corruption, severity) first, never on the pooled images."""
    totals: dict[tuple, tuple[float, float]] = {}
    for cell in group:
        for row in cell.rows:
            value, spread = totals.get(_identity(row), (0.0, 0.0))
            own = (row.spread or 0.0) / len(group)
            totals[_identity(row)] = value + row.value / len(group), spread + own
    found = []
    for row in group[0].rows:
        value, spread = totals[_identity(row)]
        kept = None if row.spread is None else spread
        found.append(row._replace(shift=shift, severity=0, value=value, spread=kept))
    return found


def _identity(row: Row) -> tuple:
    return (row.method, row.dataset, row.metric, row.members, row.calibration, row.seed)
