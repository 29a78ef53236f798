"""The Open Inference Protocol, version 2: tensors in and out, as JSON or, by its binary extension, behind it."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from uraenas.base.versions import version_of
from uraenas.deploy.serving.bodies import Bodies
from uraenas.deploy.serving.limits import Refused
from uraenas.deploy.serving.parsing import parsed
from uraenas.deploy.serving.served import Output, Served

Handler = Callable[[Request], Awaitable[Response]]
Predicted = Callable[[list[Any]], Awaitable[list[dict[str, Any]]]]

VERSION = "1"  # of a model: there is one
HEADER = "Inference-Header-Content-Length"  # bytes of JSON, before those of tensors
TEXTS = "BYTES"
KINDS = {"BOOL": "?", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8"} | {
    f"{sign}INT{8 * size}": f"<{sign.lower() or 'i'}{size}" for sign in ("", "U") for size in (1, 2, 4, 8)
}


class Inference:
    """The protocol's answers for a model. It predicts by `predicted`, of at most so many items."""

    def __init__(self, model: Served, bodies: Bodies, predicted: Predicted, most: int) -> None:
        self.model, self.bodies, self.predicted, self.most = model, bodies, predicted, most

    def answers(self) -> dict[str, tuple[str, Handler]]:
        """Verb and handler of each path."""
        found: dict[str, tuple[str, Handler]] = {"/v2": ("GET", self.server)}
        for path in (f"/v2/models/{self.model.name}", f"/v2/models/{self.model.name}/versions/{VERSION}"):
            found[path] = ("GET", self.metadata)
            found[f"{path}/ready"] = ("GET", self.ready)
            found[f"{path}/infer"] = ("POST", self.infer)
        return found

    async def server(self, request: Request) -> Response:
        facts = {"name": "uraenas", "version": version_of("uraenas")}
        return JSONResponse({**facts, "extensions": ["binary_tensor_data"]})

    async def metadata(self, request: Request) -> Response:
        outputs = [output.about() for output in self.model.outputs]
        facts = {"name": self.model.name, "versions": [VERSION], "platform": "uraenas"}
        return JSONResponse({**facts, "inputs": self.model.inputs, "outputs": outputs})

    async def ready(self, request: Request) -> Response:
        return JSONResponse({"name": self.model.name, "ready": True})

    async def infer(self, request: Request) -> Response:
        async with self.bodies.of(request) as body:
            asked = await asyncio.to_thread(self._asked, body, request.headers.get(HEADER))
            rows = await self.predicted(asked.items)
        facts = {"model_name": self.model.name, "model_version": VERSION, **asked.identity}
        return _answer(facts, [(output.tensor(rows), is_binary) for output, is_binary in asked.wanted])

    def _asked(self, body: bytes, header: str | None) -> "_Asked":
        """What a request asks for. Nothing else of its JSON is kept while it waits for its batch."""
        given = _given(body, header, self.model.room(self.most), self.most)
        inputs = given.get("inputs")
        if not isinstance(inputs, list):
            raise Refused(400, f"expected inputs: {', '.join(one['name'] for one in self.model.inputs)}")
        wanted = _wanted(self.model.outputs, given)
        return _Asked(self.model.tensors(inputs, self.most), wanted, _identity(given))


@dataclass(frozen=True)
class _Asked:
    items: list[Any]
    wanted: list[tuple[Output, bool]]  # and whether each is wanted as bytes
    identity: Mapping[str, str]


