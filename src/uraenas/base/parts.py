"""A part is a row of a table: a frozen dataclass, and which of its fields the row fixes.

Spaces, architecture distributions, sources of architectures and kinds of weights are parts. The fields that a row
leaves open are its settings, so a part has exactly the settings that it uses.
"""

import dataclasses
import typing
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property, partial
from typing import Any, Generic, TypeVar

from uraenas.base.errors import UnknownName, UraenasError, unknown
from uraenas.base.fields import Fields

T = TypeVar("T")

MOST_FLOAT = 1e308  # a setting may be any number
OWN_PARTS = "If it was made with parts of your own, import their files first."
SEVERAL = (int, float, str)  # of which a setting may hold several


def given(**more: Any) -> Any:
    """A field that is no setting: the program fills it in."""
    return dataclasses.field(metadata={"given": True}, **more)


class Part(Generic[T]):
    """One row: what is made, the fields that are fixed, and defaults that differ from the class's own."""

    def __init__(
        self, made: type[T], defaults: Mapping[str, Any] | None = None, about: str = "", **fixed: Any
    ) -> None:
        self.made, self.defaults, self.fixed = made, defaults or {}, fixed
        self.about = about or (made.__doc__ or "").strip().split("\n")[0]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The fields that are settings, by name, with their types."""
        fields = _fields_of(typing.cast(Hashable, self.made))
        found = {name: kind for name, (kind, _) in fields.items() if name not in self.fixed}
        for name, kind in found.items():
            if not (_can_be_set(kind) and (fields[name][1] or name in self.defaults)):
                raise UraenasError(
                    f"{self.made.__name__}.{name} can be no setting; a setting has a default and is an int, float, str "
                    "or bool, or a tuple of numbers or of texts; what is none is declared by given(…)"
                )
        return found

    def restored(self, stored: Fields) -> dict[str, Any]:
        """The values of its settings that are stored, each of its type."""
        one: dict[Any, Any] = {
            int: stored.any_whole,
            float: partial(stored.number, least=-MOST_FLOAT, most=MOST_FLOAT),
            str: stored.text,
            bool: stored.flag,
        }
        several: dict[Any, Any] = {int: stored.wholes, float: stored.numbers, str: stored.texts}
        return {
            name: several[typing.get_args(kind)[0]](name) if typing.get_args(kind) else one[kind](name)
            for name, kind in self.settings.items()
            if stored.has(name)
        }

    def make(self, values: Mapping[str, Any] | None = None) -> T:
        """The part with these values of its settings, and defaults for the rest."""
        return self.made(**{**self.defaults, **(values or {}), **self.fixed})


@cache
def _fields_of(kind: Hashable) -> Mapping[str, tuple[Any, bool]]:
    """The fields of a dataclass that may be settings: their types, and whether they have a default."""
    assert isinstance(kind, type)
    hints = typing.get_type_hints(kind)
    return {
        field.name: (hints[field.name], field.default is not dataclasses.MISSING)
        for field in dataclasses.fields(kind)
        if not field.metadata.get("given")
    }


def _can_be_set(kind: Any) -> bool:
    """Whether values of this type can be written down and read again."""
    if typing.get_origin(kind) is not tuple:
        return kind in (*SEVERAL, bool)
    inner = set(typing.get_args(kind)) - {...}
    return len(inner) == 1 and inner <= set(SEVERAL)


def values_of(part: Any, names: typing.Iterable[str]) -> dict[str, Any]:
    """The values that these fields have."""
    return {name: getattr(part, name) for name in names}


def row_of(table: Mapping[str, Part[T]], kind: str, name: str) -> Part[T]:
    """The row of this name."""
    if name not in table:
        raise unknown(kind, name, table)
    return table[name]


def stored_row(table: Mapping[str, Part[T]], kind: str, facts: Fields) -> Part[T]:
    """The row of the name that a file holds."""
    try:
        return row_of(table, kind, facts.text("name"))
    except UnknownName as error:
        raise UraenasError(f"{facts.where}: {error} {OWN_PARTS}") from error


@contextmanager
def naming(section: str, **elsewhere: str) -> Iterator[None]:
    """Say of a part's own error in which section of the settings it lies, or `elsewhere`, by the setting's name."""
    try:
        yield
    except UraenasError as error:
        name, equals, rest = str(error).partition(" = ")
        if equals and name.isidentifier():
            raise UraenasError(f"{elsewhere.get(name, f'{section}.{name}')} = {rest}") from error
        raise UraenasError(f"{section}: {error}") from error
