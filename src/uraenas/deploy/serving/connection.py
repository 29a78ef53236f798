"""A connection that is given up where a request does not begin in time: uvicorn waits for headers without end."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """Of a client that has `patience` seconds for the headers of a request, however slowly it sends them.

    What it still sends when it has its answer, as the rest of a body, counts as the next request's.
    """

    patience = 10.0
    giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._stop()

    def _watch(self) -> None:
        """A time runs from the first byte that belongs to no request, until there is one."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self.giving_up is None:
            self.giving_up = self.loop.call_later(self.patience, self.timeout_keep_alive_handler)

    def _stop(self) -> None:
        if self.giving_up is not None:
            self.giving_up.cancel()
            self.giving_up = None
