"""The ways to search: in a supernet, or by queries. A distribution says by which one it is learned (`loop`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from uraenas.architectures import ArchitectureDistribution, Searched
from uraenas.base.parts import Part
from uraenas.learning.queries import (
    QUERY_WEIGHTS,
    Elsewhere,
    QueryParts,
    QuerySearch,
    QuerySettings,
    Trainings,
)
from uraenas.learning.search import (
    SUPERNET_WEIGHTS,
    Search,
    SearchParts,
    SearchSettings,
    SearchState,
    SearchTask,
)
from uraenas.learning.train import StackOfChains
from uraenas.weights import WeightMethod

Tick = Callable[[int, int], None]


class LoopSettings(Protocol):
    """What settings of all loops offer."""

    unit: ClassVar[str]  # what a search is counted in
    epochs_name: ClassVar[str]  # the setting that its weights' cycle must fit into

    @property
    def distribution(self) -> str: ...

    @property
    def validation(self) -> float: ...

    @property
    def units(self) -> int:
        """How many of them it has."""

    @property
    def unit_epochs(self) -> int:
        """Epochs of one of them."""

    def check(self, weights: WeightMethod) -> None:
        """Refuse epochs in which a cycle of the weights would not end."""


class LoopParts(Protocol):
    """A search with its parts."""

    @property
    def settings(self) -> LoopSettings: ...

    @property
    def distribution(self) -> ArchitectureDistribution: ...

    @property
    def weights(self) -> WeightMethod: ...

    def notes(self) -> list[str]:
        """Settings with which hardly anything is learned."""


class Searching(Protocol):
    """A search in motion."""

    @property
    def images(self) -> int:
        """Seen so far, since it began or went on."""

    @property
    def epoch(self) -> int:
        """How many units are done."""

    @property
    def done(self) -> bool: ...

    @property
    def steps(self) -> tuple[int, int]:
        """Made, and in all."""

    def snapshot(self) -> SearchState: ...

    def found(self) -> Searched: ...

    def advance(self, tick: Tick) -> dict[str, Any]:
        """Go on as far as a checkpoint is worth while; the last row of the history."""

    def trial(self) -> tuple[Search | StackOfChains, float, int]:
        """Something whose steps can be timed, how many of them a unit takes, and for how many units it is made."""


@dataclass(frozen=True)
class Loop:
    """A row: the settings `search.…`, the kinds of weights that it can have, and how it begins.

    Where it `asks` for trainings and others can do them, it is told who.
    """

    settings: Part[Any]
    weights: dict[str, Part[Any]]
    parts: Callable[[Any, Any, WeightMethod], LoopParts]
    begin: Callable[[Any, SearchTask, SearchState | None, Elsewhere | None], Searching]
    asks: bool = False


def _in_supernet(
    parts: SearchParts, task: SearchTask, state: SearchState | None, elsewhere: Elsewhere | None
) -> Search:
    train, validation = (task.load(half, parts.settings.batch) for half in (task.train, task.validation))
    return Search(parts, task.space, train, validation, task.engine, task.seed, state)


def _by_queries(
    parts: QueryParts, task: SearchTask, state: SearchState | None, elsewhere: Elsewhere | None
) -> QuerySearch:
    return QuerySearch(Trainings(parts, task), state, elsewhere)


LOOPS: dict[str, Loop] = {
    "supernet": Loop(Part(SearchSettings), SUPERNET_WEIGHTS, SearchParts, _in_supernet),
    "queries": Loop(Part(QuerySettings), QUERY_WEIGHTS, QueryParts, _by_queries, asks=True),
}


def search(searching: Searching, checkpoint: Callable[[SearchState], None], tick: Tick) -> Searched:
    """Run a search to its end; `checkpoint` sees the state after every part of it, `tick` hears of every step."""
    while not searching.done:
        searching.advance(tick)
        checkpoint(searching.snapshot())
    return searching.found()
