"""All that a run's evaluation has found: what metrics.json holds, typed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.evaluation.row import Row


@dataclass(frozen=True)
class Diverged:
    """A chain that did not run as planned."""

    chain: str
    restarts: int
    given_up: str  # why, if it was

    @classmethod
    def from_json(cls, stored: Any) -> "Diverged":
        return cls(str(stored["chain"]), int(stored["restarts"]), str(stored["given_up"]))


@dataclass(frozen=True)
class Metrics:
    """Values, paired differences between methods, fitted temperatures, and how they were measured."""

    rows: list[Row]
    differences: list[Row] = field(default_factory=list)
    temperatures: dict[str, float] = field(default_factory=dict)  # by method
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
    def from_json(cls, stored: Any) -> "Metrics":
        """What `as_json` described; an UraenasError where it is something else."""
        try:
            if not stored["rows"]:
                raise UraenasError("there are no rows")
            return cls(
                rows=[Row.from_json(row) for row in stored["rows"]],
                differences=[Row.from_json(row) for row in stored["differences"]],
                temperatures={str(name): float(value) for name, value in stored["temperatures"].items()},
                suite=str(stored["suite"]),
                diverged=[Diverged.from_json(one) for one in stored["diverged"]],
                settings=dict(_mapping(stored["settings"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UraenasError(f"metrics are not described: {error!r}") from error


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("settings are no table")
    return value
