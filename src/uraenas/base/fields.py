"""JSON at the door: its fields are taken out by name, type and limits, so that inside nothing is a raw dictionary."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from uraenas.base.errors import DamagedFile

T = TypeVar("T")

MOST_TEXT = 10_000
MOST_ITEMS = 10_000_000
MOST_WHOLE = 2**63 - 1
MOST_NUMBER = 1e15  # of seconds, images, nats: what is computed from such numbers is finite


class Fields:
    """A JSON object of which fields are asked for; one that is absent, of another type or beyond limits is an error."""

    def __init__(self, where: object, stored: Any) -> None:
        self.where = where
        if not isinstance(stored, Mapping):
            raise self.error(f"there is {shown(stored)} instead of a table")
        self.stored = stored

    def error(self, why: str) -> DamagedFile:
        return DamagedFile(f"{self.where} is damaged or of another kind: {why}")

    def has(self, name: str) -> bool:
        return name in self.stored

    def text(self, name: str, most: int = MOST_TEXT) -> str:
        return self._checked(name, lambda value: is_text(value, most), "a text")

    def flag(self, name: str) -> bool:
        return self._checked(name, lambda value: isinstance(value, bool), "true or false")

    def whole(self, name: str, least: int = 0, most: int = MOST_WHOLE) -> int:
        return self._checked(
            name, lambda value: is_whole(value, least, most), f"a whole number from {least:,} on"
        )

    def any_whole(self, name: str) -> int:
        return self.whole(name, -MOST_WHOLE)

    def number(self, name: str, least: float = -MOST_NUMBER, most: float = MOST_NUMBER) -> float:
        words = "a number" if least == -MOST_NUMBER else f"a number from {least:g} on"
        return self._checked(name, lambda value: is_number(value, least, most), words)

    def table(self, name: str) -> "Fields":
        return Fields(f"{name} in {self.where}", self._taken(name))

    def list_of(
        self, name: str, fits: Callable[[Any], bool], words: str, count: int | None = None
    ) -> list[Any]:
        """The items of a list, so many of them; each must fit."""
        items = self._taken(name)
        if not isinstance(items, list) or not all(map(fits, items)) or len(items) > MOST_ITEMS:
            raise self.error(f"{name} is {shown(items)}, not a list of {words}")
        if count is not None and len(items) != count:
            raise self.error(f"{name} has {len(items)} entries, not {count}")
        return items

    def numbers(self, name: str, count: int | None = None) -> tuple[float, ...]:
        return tuple(map(float, self.list_of(name, is_number, "numbers", count)))

    def wholes(self, name: str, count: int | None = None) -> tuple[int, ...]:
        return tuple(self.list_of(name, is_whole, "whole numbers", count))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self.list_of(name, is_text, "texts"))

    def only(self, *names: str) -> None:
        """There are no other fields."""
        if strange := self.stored.keys() - set(names):
            raise self.error(f"there is a field {shown(sorted(map(str, strange))[0])}")

    def _taken(self, name: str) -> Any:
        if name not in self.stored:
            raise self.error(f"{name} is missing")
        return self.stored[name]

    def _checked(self, name: str, fits: Callable[[Any], bool], words: str) -> Any:
        value = self._taken(name)
        if not fits(value):
            raise self.error(f"{name} is {shown(value)}, not {words}")
        return value


def is_text(value: Any, most: int = MOST_TEXT) -> bool:
    return isinstance(value, str) and len(value) <= most


def is_table(value: Any) -> bool:
    return isinstance(value, dict)


def is_whole(value: Any, least: int = 0, most: int = MOST_WHOLE) -> bool:
    return type(value) is int and least <= value <= most


def is_number(value: Any, least: float = -MOST_NUMBER, most: float = MOST_NUMBER) -> bool:
    """Whether it is a finite number within limits."""
    return type(value) in (int, float) and least <= value <= most


def shown(value: Any) -> str:
    """A value in a message, cut short."""
    text = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}…"
