"""Queries of a search, trained by workers: what one is in an order, and who gives the answers."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from uraenas.learning.queries import Queries, Query, Trainings
from uraenas.learning.recipes import factors_of, recipe_of
from uraenas.run.places.driver import Driver
from uraenas.run.places.packing import Unit, pack
from uraenas.spaces import Space

Tell = Callable[[Driver], None]


class Working(Protocol):
    """How units are worked through: what came of each item."""

    def __call__(self, units: list[Unit], tell: Tell) -> Mapping[str, Any]: ...


class AnswersOfWorkers:
    """Each worker has a stack of queries at most, so no more is lost with whoever asks."""

    def __init__(self, here: Trainings, workers: int, working: Working) -> None:
        self.here, self.workers, self.working = here, workers, working
        self.images = 0

    @property
    def at_once(self) -> int:
        return self.workers * self.here.at_once

    def __call__(self, queries: Queries, tick: Callable[[int], None]) -> list[float]:
        specs, space = self.here.specs(queries), self.here.task.space
        items = {spec.name: item_of(spec.number, queries[spec.number]) for spec in specs}
        costs = {spec.name: float(space.cost(spec.architecture).multiply_adds) for spec in specs}
        facts = (self.here.parts.settings.query_epochs, self.workers, self.here.at_once)
        units = [
            Unit("search", tuple(items[name] for name in one.items), one.cost, words=one.items[0])
            for one in pack(specs, costs, *facts)
        ]

        def tell(driver: Driver) -> None:
            going = sum(unit.done for unit in driver.busy.values())
            tick(round(len(driver.over) * self.here.steps + going))

        found = self.working(units, tell)
        self.images += round(sum(images for _, images in found.values()))
        return [found[item][0] for item in items.values()]


def item_of(number: int, query: Query) -> str:
    """A query as an order names it."""
    factors = ",".join(map(repr, factors_of(query.recipe)))
    return f"query-{number} {factors} {query.architecture}"


def query_of(item: str, space: Space) -> tuple[int, Query]:
    """Its number, and what is asked."""
    name, factors, text = item.split(" ", 2)
    recipe = recipe_of(tuple(map(float, factors.split(","))))
    return int(name.partition("-")[2]), Query(space.parse(text), recipe)
