"""`--on`: where the work of a command is done."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from uraenas.base.errors import UraenasError

if TYPE_CHECKING:
    from uraenas.run.budget import Planned
    from uraenas.run.config import Config
    from uraenas.run.places import Place

LOCAL = "local"
On = Annotated[
    str,
    typer.Option(
        "--on",
        help="Where chains and evaluation are computed: local, this process; processes[:N] of this machine; "
        "ray[:HOST:PORT], a cluster. The result is the same.",
    ),
]


def workplace_of(on: str) -> "Place":
    """Where work is done, if it can be reached."""
    from uraenas.run.places import place_of

    found = place_of(on)
    found.check()
    return found


def require_work(config: "Config", on: str) -> None:
    """Refuse workers for a search that has nothing for them to do."""
    from uraenas.learning.loops import LOOPS

    if on != LOCAL and config.search is not None and not LOOPS[config.search.distribution.loop].asks:
        raise UraenasError(
            f"--on {on}: a search in a supernet is the work of one process; workers are for searches that train "
            "networks, and for train and evaluate"
        )


def with_note_on_place(planned: "Planned", on: str, budget: str | None) -> "Planned":
    """Times are measured in this process; what several workers gain is not known before."""
    if on == LOCAL or planned.expected is None:
        return planned
    chosen = ", and settings are chosen for it" if budget else ""
    words = f"times are estimated for this process alone{chosen}; with --on {on} the run may be over sooner"
    return replace(planned, notes=[*planned.notes, words])
