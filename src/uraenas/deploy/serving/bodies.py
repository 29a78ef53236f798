"""The bodies of requests: each is limited in size and time, and all that are held at once in their sum."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from uraenas.deploy.serving.limits import Limits, Refused

READ_ON = 20  # times as large as a request may be


class Bodies:
    """Of one server."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0  # bytes, of all requests that are read or answered

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[bytes]:
        """A request's body, which counts among those that are held until it is answered."""
        parts: list[bytes] = []
        try:
            await self._read(request, parts)
            parts[:] = [b"".join(parts)]
            yield parts[0]
        finally:
            self._drop(parts)

    async def _read(self, request: Request, parts: list[bytes]) -> None:
        """Its parts, if they are not too large and come in time.

        What is too large is read and thrown away, within reason: a client that still sends when it is answered sees a
        broken connection instead of the answer.
        """
        most, size = self.limits.bytes, 0
        too_large = Refused(413, f"a request has at most {self.limits.megabytes:g} MB")
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > READ_ON * most:
            raise too_large
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > READ_ON * most:
                        raise too_large
                    if size <= most:
                        self._keep(part, parts)
                    else:
                        self._drop(parts)
        except TimeoutError as error:
            raise Refused(408, f"the request did not arrive within {self.limits.seconds:g} s") from error
        except ClientDisconnect as error:
            raise Refused(400, "the request broke off") from error
        if size > most:
            raise too_large
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "bodies are read as they are; send this without Content-Encoding")
        if not size:
            raise Refused(400, "the request has no body")

    def _keep(self, part: bytes, parts: list[bytes]) -> None:
        if self.held + len(part) > self.limits.bytes_at_once:
            raise Refused(503, "too much is being sent by all at once; try again later")
        self.held += len(part)
        parts.append(part)

    def _drop(self, parts: list[bytes]) -> None:
        self.held -= sum(map(len, parts))
        parts.clear()
