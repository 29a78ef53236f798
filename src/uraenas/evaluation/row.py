"""One measured value: the typed row that goes from evaluation through metrics.json to the report."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from uraenas.base.errors import UraenasError

CALIBRATIONS = ("raw", "temperature")


@dataclass(frozen=True, slots=True)
class Row:
    """A metric of one method on one evaluation set, or its difference to a baseline.

    Clean data has shift "none" and severity 0; suite means have shift "mean15" and the like, and severity 0. Values are
    fractions, not percent.
    """

    method: str
    dataset: str
    shift: str
    severity: int
    metric: str
    value: float
    members: int  # the size of the ensemble that the value belongs to
    calibration: str  # raw or temperature
    seed: int
    low: float | None = None  # of the 95 % interval, where there is one
    high: float | None = None
    baseline: str | None = None  # the value is a difference to this method

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    def as_json(self) -> dict[str, Any]:
        """What metrics.json holds: fields that are empty are left out."""
        return {name: value for name in FIELDS if (value := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, stored: Any) -> "Row":
        """The row that `as_json` described."""
        if not isinstance(stored, Mapping) or not NEEDED <= stored.keys() <= set(FIELDS):
            raise UraenasError("a row of metrics lacks fields, or has others")
        for name, value in stored.items():
            if type(value) not in FIELDS[name] or (isinstance(value, float) and math.isinf(value)):
                raise UraenasError(f"a row of metrics has {name} = {str(value)[:40]!r}")
        if ("low" in stored) != ("high" in stored) or stored["calibration"] not in CALIBRATIONS:
            raise UraenasError("a row of metrics has half an interval, or an unknown calibration")
        return cls(**stored)


FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("method", "dataset", "shift"), (str,)),
    "severity": (int,),
    "metric": (str,),
    "value": (float, int),
    "members": (int,),
    "calibration": (str,),
    "seed": (int,),
    "baseline": (str,),
    **dict.fromkeys(("low", "high"), (float, int)),
}
NEEDED = FIELDS.keys() - {"low", "high", "baseline"}


def sizes_of(rows: Iterable[Row]) -> dict[str, int]:
    """The methods, each with its number of members."""
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row.method] = max(sizes.get(row.method, 0), row.members)
    return sizes


def mean_names(rows: Iterable[Row]) -> list[str]:
    """The suite means that the rows hold, the widest first."""
    names = {row.shift for row in rows if row.shift.startswith("mean") and row.shift[4:].isdigit()}
    return sorted(names, key=lambda name: -int(name[4:]))
