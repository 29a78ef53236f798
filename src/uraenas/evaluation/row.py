"""One measured value: the typed row that goes from evaluation through metrics.json to the report."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from operator import attrgetter
from typing import Any, NamedTuple

from uraenas.base.fields import MOST_NUMBER, MOST_TEXT, MOST_WHOLE, Fields

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
        shapes = list(map(tuple, stored))
        alike: dict[tuple[str, ...], list[Any]] = {names: [] for names in dict.fromkeys(shapes)}
        for names, one in zip(shapes, stored, strict=True):
            alike[names].append(one.values())
        columns = {
            names: dict(zip(names, zip(*rows, strict=True), strict=True)) for names, rows in alike.items()
        }
        if not all(map(_are_plain, columns.values())):
            return [cls._checked(Fields(where, one)) for one in stored]
        made = {names: cls._of_columns(of_shape) for names, of_shape in columns.items()}
        return [next(made[names]) for names in shapes]

    @classmethod
    def _of_columns(cls, columns: Mapping[str, Sequence[Any]]) -> "Iterator[Row]":
        """The rows of these columns; fields without one are empty."""
        made = partial(tuple.__new__, cls)  # `_make` without its look at the length
        return map(made, zip(*(columns.get(name, repeat(None)) for name in cls._fields), strict=False))

    @classmethod
    def _checked(cls, stored: Fields) -> "Row":
        """The same, saying what is wrong where something is."""
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
    **dict.fromkeys(("low", "high", "spread"), Fields.number),
}
NEEDED = FIELDS.keys() - {"low", "high", "baseline", "spread"}


def _are_plain(columns: Mapping[str, Sequence[Any]]) -> bool:
    """Whether these columns hold values of rows beyond doubt: each is looked at as a whole."""
    kinds = _kinds(tuple(columns))
    if kinds is None:
        return False
    for (name, values), kind in zip(columns.items(), kinds, strict=True):
        if kind is str:
            fits = all(type(text) is str and len(text) <= MOST_TEXT for text in _each_once(values))
        elif set(map(type, values)) != {kind}:
            fits = False
        else:
            least, most = _LIMITS[name]
            numbers = values if kind is float else set(values)  # few counts and seeds, and many values
            fits = least <= min(numbers) and max(numbers) <= most and not math.isnan(sum(numbers))
        if not fits:
            return False
    return set(columns["calibration"]) <= CALIBRATIONS.keys()


def _each_once(values: Sequence[Any]) -> Iterable[Any]:
    try:
        return set(values)
    except TypeError:  # lists or tables, which no text is
        return values


_LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("value", "low", "high", "spread"), (-MOST_NUMBER, MOST_NUMBER)),
    "severity": (0, 5),
    "members": (1, 1_000_000),
    "seed": (0, MOST_WHOLE),
}


@cache
def _kinds(names: tuple[str, ...]) -> tuple[type, ...] | None:
    """The types of these fields, if they are those of a row."""
    whole = NEEDED <= set(names) <= FIELDS.keys() and ("low" in names) == ("high" in names)
    kinds = {
        **dict.fromkeys(("severity", "members", "seed"), int),
        **dict.fromkeys(("value", "low", "high", "spread"), float),
    }
    return tuple(kinds.get(name, str) for name in names) if whole else None


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