def _given(body: bytes, header: str | None, room: int, most: int) -> dict[str, Any]:
    """A request, with the data of those inputs whose bytes follow the JSON; of texts at most so many."""
    if header is not None and not (header.isdecimal() and len(header) < 20 and int(header) <= len(body)):
        raise Refused(400, f"{HEADER} must be the number of bytes of the JSON")
    length = len(body) if header is None else int(header)
    given, rest = parsed(body[:length], room), memoryview(body)[length:]
    given = given if isinstance(given, dict) else {}
    inputs = given.get("inputs")
    for tensor in inputs if isinstance(inputs, list) else []:
        size = _parameters(tensor).get("binary_data_size")
        if size is None:
            continue
        if type(size) is not int or not 0 <= size <= len(rest):
            raise Refused(400, "binary_data_size must be the number of an input's bytes behind the JSON")
        tensor["data"], rest = _values(tensor.get("datatype"), rest[:size], most), rest[size:]
    if rest:
        raise Refused(400, f"{len(rest)} bytes behind the JSON belong to no input")
    return given


def _parameters(thing: Any) -> Mapping[str, Any]:
    found = thing.get("parameters") if isinstance(thing, dict) else None
    return found if isinstance(found, dict) else {}


def _values(kind: Any, content: memoryview, most: int) -> np.ndarray | list[str]:
    """Numbers as they lie there; texts with the length of each, in four bytes, before it."""
    if kind == TEXTS:
        return _texts(content, most)
    if not isinstance(kind, str) or kind not in KINDS:
        raise Refused(400, f"datatype must be one of: {', '.join((*KINDS, TEXTS))}")
    try:
        return np.frombuffer(content, KINDS[kind])
    except ValueError as error:
        raise Refused(400, f"the bytes of an input are no whole numbers of {kind}") from error


def _texts(content: memoryview, most: int) -> list[str]:
    found: list[str] = []
    place = 0
    try:
        while place < len(content):
            if len(found) == most:
                raise Refused(400, f"an input has at most {most:,} texts")
            (size,) = struct.unpack_from("<I", content, place)
            place += 4 + size
            if place > len(content):
                raise ValueError
            found.append(bytes(content[place - size : place]).decode())
    except (struct.error, ValueError) as error:
        raise Refused(400, f"{TEXTS} are UTF-8, with the length of each in four bytes before it") from error
    return found


def _wanted(outputs: list[Output], given: Mapping[str, Any]) -> list[tuple[Output, bool]]:
    """Those that a request names, or all, and whether each is wanted as bytes."""
    usual, asked = _parameters(given).get("binary_data_output") is True, given.get("outputs")
    if not asked:
        return [(output, usual) for output in outputs]
    by_name = {output.name: output for output in outputs}
    listed = asked if isinstance(asked, list) else [asked]
    names = [str(one.get("name")) if isinstance(one, dict) else "" for one in listed]
    if not by_name.keys() >= set(names):
        raise Refused(400, f"outputs must be some of: {', '.join(by_name)}")
    if len(set(names)) < len(names):
        raise Refused(400, "each output can be asked for once")
    kinds = [_parameters(one).get("binary_data", usual) is True for one in listed]
    return [(by_name[name], is_binary) for name, is_binary in zip(names, kinds, strict=True)]


def _answer(facts: Mapping[str, Any], tensors: list[tuple[dict[str, Any], bool]]) -> Response:
    """JSON, and behind it the bytes of those tensors that are wanted so."""
    outputs, blobs = [], []
    for tensor, is_binary in tensors:
        if is_binary:
            blob = _as_bytes(tensor["datatype"], tensor.pop("data"))
            tensor["parameters"] = {"binary_data_size": len(blob)}
            blobs.append(blob)
        outputs.append(tensor)
    if not blobs:
        return JSONResponse({**facts, "outputs": outputs})
    told = json.dumps({**facts, "outputs": outputs}).encode()
    return Response(b"".join((told, *blobs)), 200, {HEADER: str(len(told))}, "application/octet-stream")


def _as_bytes(kind: str, data: list[Any]) -> bytes:
    if kind != TEXTS:
        return np.array(data, KINDS[kind]).tobytes()
    texts = [text.encode() for text in data]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _identity(given: Mapping[str, Any]) -> dict[str, str]:
    id_ = given.get("id")
    return {"id": id_} if isinstance(id_, str) and id_.isprintable() else {}
