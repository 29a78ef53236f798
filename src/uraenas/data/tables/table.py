"""A table divided, its columns learned from training rows alone: the dataset that a run takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from uraenas.base.errors import UraenasError, unknown
from uraenas.base.words import listed, names_in
from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.splits import stratified_split
from uraenas.data.tables.columns import columns_of
from uraenas.data.tables.frame import MISSING, Frame, checked, of_one_length
from uraenas.data.tables.labels import kind_of, labels_of, on_numbers_among_texts, target_column
from uraenas.data.tables.notes import (
    on_counts_of_rows,
    on_empty_rows,
    on_nothing_told,
    on_numbers_for_missing,
    on_strangers,
    on_wild_targets,
    require_values,
)
from uraenas.data.targets import Target

SPLIT_KEY = 8110  # a constant: every run on a file has the same test rows
TEST_FRACTION = 0.2
LEAST_ROWS = 10
MULTIPLE = 20  # of which the number of rows apart is one less
# More would make intervals of 90 % little steadier: what they hold has a deviation of 2 points.
MOST_APART = 199
KINDS = ("auto", "classes", "numbers")

# name of the table, column, its values [N], notes to add to → which rows can be used [N]
MaskOf = Callable[[str, str, np.ndarray, list[str]], np.ndarray]


@dataclass(frozen=True)
class TableSettings:
    """What a user says of a table."""

    target: str = ""  # the column to predict, or several with commas
    leave_out: tuple[str, ...] = ()  # columns that are not looked at
    kind: str = "auto"  # of the target
    held_out: float = 0.15  # of the training rows
    pieces: int = 0  # of numbers between quantiles, which networks read beside them
    weight: str = ""  # the column that says how much a row counts
    apart: float = 0.0  # of the training rows, for intervals of numbers alone

    def targets(self, frame: Frame) -> tuple[str, ...]:
        """The columns to predict; one whose own name has a comma is meant where there is such a column."""
        return (self.target,) if self.target in frame else names_in(self.target)


def table_dataset(
    name: str,
    frame: Frame,
    settings: TableSettings,
    test: np.ndarray | None = None,
    key: int = SPLIT_KEY,
) -> Dataset:
    """The dataset of a table; `test` says which rows are for testing [N]; else a fifth of them are, drawn by the key.

    Where none is, training rows stand in for them.
    """
    targets = settings.targets(frame)
    _check(name, frame, settings, targets)
    notes: list[str] = []
    categories = {column for column, values in frame.items() if values.dtype.kind == "T"}
    raw = {column: frame[column] for column in targets}
    kind = kind_of(settings.kind, raw)
    inputs = checked({name: frame[name] for name in frame if name not in (*settings.leave_out, *targets)})
    outputs = {column: target_column(column, values, kind) for column, values in raw.items()}
    frame = of_one_length(inputs | outputs)
    needed: list[tuple[str, MaskOf]] = [(column, partial(_known, raw[column])) for column in targets]
    needed += [(settings.weight, _counting)] if settings.weight else []
    used = _used(name, frame, needed, notes)
    frame = _taken(frame, used)
    weights = frame.pop(settings.weight).astype(np.float32) if settings.weight else None
    read = [(column, frame.pop(column), values[used]) for column, values in raw.items()]
    target, classes, labels = labels_of(name, kind, read, notes)
    divided = _divided(target, labels, None if test is None else test[used], settings, key, notes)
    notes += on_strangers(classes, labels[divided["train"]], labels[divided["validation"]])
    columns = columns_of(_taken(frame, divided["train"]), settings.pieces)
    require_values(name, columns)
    told = [on_numbers_among_texts(*pair) for pair in frame.items() if pair[0] not in categories]
    notes += filter(None, told)
    notes += on_empty_rows(frame, used)
    notes += on_counts_of_rows(frame, used)
    notes += on_numbers_for_missing(frame)
    if target.parts:
        notes += on_wild_targets(targets, labels.reshape(len(labels), -1), used)
    notes += on_nothing_told(columns, _taken(frame, divided["test"]))
    parts = {}
    for part, rows in divided.items():
        images, strange = columns.encode(_taken(frame, rows))
        if part == "test" and strange.any():
            unlike = f"{strange.sum():,} of its test rows have a category that no training row has"
            notes.append(f"{unlike}, and are measured with the most frequent one")
        names = tuple(f"row {row + 1}" for row in used[rows])
        own_weights = None if weights is None else weights[rows]
        parts[part] = LabelledImages(images, labels[rows], own_weights, names)
    return Dataset(
        name, **parts, classes=classes, flip=False, padding=0, notes=(*notes,), target=target, columns=columns
    )


def _divided(
    target: Target,
    labels: np.ndarray,
    test_N: np.ndarray | None,
    settings: TableSettings,
    key: int,
    notes: list[str],
) -> dict[str, np.ndarray]:
    """The numbers of the rows in each part, by what a dataset calls it; of classes none are apart."""
    if test_N is None:
        shares = (1 - TEST_FRACTION, TEST_FRACTION)
        rest, test = stratified_split(target.strata(labels), shares, key)
        notes.append(f"{len(test):,} of its {len(labels):,} rows, drawn once and for all, are for testing")
    else:
        rest, test = np.flatnonzero(~test_N), np.flatnonzero(test_N)
    rest, apart = _drawn_apart(rest, rows_apart(len(rest), settings.apart) if target.parts else 0, key + 2)
    shares = (1 - settings.held_out, settings.held_out)
    places = stratified_split(target.strata(labels[rest]), shares, key + 1)
    train, held_out = (rest[place] for place in places)
    found = {"train": train, "test": test if len(test) else train, "validation": held_out}
    return {**found, "apart": apart} if len(apart) else found


def rows_apart(rows: int, share: float) -> int:
    """At most this share of so many, one less than a multiple of 20: then 90 and 95 % of them and one more are whole.

    So intervals of that coverage hold just as many rows as they say, not more, and 19 are the fewest that promise 95 %.
    """
    return min(MOST_APART, max(0, int(share * rows + 1) // MULTIPLE * MULTIPLE - 1))


def _check(name: str, frame: Frame, settings: TableSettings, targets: tuple[str, ...]) -> None:
    """Refuse settings that name columns the table lacks, or one column for two uses."""
    if settings.kind not in KINDS:
        raise unknown("kind of target", settings.kind, KINDS)
    if not targets or not set(targets) <= frame.keys():
        have = f"columns are {listed(list(frame)[:12])}"
        missing = next((column for column in targets if column not in frame), "")
        said = f"there is no column {missing!r}" if targets else "it is not said what to predict"
        raise UraenasError(f"{name}: {said}; {have}. Say which with data.target=COLUMN")
    if len(set(targets)) < len(targets):
        raise UraenasError(f"{name}: several targets are two or more, each once, not {', '.join(targets)}")
    for column in (*settings.leave_out, *filter(None, [settings.weight])):
        if column not in frame:
            raise unknown(f"column of {name}", column, frame)
    for use, used in (("data.leave_out", settings.leave_out), ("data.weight", (settings.weight,))):
        if twice := set(used) & set(targets):
            raise UraenasError(f"{name}: {min(twice)} is to be predicted, and cannot be {use}, too")
    if settings.weight in settings.leave_out:
        raise UraenasError(f"{name}: {settings.weight} is data.weight, and cannot be data.leave_out, too")


def _used(name: str, frame: Frame, needed: Sequence[tuple[str, MaskOf]], notes: list[str]) -> np.ndarray:
    """The numbers of the rows, in the file, that have what is needed of these columns."""
    rows = np.arange(len(frame[needed[0][0]]))
    for column, mask_of in needed:
        rows = rows[mask_of(name, column, frame[column][rows], notes)]
    return rows


def _taken(frame: Frame, rows: np.ndarray) -> Frame:
    """These rows of each column."""
    return {column: values[rows] for column, values in frame.items()}


def _drawn_apart(rows: np.ndarray, count: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """The other rows and so many apart, drawn at random and not by strata: a promise wants rows like new ones."""
    if count == 0:
        return rows, rows[:0]
    drawn, others = stratified_split(np.zeros(len(rows), np.int64), (count, len(rows) - count), key)
    return rows[others], rows[drawn]


def _known(raw: np.ndarray, name: str, column: str, values: np.ndarray, notes: list[str]) -> np.ndarray:
    """Which rows have a value of this target [N], whose column came like this."""
    known = ~np.isnan(values) if values.dtype.kind == "f" else values != ""
    if known.sum() < LEAST_ROWS:
        said = "all rows lack" if not known.any() else f"{known.sum()} row(s) have"
        raise UraenasError(f"{name}: {said} {column}; needed: {LEAST_ROWS} rows that have it")
    if not known.all():
        found = {one.strip() for one in raw.tolist() if isinstance(one, str)}.difference(values)
        words = sorted(text for text in found if text and text.lower() in MISSING)
        said = f" ({', '.join(words)})" if words else ""
        count = int((~known).sum())
        rows, are = ("row", "is") if count == 1 else ("rows", "are")
        notes.append(f"{count:,} {rows} without {column}{said} {are} left out")
    return known


def _counting(name: str, column: str, values: np.ndarray, notes: list[str]) -> np.ndarray:
    """Which rows have a weight above 0 [N]."""
    if values.dtype.kind != "f" or np.isnan(values).any() or (values < 0).any():
        raise UraenasError(f"{name}: {column} is to be a row's weight, a number of 0 or more in every row")
    counts = values > 0
    if counts.sum() < LEAST_ROWS:
        raise UraenasError(f"{name}: {counts.sum()} row(s) have {column} above 0; needed: {LEAST_ROWS}")
    if not counts.all():
        notes.append(f"{(~counts).sum():,} rows whose {column} is 0 are left out")
    return counts
