"""Columns as the numbers that networks read, learned from training rows alone, and kept as JSON.

A number is put into standard units; where one is missing it is the median, and a column of its own says so if that
happened in training. It may also be given in pieces between quantiles, from −1 below a piece to 1 above it, so that a
network has a slope of its own in each (Gorishniy and others, 2022). A category is a column for each value that it had
in training, 1 where it has that value: a first layer's weights for these columns are its embedding. scikit-learn's
transformers learn all this but the pieces; what they learned is kept, and `encode` computes what they would.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields, is_number, is_table
from uraenas.data.tables.frame import (
    Frame,
    as_text,
    as_texts,
    column_of,
    frame_of,
    number_of,
    of_one_length,
    require_column,
    text_of,
)
from uraenas.data.tables.variants import taken_for

MOST_CATEGORIES = 1000
MOST_VALUE = 1e100  # of a number: its square is finite
LEAST_SPREAD = 1e-100  # likewise, above 0
# The deviation of a column with one value in training: networks have not learned what another means, and read 0.
CONSTANT = MOST_VALUE
TRUTHS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Number:
    """A numerical column."""

    name: str
    median: float
    mean: float
    deviation: float
    flagged: bool  # whether a column of its own says that it is missing
    missing: float | None = None  # the share of training rows, where it was kept
    ends: tuple[float, ...] = ()  # of its pieces, rising; none where it is not given in pieces

    @property
    def width(self) -> int:
        return 1 + self.flagged + max(0, len(self.ends) - 1)

    @property
    def most_values(self) -> int:
        """That an unseen value may be taken for."""
        return 1

    @property
    def mark(self) -> str:
        """Its unit, by which it is known again; in few digits, since sums differ in the last ones by machine."""
        unit = 1.0 if self.is_constant else self.deviation
        centre = round(self.mean / unit, 6) + 0.0  # never −0
        return f"{centre:.6g} {unit:.6g}"

    @property
    def is_constant(self) -> bool:
        """Whether it had one value in training."""
        return self.deviation == CONSTANT

    def column(self, values: np.ndarray) -> np.ndarray:
        """New values as numbers; true and false are 1 and 0, as they may have been in training."""
        found = column_of(self.name, values)
        if found.dtype.kind == "f":
            return found
        may_be_truth = self.median in (0, 0.5, 1) and 0 <= self.mean <= 1
        truths = {"": np.nan, **TRUTHS} if may_be_truth else {"": np.nan}
        numbers = [truths.get(text.lower(), number_of(text)) for text in found.tolist()]
        if None in numbers:
            strange = found[numbers.index(None)]
            raise UraenasError(f"column {self.name} holds {str(strange)!r}, and had numbers in training")
        return np.array(numbers, np.float64)

    def unseen(self, values: np.ndarray) -> np.ndarray:
        """Whether each is missing, which none was in training, or differs, which none did [N].

        Networks are told the median, and nothing else.
        """
        missing = np.isnan(values)
        return np.where(missing, not self.flagged, self.is_constant & (values != self.median))

    def encode(self, values: np.ndarray, value: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers [N, width], and whether each row's value may be any that was seen [N]."""
        missing = np.isnan(values)
        known = np.where(missing, self.median, values)[:, None]
        parts = [(known - self.mean) / self.deviation]
        if self.flagged:
            parts.append(missing[:, None].astype(np.float64))
        if self.ends:
            parts.append(2 * np.clip((known - self.ends[:-1]) / np.diff(self.ends), 0, 1) - 1)
        return np.concatenate(parts, axis=1), np.zeros(len(values), bool)


