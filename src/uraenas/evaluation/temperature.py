"""Temperatures: one factor for each target, and how they are stored."""

from uraenas.base.errors import UraenasError
from uraenas.base.fields import MOST_NUMBER, Fields

Temperature = float | tuple[float, ...]  # of several targets one for each


def only(temperature: Temperature) -> float:
    """That of a single target."""
    if isinstance(temperature, tuple):
        raise UraenasError(f"there are {len(temperature)} targets, each with its own temperature")
    return temperature


def stored_temperature(facts: Fields, name: str, least: float, most: float = MOST_NUMBER) -> Temperature:
    """What JSON holds, within these bounds."""
    if not isinstance(facts.stored.get(name), list):
        return facts.number(name, least, most)
    found = facts.numbers(name)
    if len(found) < 2 or not least <= min(found) <= max(found) <= most:
        raise facts.error(f"{name} is out of range")
    return found
