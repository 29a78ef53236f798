"""A run in progress behind HTTP: its page tells how far it has come, and it predicts once there is an ensemble."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from uraenas.base.errors import UraenasError
from uraenas.deploy.serving.app import LATER, PAGE_HEADERS
from uraenas.deploy.serving.limits import TOKEN_NEEDED, Limits, Rate, Refused

WAITS = "the run is in progress and has no ensemble yet; try again later"
BROWSERS = 'Basic realm="uraenas: any name, and the token as password", charset="UTF-8"'
HEALTH = {  # answered without a token
    "/healthz": (200, {"ready": False}),
    "/v2/health/live": (200, {"live": True}),
    "/v2/health/ready": (503, {"ready": False}),
}
RETRY = {"Retry-After": "10", "Refresh": "10"}  # the second is for browsers


class Following:
    """An ASGI application: what `make` gives answers as soon as there is one, for the page once the run `is_over`.

    `make` returns None while there is none. The page tells a run's settings, so a token is asked for it, too.
    """

    def __init__(
        self,
        make: Callable[[], Any | None],
        is_over: Callable[[], bool],
        page: Callable[[], str],
        limits: Limits,
    ) -> None:
        self.make, self.is_over, self.page, self.limits = make, is_over, page, limits
        self.rate = Rate(limits.rate)
        self.made: Any | None = None
        self.why = WAITS
        self.making = asyncio.Lock()
        self.open = AsyncExitStack()  # what the other application began

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        async with self.making:  # one request makes it, the others wait for it
            if self.made is None:
                await self._look()
        if self.made is not None and (scope["path"] != "/" or self.is_over()):
            await self.made(scope, receive, send)
        elif scope["type"] == "http":
            await (await self._answer(Request(scope)))(scope, receive, send)

    async def _look(self) -> None:
        """Whether there is an ensemble now."""
        try:
            made = await asyncio.to_thread(self.make)
        except UraenasError as error:  # a file is being written, or the ensemble cannot be served
            self.why = str(error)
            return
        if made is not None:
            await self.open.enter_async_context(made.router.lifespan_context(made))
            self.made = made

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if path in HEALTH:
            status, words = HEALTH[path]
            return JSONResponse(words, status)
        try:
            self.rate.take(request.client.host if request.client else "")
        except Refused as refused:
            return JSONResponse({"error": refused.why}, refused.status, LATER)
        if not self.limits.admits(request.headers.get("authorization", "")):
            asked = BROWSERS if path == "/" else "Bearer"
            return JSONResponse({"error": TOKEN_NEEDED}, 401, {"WWW-Authenticate": asked})
        if path != "/" or request.method not in ("GET", "HEAD"):
            return JSONResponse({"error": self.why}, 503, RETRY)
        try:
            text = await asyncio.to_thread(self.page)
        except UraenasError as error:
            return JSONResponse({"error": str(error)}, 503, RETRY)
        return HTMLResponse(text.encode(errors="backslashreplace"), headers=PAGE_HEADERS)

    async def _live(self, receive: Any, send: Any) -> None:
        """The protocol of beginning and end; what was begun is finished before the end."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.open.aclose()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
