"""Parts from outside this package: workers import the modules that they come from, as the driver did."""

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from itertools import chain
from typing import Any

from uraenas.architectures import DISTRIBUTIONS
from uraenas.base.errors import UraenasError
from uraenas.base.parts import Part
from uraenas.data import EMBEDDED
from uraenas.data.augment import AUGMENTATIONS
from uraenas.learning.recipes import RECIPES
from uraenas.learning.sources import SOURCES
from uraenas.spaces import SPACES
from uraenas.weights import WEIGHTS

TABLES: tuple[Mapping[str, Part[Any]], ...] = (
    SPACES,
    DISTRIBUTIONS,
    WEIGHTS,
    SOURCES,
    RECIPES,
    AUGMENTATIONS,
)
OURS = ("uraenas", "__main__", "__mp_main__")  # a script that was called, multiprocessing runs itself


def modules_of_own_parts() -> tuple[str, ...]:
    """The modules of all rows that are not this package's, and the package that was called by `python -m`."""
    made = [part.made for part in chain.from_iterable(table.values() for table in TABLES)]
    names = [one.__module__ for one in (*made, *EMBEDDED.values())]
    called = getattr(sys.modules["__main__"], "__spec__", None)
    if called is not None and called.name.endswith(".__main__"):  # which multiprocessing leaves out
        names.append(called.parent)
    return tuple(dict.fromkeys(name for name in names if name.partition(".")[0] not in OURS))


def import_own_parts(modules: Iterable[str]) -> None:
    """Import them where a worker is; their rows come with them."""
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            raise UraenasError(
                f"{name}, which has parts of your own, cannot be imported here: {error}; install it where workers are"
            ) from error
