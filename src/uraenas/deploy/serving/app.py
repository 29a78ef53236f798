"""The ASGI application: routes, and what becomes of a request that is not right."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from uraenas.base.versions import version_of
from uraenas.deploy.serving.batching import Batcher
from uraenas.deploy.serving.bodies import Bodies
from uraenas.deploy.serving.inference import VERSION, Handler, Inference
from uraenas.deploy.serving.limits import OPEN, TOKEN_NEEDED, Limits, Rate, Refused
from uraenas.deploy.serving.openapi import document
from uraenas.deploy.serving.reference import reference
from uraenas.deploy.serving.served import Served
from uraenas.ensemble.predict import NOT_FINITE

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src blob: data:; connect-src 'self'"
)
PAGE_HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
NO_SNIFFING = {"X-Content-Type-Options": "nosniff"}
LATER = {"Retry-After": "2"}  # seconds
MORE_OF = {401: {"WWW-Authenticate": "Bearer"}, 429: LATER, 503: LATER}  # headers, by status
VERDICTS = ANSWERED, UNSURE, FOREIGN = "answered", "unsure", "foreign"
OTHER = "other"  # what metrics call a path that has no answer


class Server:
    """One model behind HTTP."""

    def __init__(self, model: Served, limits: Limits) -> None:
        self.model, self.limits, self.rate = model, limits, Rate(limits.rate)
        each = model.per_image
        self.most = limits.images * each  # items in a request
        self.bodies = Bodies(limits)
        self.batcher = Batcher(model, limits.batch * each, limits.waiting * each)
        self.inference = Inference(model, self.bodies, self._predicted, self.most)
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "uraenas_requests", "Requests by path and status", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "uraenas_request_seconds", "Time to answer", ["path"], registry=self.registry
        )
        self.verdicts = Counter(
            "uraenas_predictions",
            "Images or rows by what became of them: answered, unsure or foreign",
            ["verdict"],
            registry=self.registry,
        )
        for verdict in VERDICTS:
            self.verdicts.labels(verdict)  # at 0, so that shares can be asked for from the start
        sizes = Histogram(
            "uraenas_batch_images",
            "Images or rows predicted together",
            buckets=[2**power for power in range((limits.batch * each).bit_length() + 1)],
            registry=self.registry,
        )
        self.batcher.sizes = sizes.observe
        waiting = Gauge("uraenas_waiting_images", "Images that wait for their batch", registry=self.registry)
        waiting.set_function(lambda: len(self.batcher.queue))

    def application(self) -> Starlette:
        """Routes of the page, the JSON API and the Open Inference Protocol."""
        answers: dict[str, tuple[str, Handler]] = {
            "/": ("GET", self.page),
            "/healthz": ("GET", self.health),
            "/metrics": ("GET", self.metrics),
            "/openapi.json": ("GET", self.openapi),
            "/docs": ("GET", self.docs),
            "/api/model": ("GET", self.about),
            "/api/predict": ("POST", self.predict),
            "/v2/health/live": ("GET", self.live),
            "/v2/health/ready": ("GET", self.health),
            **self.inference.answers(),
        }
        routes = [
            Route(path, self._guarded(path, handler), methods=[verb])
            for path, (verb, handler) in answers.items()
        ]

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            yield
            await self.batcher.finish()

        nothing = {404: self._not_found, 405: self._not_found}
        app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=nothing)
        app.router.redirect_slashes = False  # to an address that the request itself names
        return app

    def _guarded(self, path: str, handler: Handler) -> Handler:
        """Limits before, one line where something is wrong, and counts after."""

        async def answer(request: Request) -> Response:
            begun = time.perf_counter()
            try:
                self.rate.take(request.client.host if request.client else "")
                if path not in OPEN and not self.limits.admits(request.headers.get("authorization", "")):
                    raise Refused(401, TOKEN_NEEDED)
                found = await handler(request)
            except Refused as refused:
                found = JSONResponse({"error": refused.why}, refused.status)
                found.headers.update(MORE_OF.get(refused.status, {}))
            except Exception:
                logging.getLogger("uvicorn.error").exception("a request failed")
                found = JSONResponse({"error": "the server failed; its log says why"}, 500)
            found.headers.update(NO_SNIFFING)
            self.requests.labels(path, str(found.status_code)).inc()
            self.seconds.labels(path).observe(time.perf_counter() - begun)
            return found

        return answer

    # The JSON API

    async def predict(self, request: Request) -> Response:
        """What the model says of the items in the body."""
        kind = request.headers.get("content-type", "").lower()
        async with self.bodies.of(request) as body:
            if kind.startswith("multipart/"):
                raise Refused(
                    415, "forms are not read; send the file itself, as curl --data-binary @FILE does"
                )
            items, notes = await asyncio.to_thread(self.model.request, body, kind, self.most)
            rows = await self._predicted(items)
        found = [{**row, "note": row.get("note") or note} for row, note in zip(rows, notes, strict=True)]
        return JSONResponse({"model": self.model.name, "predictions": found})

    async def _predicted(self, items: list[Any]) -> list[dict[str, Any]]:
        """Rows are numbered as they came, not as they were predicted together with others."""
        rows = await self.batcher(items)
        for number, row in enumerate(rows, start=1):
            if not row:
                which = f"number {number} of {len(rows)}: " if len(rows) > 1 else ""
                raise Refused(422, f"{which}{NOT_FINITE}")
        for row in rows:
            self.verdicts.labels(_verdict(row)).inc()
        return [{**row, "row": n} if "row" in row else row for n, row in enumerate(rows, start=1)]

    async def about(self, request: Request) -> Response:
        return JSONResponse({**self.model.about(), "megabytes": self.limits.megabytes})

    # About the server

    async def page(self, request: Request) -> Response:
        return HTMLResponse(self.model.page(), headers=PAGE_HEADERS)

    async def docs(self, request: Request) -> Response:
        return HTMLResponse(reference(self._document()), headers=PAGE_HEADERS)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self._document())

    def _document(self) -> dict[str, Any]:
        return document(self.model, version_of("uraenas"), bool(self.limits.token))

    async def health(self, request: Request) -> Response:
        return JSONResponse({"ready": True})

    async def live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4")

    async def _not_found(self, request: Request, error: Exception) -> Response:
        """Another path or method; counted, too, but not by paths, of which strangers could make up any number."""
        assert isinstance(error, HTTPException)
        status = error.status_code
        why = "another method is expected; see /docs" if status == 405 else "there is nothing here; see /docs"
        if status == 404 and request.url.path.startswith("/v2/models/"):
            why = f"the model here is /v2/models/{self.model.name}, in version {VERSION}"
        self.requests.labels(OTHER, str(status)).inc()
        return JSONResponse({"error": why}, status, {**(error.headers or {}), **NO_SNIFFING})


def _verdict(row: dict[str, Any]) -> str:
    if row["foreign"]:
        return FOREIGN
    return UNSURE if row.get("abstain") else ANSWERED  # numbers have intervals, and no such flag
