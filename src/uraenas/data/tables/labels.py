"""The columns to predict: numbers, or classes that are called as they are written."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.tables.frame import MISSING, as_classes, as_texts, column_of, number_of, require_column
from uraenas.data.targets import Classes, Target, numbers_of

FEW_VALUES = 20  # a target of so many whole numbers or fewer is taken for classes
# $1,200 and 5 % and 1 200 and 1'200
WITH_SIGN = re.compile(r"[-+−]?\s?[$€£¥]?\s?[-+−]?\d[\d.,\s'’_]*[%€$£¥]?")


def kind_of(asked: str, columns: Mapping[str, np.ndarray]) -> str:
    """Whether these targets are classes or numbers, where that does not depend on their values."""
    if asked != "auto":
        return asked
    if len(columns) > 1:
        return "numbers"
    return "classes" if all(values.dtype.kind == "T" for values in columns.values()) else "auto"


def target_column(name: str, values: np.ndarray, kind: str) -> np.ndarray:
    """A column to predict as numbers, or as classes where they may be such."""
    require_column(name, values)
    if kind == "numbers":
        return column_of(name, values)
    if kind == "classes" or values.dtype.kind == "b":
        return as_classes(values)
    try:
        found = column_of(name, values)
    except UraenasError as error:
        raise UraenasError(f"{error}; to predict it as classes: data.predict=classes") from error
    return found if found.dtype.kind == "f" else as_classes(values)


def labels_of(
    name: str, kind: str, targets: list[tuple[str, np.ndarray, np.ndarray]], notes: list[str]
) -> tuple[Target, tuple[str, ...], np.ndarray]:
    """The target, the names of its classes if it has some, and the labels: [N], or [N, T] of several targets.

    Each is a column's name, its values, and the same as they came.
    """
    if kind == "classes" and len(targets) > 1:
        raise UraenasError(f"{name}: several targets are numbers; data.predict=classes predicts one")
    for column, values, raw in targets:
        if len(np.unique(values)) < 2 and len(np.unique(as_classes(raw))) < 2:
            raise UraenasError(
                f"{name}: {column} is {as_texts(values)[0]} in all rows; a constant leaves nothing to predict"
            )
        if values.dtype.kind != "f" and (kind == "numbers" or len(targets) > 1):
            mend = "several targets are numbers" if len(targets) > 1 else "data.predict=classes"
            raise UraenasError(f"{name}: {column} holds texts, which are no numbers; {mend}")
    if len(targets) > 1:
        columns, numbers, _ = zip(*targets, strict=True)
        return numbers_of(columns), (), np.stack(numbers, axis=1).astype(np.float64)
    return _one_target(*targets[0], kind, notes)


def _one_target(
    column: str, values: np.ndarray, raw: np.ndarray, kind: str, notes: list[str]
) -> tuple[Target, tuple[str, ...], np.ndarray]:
    is_number = values.dtype.kind == "f"
    few = is_number and bool((values == np.round(values)).all()) and len(np.unique(values)) <= FEW_VALUES
    if kind == "numbers" or (kind == "auto" and is_number and not few):
        return numbers_of([column]), (), values.astype(np.float64)
    if kind == "auto" and (said := on_numbers_among_texts(column, values)):
        raise UraenasError(f"{said}, or take them for classes: data.predict=classes")
    texts, coded = np.unique(as_classes(raw) if is_number else values, return_inverse=True)
    names: list[str] = texts.tolist()
    order = list(range(len(names)))
    if None not in (numbers := [number_of(text) for text in names]):
        order.sort(key=lambda place: (numbers[place], names[place]))
    if kind == "auto" and few:
        notes.append(
            f"{column} has {len(names)} different whole numbers, taken for classes; data.predict=numbers "
            "predicts it as a number"
        )
    notes += _notes_on_classes(column, names)
    return Classes(rare=True), tuple(names[place] for place in order), np.argsort(order)[coded]


def _notes_on_classes(column: str, names: Sequence[str]) -> Iterator[str]:
    """Said of classes that may not be meant: words for what is missing, and one number written in several ways."""
    if words := [text for text in names if text.lower() in MISSING]:
        yield f"{column}: taken for classes: {', '.join(words)}; leave cells empty where nothing is known"
    numbers: dict[Decimal, str] = {}
    for text in names if all(number_of(text) is not None for text in names) else ():
        first = numbers.setdefault(Decimal(text.replace("−", "-")), text)
        if first != text:
            yield f"{column}: {first} and {text} are one number and two classes, as they are written"


def on_numbers_among_texts(name: str, values: np.ndarray) -> str:
    """Said of a column that is mostly numbers, where a word such as <5 may have made texts of measurements.

    So may a sign of money or per cent, or a space between thousands, in each of them.
    """
    texts = [] if values.dtype.kind == "f" else np.unique(values).tolist()
    texts = [text for text in texts if text.lower() not in MISSING]
    words = [text for text in texts if number_of(text) is None]
    if len(words) == len(texts) > FEW_VALUES and all(map(WITH_SIGN.fullmatch, texts)):
        return (
            f"{name} has {len(texts):,} different texts such as {texts[0]!r}; if they are numbers, write them "
            "with digits and a point alone"
        )
    numbers = len(texts) - len(words)
    if not words or numbers <= max(FEW_VALUES, len(words)):
        return ""
    return (
        f"{name} has {numbers:,} different numbers, which are read as texts since it also holds {words[0]!r}; "
        "leave such cells empty where they are to be numbers"
    )
