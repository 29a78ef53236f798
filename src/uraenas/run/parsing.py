"""Values of settings, from texts or from JSON. Kept apart from `config.py`, which knows the settings."""

import math
import typing
from typing import Any

from uraenas.base.errors import UraenasError


def parse(key: str, value: Any, kind: Any) -> Any:
    """A value of this type."""
    if typing.get_origin(kind) is tuple:
        return _parse_list(key, value, typing.get_args(kind))
    if kind is bool:
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise _refused(key, value, "true or false")
    if kind is str:
        if isinstance(value, str):
            return value
        raise _refused(key, value, "a text")
    try:
        whole = kind is float or isinstance(value, str) or int(value) == value
        number = kind(value) if not isinstance(value, bool) and whole else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or (kind is float and not math.isfinite(number)):
        raise _refused(key, value, "a whole number" if kind is int else "a number")
    return number


def _parse_list(key: str, value: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, str | list | tuple):
        raise _refused(key, value, "a list of values, separated by commas")
    items = [v.strip() for v in value.split(",") if v.strip()] if isinstance(value, str) else list(value)
    if kinds[-1] is not Ellipsis and len(items) != len(kinds):
        raise _refused(key, value, f"{len(kinds)} values, separated by commas")
    return tuple(parse(key, item, kinds[0]) for item in items)


def _refused(key: str, value: Any, allowed: str) -> UraenasError:
    return UraenasError(f"{key} = {value!r} is not allowed; it must be {allowed}")
