"""A worker on a Ray node."""

import os
import queue
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from uraenas.run.places.leases import Superseded
from uraenas.run.places.place import Order
from uraenas.run.places.worker import Leave, Worker

LISTENING = 2.0  # seconds that a worker waits for something to tell
ALONE = 120.0  # seconds without a question, in the midst of a unit: the driver is gone, or this node is lost to it
OF_A_MACHINE = ("ready", "warning", "failed", "broken")  # news that say on which


class RayWorker:
    """An actor: the work is done in a thread of its own, so that it can always be asked."""

    def __init__(
        self, path: str, config: Mapping[str, Any], folder: str, modules: Sequence[str] = ()
    ) -> None:
        torch.set_num_threads(1)
        if Path(folder).is_dir():
            os.chdir(folder)  # images may be named by where they are from there
        self.path, self.config, self.modules = path, config, modules
        self.said: queue.SimpleQueue[tuple[str, Mapping[str, Any]]] = queue.SimpleQueue()
        self.orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self.leaving = threading.Event()
        self.heard = time.monotonic()
        threading.Thread(target=self._work, daemon=True).start()

    def give(self, order: Order) -> None:
        self.heard = time.monotonic()  # between two stages nobody asks
        self.orders.put(order)

    def leave(self) -> None:
        self.leaving.set()
        self.orders.put(None)

    def hear(self) -> list[tuple[str, Mapping[str, Any]]]:
        """What there is to tell; waits a little for something."""
        self.heard = time.monotonic()
        found = []
        with suppress(queue.Empty):
            found.append(self.said.get(timeout=LISTENING))
            while True:
                found.append(self.said.get_nowait())
        return found

    def _work(self) -> None:
        torch.set_num_threads(1)

        def tell(kind: str, facts: Mapping[str, Any]) -> None:
            self.said.put((kind, {**facts, "host": socket.gethostname()} if kind in OF_A_MACHINE else facts))

        worker = Worker(self.path, tell, self._is_to_leave)
        try:
            if worker.opened(self.config, self.modules):
                tell("ready", {"process": os.getpid()})
            while (order := self.orders.get()) is not None:
                worker.do(order)
        except Leave:
            pass  # its state is written
        except Superseded:
            os._exit(1)
        tell("left", {})

    def _is_to_leave(self) -> bool:
        """Asked to, or nobody has asked anything for long."""
        if time.monotonic() - self.heard > ALONE:
            os._exit(1)
        return self.leaving.is_set()
