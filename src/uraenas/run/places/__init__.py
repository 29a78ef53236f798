"""Where the work of a run is done: in this process, in processes of this machine, on a Ray cluster.

What is done elsewhere are units: queries of a search, stacks of chains, and evaluation sets. A unit is plain data, its
results go to the run directory or are told, and every draw is keyed, so the result does not depend on the place.
"""

from collections.abc import Callable

from uraenas.base.errors import UraenasError, unknown
from uraenas.run.places.elsewhere import Elsewhere
from uraenas.run.places.local import Local
from uraenas.run.places.on_ray import on_ray
from uraenas.run.places.place import Place
from uraenas.run.places.processes import processes

__all__ = ["PLACES", "Elsewhere", "Local", "Place", "place_of"]


def _local(argument: str) -> Place:
    if argument:
        raise UraenasError(f"--on local:{argument} says too much; local is this process")
    return Local()


# What comes after a colon → the place.
PLACES: dict[str, Callable[[str], Place]] = {"local": _local, "processes": processes, "ray": on_ray}


def place_of(text: str) -> Place:
    """The place that `local`, `processes:4` or `ray:head:6379` names."""
    name, _, argument = text.partition(":")
    if name not in PLACES:
        raise unknown("place (--on)", name, PLACES)
    return PLACES[name](argument)