@dataclass(frozen=True)
class Category:
    """A categorical column."""

    name: str
    values: tuple[str, ...]  # the most frequent first; "" where it was missing
    shares: tuple[float, ...] = ()  # of training rows, where they were kept

    @property
    def width(self) -> int:
        return len(self.values)

    @property
    def most_values(self) -> int:
        """That an unseen value may be taken for."""
        return len(self.values)

    @property
    def is_empty(self) -> bool:
        """Whether it had no value in training."""
        return self.values == ("",)

    @property
    def mark(self) -> str:
        """Its values, by which it is known again."""
        return "\n".join(self.values)

    def column(self, values: np.ndarray) -> np.ndarray:
        """New values as texts, whatever the values beside them: 007 is no number here, even if all others are."""
        require_column(self.name, values)
        return np.array([self._as_in_training(one) for one in values.tolist()], dtype=str)

    def _as_in_training(self, value: Any) -> str:
        """A value as it was written there, where it was; pandas may have made a number or a truth of it."""
        text = text_of(value)
        if text in self._seen:
            return text
        is_truth = text.lower() in TRUTHS
        number = TRUTHS.get(text.lower(), number_of(text))
        if number is None or not text:
            return text
        plain = text if is_truth else as_text(number)
        if plain in self._seen:
            return plain
        same = self._by_number.get(number, plain)
        is_same = is_truth or isinstance(value, Real) or same.lower() in TRUTHS
        return same if is_same else text

    @cached_property
    def _seen(self) -> frozenset[str]:
        return frozenset(self.values)

    @cached_property
    def _by_number(self) -> dict[float, str]:
        """Values that are numbers or truths, by number; of several the most frequent."""
        found = {}
        for value in reversed(self.values):
            number = TRUTHS.get(value.lower(), number_of(value)) if value else None
            if number is not None:
                found[number] = value
        return found

    def unseen(self, values: np.ndarray) -> np.ndarray:
        """Whether each was never seen in training [N]."""
        return self.encode(values, 0)[1]

    def encode(self, values: np.ndarray, value: int) -> tuple[np.ndarray, np.ndarray]:
        """The same; a value that was never seen is taken for this one of those that were."""
        found = as_texts(values)[:, None] == np.array(self.values, dtype=str)
        strange = ~found.any(axis=1)
        found[strange, value] = True
        return found.astype(np.float64), strange


