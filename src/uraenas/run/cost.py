"""What the parts of a run have cost: seconds, images and the like, by part."""

import time
from collections.abc import Mapping
from pathlib import Path

from uraenas.base.errors import UraenasError
from uraenas.base.files import read_json, write_json


class Costs:
    """The amounts in a run's cost.json, such as `chains/expected-point-00`: seconds 12.5, images 8000."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, dict[str, float]]:
        costs = read_json(self.path) if self.path.exists() else {}
        if not isinstance(costs, dict) or not all(isinstance(amounts, dict) for amounts in costs.values()):
            raise UraenasError(f"{self.path} is damaged; delete it and run the same command again")
        return costs

    def add(self, items: Mapping[str, Mapping[str, float]]) -> None:
        """Add to what earlier parts of the run have cost."""
        costs = self.read()
        for item, amounts in items.items():
            entry = costs.setdefault(item, {})
            for unit, amount in amounts.items():
                entry[unit] = entry.get(unit, 0) + amount
        write_json(self.path, costs)

    def forget(self, item: str) -> None:
        costs = self.read()
        if costs.pop(item, None) is not None:
            write_json(self.path, costs)

    def charge_shared(self, item: str, amounts: Mapping[str, float]) -> None:
        """Say what other items have spent for this one, in place of what was said before."""
        costs = self.read()
        before = costs.get(item, {})
        after = {unit: amount for unit, amount in before.items() if not unit.startswith("shared_")}
        after |= {f"shared_{unit}": amount for unit, amount in amounts.items()}
        if after != before:
            write_json(self.path, {**costs, item: after})


class Clock:
    """Seconds since it was last asked."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def lap(self) -> float:
        now = time.monotonic()
        elapsed, self.last = now - self.last, now
        return elapsed
