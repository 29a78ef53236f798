"""What the parts of a run have cost: seconds, images and the like, by part."""

import time
from collections.abc import Callable, Mapping

Amounts = Mapping[str, Mapping[str, float]]


class Costs:
    """The amounts in a run's cost.json, such as `chains/expected-point-00`: seconds 12.5, images 8000."""

    def __init__(self, read: Callable[[], Amounts], write: Callable[[Amounts], None]) -> None:
        self._read, self._write = read, write

    def read(self) -> dict[str, dict[str, float]]:
        return {item: dict(amounts) for item, amounts in self._read().items()}

    def add(self, items: Mapping[str, Mapping[str, float]]) -> None:
        """Add to what earlier parts of the run have cost."""
        costs = self.read()
        for item, amounts in items.items():
            entry = costs.setdefault(item, {})
            for unit, amount in amounts.items():
                entry[unit] = entry.get(unit, 0) + amount
        self._write(costs)

    def put(self, items: Amounts) -> None:
        """Say what these have cost in all, in place of what was said before."""
        self._write({**self.read(), **items})

    def forget(self, item: str) -> None:
        costs = self.read()
        if costs.pop(item, None) is not None:
            self._write(costs)

    def charge_shared(self, item: str, amounts: Mapping[str, float]) -> None:
        """Say what other items have spent for this one, in place of what was said before."""
        costs = self.read()
        before = costs.get(item, {})
        after = {unit: amount for unit, amount in before.items() if not unit.startswith("shared_")}
        after |= {f"shared_{unit}": amount for unit, amount in amounts.items()}
        if after != before:
            self._write({**costs, item: after})


class Clock:
    """Seconds since it was last asked."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def lap(self) -> float:
        now = time.monotonic()
        elapsed, self.last = now - self.last, now
        return elapsed
