"""A connection that is given up where a request does not begin or an answer is not read; uvicorn waits without end."""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

AT_ONCE = struct.pack("ii", 1, 0)  # what the kernel still holds of an answer is dropped


class Connection(H11Protocol):
    """Of a client that has `patience` seconds for the headers of a request, however slowly it sends them.

    What it still sends when it has its answer, as the rest of a body, counts as the next request's. Of an answer that
    lies ready it has to take `pace` bytes every `to_read` seconds.
    """

    patience, to_read, pace = 10.0, 20.0, 100_000
    giving_up: asyncio.TimerHandle | None = None
    reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that all that is not taken is told of
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_reading()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._stop()
        self._stop_reading()

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

    def _await_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self.reading = self.loop.call_later(self.to_read, self._judge_reader, left)

    def _judge_reader(self, before: int) -> None:
        """To close would be to wait until the rest is taken, which may be never; so it is reset."""
        if before - self.transport.get_write_buffer_size() >= self.pace:
            self._await_reader()
            return
        with suppress(OSError):  # on systems that lay out this option in another way
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def _stop_reading(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None
