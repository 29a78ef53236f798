"""One measured value: the typed row that goes from evaluation through metrics.json to the report."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from uraenas.base.fields import MOST_TEXT, MOST_WHOLE, Fields

MOST_VALUE = 1e40  # variances of labels of 1e14 are less by far, and squares of such values are finite
TEST_TIME = ("views", "statistics")  # other ways to predict with the same members
# How a prediction was made, in words; the other ways are not scaled.
CALIBRATIONS = {
    "raw": "as predicted",
    "temperature": "temperature-scaled on held-out data",
    "views": "as the mean over mirrored and moved views",
    "statistics": "with batch norms that know all test images at once (transductive)",
}


class Row(NamedTuple):  # a run has tens of thousands, and no other kind of class is made as fast
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
    calibration: str  # one of CALIBRATIONS
    seed: int
    low: float | None = None  # of the 95 % interval, where there is one
    high: float | None = None
    baseline: str | None = None  # the value is a difference to this method
    spread: float | None = None  # of a mean over subsets of the members: their standard deviation

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    def as_json(self) -> dict[str, Any]:
        """What metrics.json holds: fields that are empty are left out."""
        return {name: value for name in FIELDS if (value := getattr(self, name)) is not None}

    @classmethod
    def all_of(cls, where: object, stored: Sequence[dict[str, Any]]) -> "list[Row]":
        """The rows that `as_json` described, in this file."""
        columns = {name: [one.get(name) for one in stored] for name in cls._fields}
        if not _are_plain(columns, sum(map(len, stored))):
            return [cls._checked(Fields(where, one)) for one in stored]
        made = partial(tuple.__new__, cls)  # `_make` without its look at the length
        return list(map(made, zip(*columns.values(), strict=True)))

    @classmethod
    def _checked(cls, stored: Fields) -> "Row":
        """The same, saying what is wrong where something is."""
        stored.only(*FIELDS)
        row = cls(**{name: _read(stored, name) for name in FIELDS if stored.has(name) or name in NEEDED})
        if (row.low is None) != (row.high is None) or row.calibration not in CALIBRATIONS:
            raise stored.error("a row has half an interval, or an unknown calibration")
        return row


NEEDED = ("method", "dataset", "shift", "severity", "metric", "value", "members", "calibration", "seed")
FIELDS = (*NEEDED, "baseline", "low", "high", "spread")  # in the order that metrics.json has them
# Of numbers the type, and from where to where they go; the others are texts.
LIMITS: dict[str, tuple[type, float, float]] = {
    **dict.fromkeys(("value", "low", "high", "spread"), (float, -MOST_VALUE, MOST_VALUE)),
    "severity": (int, 0, 5),
    "members": (int, 1, 1_000_000),
    "seed": (int, 0, MOST_WHOLE),
}


def _read(stored: Fields, name: str) -> Any:
    if name not in LIMITS:
        return stored.text(name)
    kind, least, most = LIMITS[name]
    return stored.whole(name, int(least), int(most)) if kind is int else stored.number(name, least, most)


def _are_plain(columns: Mapping[str, Sequence[Any]], fields: int) -> bool:
    """Whether these columns hold rows of so many fields beyond doubt: each is looked at as a whole."""
    for name, column in columns.items():
        values = column if name in NEEDED else [value for value in column if value is not None]
        fields -= len(values)
        if name not in LIMITS:
            fits = all(type(text) is str and len(text) <= MOST_TEXT for text in _each_once(values))
        else:
            kind, least, most = LIMITS[name]
            fits = set(map(type, values)) <= {kind}
            if fits and values:
                numbers = values if kind is float else set(values)  # few counts and seeds, and many values
                fits = least <= min(numbers) and max(numbers) <= most and not math.isnan(sum(numbers))
        if not fits:
            return False
    low, high = ([end is None for end in columns[name]] for name in ("low", "high"))
    return fields == 0 and low == high and set(columns["calibration"]) <= CALIBRATIONS.keys()


def _each_once(values: Sequence[Any]) -> Iterable[Any]:
    try:
        return set(values)
    except TypeError:  # lists or tables, which no text is
        return values


def sizes_of(rows: Iterable[Row]) -> dict[str, int]:
    """The methods, each with its number of members."""
    sizes: dict[str, int] = {}
    for method, members in dict.fromkeys(map(attrgetter("method", "members"), rows)):
        sizes[method] = max(members, sizes.get(method, 0))
    return sizes


def rows_of_target(rows: Iterable[Row], column: str) -> list[Row]:
    """Those of one of several targets, called as if there were no other."""
    prefix = f"{column}."
    own = [row for row in rows if row.metric.startswith(prefix)]
    return [row._replace(metric=row.metric.removeprefix(prefix)) for row in own]


def mean_names(rows: Iterable[Row]) -> list[str]:
    """The suite means that the rows hold, the widest first."""
    shifts = set(map(attrgetter("shift"), rows))
    names = {shift for shift in shifts if shift.startswith("mean") and shift[4:].isdigit()}
    return sorted(names, key=lambda name: -int(name[4:]))
