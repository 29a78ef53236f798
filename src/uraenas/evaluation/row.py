"""One measured value: the typed row that goes from evaluation through metrics.json to the report."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from uraenas.base.fields import Fields

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
    def of(cls, stored: Fields) -> "Row":
        """The row that `as_json` described."""
        stored.only(*FIELDS)
        row = cls(
            **{
                name: read(stored, name)
                for name, read in FIELDS.items()
                if stored.has(name) or name in NEEDED
            }
        )
        if (row.low is None) != (row.high is None) or row.calibration not in CALIBRATIONS:
            raise stored.error("a row has half an interval, or an unknown calibration")
        return row


FIELDS: dict[str, Callable[[Fields, str], Any]] = {
    **dict.fromkeys(("method", "dataset", "shift"), Fields.text),
    "severity": lambda stored, name: stored.whole(name, 0, 5),
    "metric": Fields.text,
    "value": Fields.number,
    "members": lambda stored, name: stored.whole(name, 1, 1_000_000),
    "calibration": Fields.text,
    "seed": Fields.whole,
    "baseline": Fields.text,
    **dict.fromkeys(("low", "high"), Fields.number),
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
