"""A crew in this process."""

import pickle
from collections.abc import Mapping
from typing import Any

from uraenas.run.places.place import News, Order
from uraenas.run.places.worker import Worker
from uraenas.run.work import Work


class TwoWorkers:
    """Workers who are sent what would go through a pipe; the first one may die of its first order. Hires itself."""

    names = ("one", "two")

    def __init__(self, dying: bool = False) -> None:
        self.dying = dying
        self.said = [News(name, "ready") for name in self.names]
        self.given: list[tuple[str, Order]] = []

    def check(self) -> None:
        """They are here."""

    def hire(self, work: Work, most: int) -> "TwoWorkers":
        self.workers = {name: self._worker(str(work.run.path), name) for name in self.names}
        assert all(worker.opened(work.config.as_json()) for worker in self.workers.values())
        return self

    def _worker(self, path: str, name: str) -> Worker:
        def tell(kind: str, facts: Mapping[str, Any]) -> None:
            self.said.append(pickle.loads(pickle.dumps(News(name, kind, facts))))

        return Worker(path, tell, lambda: False)

    def give(self, worker: str, order: Order) -> None:
        self.given.append((worker, order))
        if self.dying and len(self.given) == 1:
            self.said += [News(worker, "died", {"why": "was seen to die"}), News(worker, "ready")]
        else:
            self.workers[worker].do(pickle.loads(pickle.dumps(order)))

    def news(self, seconds: float) -> list[News]:
        said, self.said = self.said, []
        return said

    def leave(self) -> list[News]:
        return []
