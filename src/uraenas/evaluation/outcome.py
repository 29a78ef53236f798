"""All that a run's evaluation has found: what metrics.json holds, typed."""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from uraenas.base.fields import Fields, is_table
from uraenas.evaluation.row import Row
from uraenas.evaluation.temperature import Temperature, stored_temperature


@dataclass(frozen=True)
class Diverged:
    """A chain that did not run as planned."""

    chain: str
    restarts: int
    given_up: str  # why, if it was

    @classmethod
    def of(cls, stored: Fields) -> "Diverged":
        return cls(stored.text("chain"), stored.whole("restarts"), stored.text("given_up"))


@dataclass(frozen=True)
class Metrics:
    """Values, paired differences between methods, fitted temperatures, and how they were measured."""

    rows: list[Row]
    differences: list[Row] = field(default_factory=list)
    temperatures: dict[str, Temperature] = field(default_factory=dict)  # by method
    suite: str = ""  # the checksum of the shifted images
    diverged: list[Diverged] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)  # those that decide what is measured

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": [row.as_json() for row in self.rows],
            "differences": [row.as_json() for row in self.differences],
            "temperatures": self.temperatures,
            "suite": self.suite,
            "diverged": [vars(one) for one in self.diverged],
            "settings": self.settings,
        }

    @classmethod
    def of(cls, stored: Fields) -> "Metrics":
        """What `as_json` described."""
        rows = Row.all_of(stored.where, stored.list_of("rows", is_table, "rows"))
        methods = set(map(attrgetter("method"), rows))
        temperatures, settings = stored.table("temperatures"), stored.table("settings")
        if not rows:
            raise stored.error("there are no rows")
        if strange := methods ^ temperatures.stored.keys():
            raise stored.error(f"rows or temperature of {sorted(strange)[0]} are missing")
        if any(isinstance(value, dict) for value in settings.stored.values()):
            raise stored.error("a setting is a table")
        differences = stored.list_of("differences", is_table, "rows")
        return cls(
            rows=rows,
            differences=Row.all_of(stored.where, differences),
            temperatures={name: stored_temperature(temperatures, name, 1e-9) for name in temperatures.stored},
            suite=stored.text("suite"),
            diverged=[
                Diverged.of(Fields(stored.where, one))
                for one in stored.list_of("diverged", is_table, "chains")
            ],
            settings=dict(settings.stored),
        )