@dataclass(frozen=True)
class Columns:
    """All columns that networks read."""

    parts: tuple[Number | Category, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @cached_property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    @property
    def variants(self) -> int:
        """How many a row has where values were never seen in training; all that it may be, unless they are too many."""
        return len(self.taken_for)

    @cached_property
    def taken_for(self) -> list[list[int]]:
        """By variant and column, the value that one which was never seen is taken for."""
        return taken_for([part.most_values for part in self.parts])

    @property
    def marks(self) -> list[tuple[str, str]]:
        """Names, units and values, which encoded rows do not tell."""
        return [(part.name, part.mark) for part in self.parts]

    def frame(self, rows: Any) -> Frame:
        """Rows as they came, as columns; those that are needed must be there, others are not looked at."""
        found = frame_of(rows, None if hasattr(rows, "columns") else self.names)
        if missing := [name for name in self.names if name not in found]:
            raise UraenasError(
                f"column {missing[0]!r} is missing; these rows have {', '.join(list(found)[:10]) or 'none'}"
            )
        frame = of_one_length({part.name: part.column(found[part.name]) for part in self.parts})
        if not all(map(len, frame.values())):
            raise UraenasError("there are no rows to predict")
        return frame

    def encode(self, frame: Frame, variant: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Images of one pixel [N, 1, 1, D] in float32, and whether a row has a category that was never seen [N]."""
        chosen = zip(self.parts, self.taken_for[variant], strict=True)
        pairs = [part.encode(frame[part.name], value) for part, value in chosen]
        rows = np.concatenate([values for values, _ in pairs], axis=1)
        with np.errstate(over="ignore"):  # what is then infinite has no prediction, which is told
            images = rows.astype(np.float32)[:, None, None]
        return images, np.any([strange for _, strange in pairs], axis=0)

    def as_json(self) -> dict[str, Any]:
        return {"columns": [{"kind": type(part).__name__.lower(), **asdict(part)} for part in self.parts]}

    @classmethod
    def of(cls, stored: Fields) -> "Columns | None":
        """What `as_json` wrote among other fields."""
        if not stored.has("columns"):
            return None
        parts: list[Number | Category] = []
        for one in stored.list_of("columns", is_table, "columns"):
            facts = Fields(stored.where, one)
            name = facts.text("name")
            if facts.text("kind") == "category":
                values = facts.texts("values")
                shares = facts.numbers("shares", len(values)) if facts.has("shares") else ()
                parts.append(Category(name, values, shares))
            else:
                median, mean, deviation = (
                    facts.number(key, -MOST_VALUE, MOST_VALUE) for key in ("median", "mean", "deviation")
                )
                if deviation <= 0:
                    raise facts.error(f"the deviation of {name} is not above 0")
                missing = facts.number("missing", 0, 1) if facts.has("missing") else None
                ends = tuple(facts.list_of("ends", _is_value, "numbers")) if facts.has("ends") else ()
                if any(low >= high for low, high in pairwise(ends)):
                    raise facts.error(f"the pieces of {name} do not rise")
                parts.append(Number(name, median, mean, deviation, facts.flag("flagged"), missing, ends))
        return cls(tuple(parts))


def _is_value(one: Any) -> bool:
    return is_number(one, -MOST_VALUE, MOST_VALUE)


def columns_of(frame: Frame, pieces: int = 0) -> Columns:
    """What training rows teach; columns of texts are categories, and numbers have so many pieces."""
    if not frame:
        raise UraenasError("a table needs at least one column besides the target")
    parts: list[Number | Category] = []
    for name, values in frame.items():
        is_number = values.dtype.kind == "f"
        parts.append(_number(name, values, pieces) if is_number else _category(name, values))
    return Columns(tuple(parts))


def _number(name: str, values: np.ndarray, pieces: int) -> Number | Category:
    from sklearn.impute import SimpleImputer  # a second to import, and needed by training alone
    from sklearn.preprocessing import StandardScaler

    if np.isnan(values).all():
        return _category(name, as_texts(values))
    if (largest := float(np.nanmax(np.abs(values)))) > MOST_VALUE:
        raise UraenasError(
            f"column {name} holds {largest:g}, and at most {MOST_VALUE:g} is allowed; divide it"
        )
    if 0 < (spread := float(np.nanmax(values) - np.nanmin(values))) < LEAST_SPREAD:
        raise UraenasError(
            f"values of column {name} differ by {spread:g}, and at least {LEAST_SPREAD:g} is needed; multiply it"
        )
    imputer, scaler = SimpleImputer(strategy="median"), StandardScaler()
    scaler.fit(imputer.fit_transform(values[:, None]))
    median, mean, deviation = (float(one[0]) for one in (imputer.statistics_, scaler.mean_, scaler.scale_))
    deviation = deviation if spread > 0 else CONSTANT
    missing = float(np.isnan(values).mean())
    ends = np.unique(np.nanquantile(values, np.linspace(0, 1, pieces + 1))) if pieces else np.empty(0)
    # A column of two values has one piece, which would be the column again.
    pieces_of = tuple(ends.tolist()) if len(ends) > 2 else ()
    return Number(name, median, mean, deviation, missing > 0, missing, pieces_of)


def _category(name: str, values: np.ndarray) -> Category:
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder().fit(values[:, None])
    found = encoder.categories_[0]
    if len(found) > MOST_CATEGORIES or (len(found) > 50 and len(found) > 0.9 * len(values)):
        raise UraenasError(
            f"column {name} has {len(found):,} different texts in {len(values):,} training rows, like a name or a "
            "number of its own; leave it out (of a file by data.leave_out)"
        )
    counts = np.array([(values == one).sum() for one in found])
    order = np.argsort(-counts, kind="stable")
    shares = tuple((counts[order] / len(values)).tolist())
    return Category(name, tuple(str(found[k]) for k in order), shares)
