"""The errors a user can cause and mend."""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

MOST_NAMES = 25  # more than these are not listed


class UraenasError(Exception):
    """One clear line for the user: what was given, what is allowed, how to mend it."""


class UnknownName(UraenasError):
    """A name is not in a table."""


class DamagedFile(UraenasError):
    """A file of ours is not what was written. Whoever knows what it is for says how to mend it."""


def require_range(name: str, value: float, least: float, most: float) -> None:
    """Refuse a setting outside its limits."""
    if not least <= value <= most:
        raise UraenasError(f"{name} = {value} is out of range; it must lie in {least:,} … {most:,}")


def require_positive(name: str, value: float) -> None:
    if value <= 0:
        raise UraenasError(f"{name} = {value} is out of range; it must be more than 0")


def require_not_negative(name: str, value: float) -> None:
    if value < 0:
        raise UraenasError(f"{name} = {value} is out of range; it must be 0 or more")


def require_share(name: str, value: float) -> float:
    """A share that is neither nothing nor all."""
    if not 0 < value < 1:
        raise UraenasError(f"{name} = {value} is out of range; it must be more than 0 and less than 1")
    return value


def unknown(kind: str, given: str, allowed: Iterable[str]) -> UnknownName:
    """The error for a name that is not in a table, with the nearest match."""
    names = sorted(allowed)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    if len(names) > MOST_NAMES:
        close = difflib.get_close_matches(given, names, n=5, cutoff=0.0)
        return UnknownName(f"unknown {kind} {given!r}.{hint} Nearest of {len(names)}: {', '.join(close)}.")
    return UnknownName(f"unknown {kind} {given!r}.{hint} Allowed: {', '.join(names)}.")


def unknown_or_missing(
    kind: str, given: str, allowed: Sequence[str], folders: Sequence[str] = ()
) -> UraenasError:
    """The error for what is neither a name in a table, nor one of the folders here, nor a path to another."""
    if given == Path(given).name:
        return unknown(f"{kind} or folder", given, (*allowed, *folders))
    return UraenasError(f"{given} does not exist; allowed: a path, or one of {', '.join(allowed)}")
