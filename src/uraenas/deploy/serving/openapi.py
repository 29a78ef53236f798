"""The OpenAPI document of all routes: what each takes and answers, and what it says where something is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from uraenas.deploy.serving.inference import HEADER, VERSION
from uraenas.deploy.serving.limits import OPEN
from uraenas.deploy.serving.served import FLAG, NUMBER, TEXT, Served

JSON, HTML, BYTES = "application/json", "text/html", "application/octet-stream"
BINARY = {"type": "string", "format": "binary"}
THING = {"type": "object"}
# What each status says.
WRONG = {
    400: "The request does not say what is expected.",
    401: "A token is needed: Authorization: Bearer …",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "Forms and compressed bodies are not read.",
    422: "An image or a row cannot be predicted.",
    429: "More requests a second than one address may send.",
    500: "The server failed; its log says why.",
    503: "Too much is being sent, or waits; try again later.",
}
OF_ALL, OF_BODIES = (429, 500), (400, 408, 413, 415, 422, 503)
RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
AS_BYTES = {
    "name": HEADER,
    "in": "header",
    "description": "Bytes of JSON in the body, where bytes of tensors follow it.",
    "schema": {"type": "integer", "minimum": 0},
}


@dataclass(frozen=True)
class Operation:
    """What can be asked at a path."""

    name: str
    summary: str
    answer: Mapping[str, Any] = field(default_factory=dict)  # a schema by content type
    body: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[int, ...] = ()
    parameters: tuple[Mapping[str, Any], ...] = ()

    def described(self, path: str, token: bool) -> dict[str, Any]:
        """As OpenAPI has it, by verb."""
        asks = token and path not in OPEN
        errors = sorted({*self.errors, *OF_ALL, *((401,) if asks else ())})
        found: dict[str, Any] = {"operationId": self.name, "summary": self.summary}
        if token and not asks:
            found["security"] = []
        if self.parameters:
            found["parameters"] = list(self.parameters)
        if self.body:
            found["requestBody"] = {"required": True, "content": dict(self.body)}
        right = {"description": "The answer.", "content": _content(self.answer)}
        found["responses"] = {"200": right, **{str(status): _error(status) for status in errors}}
        return {"post" if self.body else "get": found}


def document(served: Served, version: str, token: bool) -> dict[str, Any]:
    """OpenAPI 3.1 of all routes."""
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"uraenas: {served.name}", "version": version},
        "paths": {path: one.described(path, token) for path, one in _operations(served).items()},
        "components": {"schemas": _schemas(served)},
    }
    if token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _operations(served: Served) -> dict[str, Operation]:
    return {
        "/": Operation("page", "A page that predicts what is dropped on it.", {HTML: TEXT}),
        "/api/predict": Operation(
            "predict",
            "Predict.",
            {JSON: _named("Predictions")},
            served.bodies,
            OF_BODIES,
        ),
        "/api/model": Operation("model", "What it takes, says and promises.", {JSON: _named("Model")}),
        "/healthz": Operation("health", "Whether the server answers.", {JSON: _named("Ready")}),
        "/metrics": Operation("metrics", "Prometheus metrics.", {"text/plain": TEXT}),
        "/openapi.json": Operation("openapi", "This document.", {JSON: THING}),
        "/docs": Operation("docs", "This document as a page.", {HTML: TEXT}),
        "/v2": Operation("server", "Open Inference Protocol: the server.", {JSON: _named("Server")}),
        "/v2/health/live": Operation(
            "live", "Open Inference Protocol: whether it lives.", {JSON: _named("Live")}
        ),
        "/v2/health/ready": Operation(
            "ready", "Open Inference Protocol: whether it is ready.", {JSON: _named("Ready")}
        ),
        **_of_model(f"/v2/models/{served.name}", ""),
        **_of_model(f"/v2/models/{served.name}/versions/{VERSION}", "_version"),
    }


def _of_model(path: str, ending: str) -> dict[str, Operation]:
    said = "Open Inference Protocol: "
    body = {JSON: {"schema": _named("Inference")}, BYTES: {"schema": BINARY}}
    return {
        path: Operation(f"metadata{ending}", f"{said}inputs and outputs.", {JSON: _named("Metadata")}),
        f"{path}/ready": Operation(
            f"model_ready{ending}", f"{said}whether the model is ready.", {JSON: _named("ModelReady")}
        ),
        f"{path}/infer": Operation(
            f"infer{ending}",
            f"{said}tensors in, tensors out, as JSON or as bytes behind it.",
            {JSON: _named("Inferred"), BYTES: BINARY},
            body,
            OF_BODIES,
            (AS_BYTES,),
        ),
    }


def _schemas(served: Served) -> dict[str, Any]:
    sizes, tensors = _list({"type": "integer"}), _list(_named("Tensor"))
    described = _object(name=TEXT, datatype=TEXT, shape=sizes)
    described["properties"]["parameters"] = THING
    tensor = _object(name=TEXT, datatype=TEXT, shape=sizes)
    tensor["properties"] |= {"data": {"type": "array"}, "parameters": THING}
    inference = _object(inputs=tensors)
    inference["properties"] |= {"id": TEXT, "outputs": _list(_object(name=TEXT)), "parameters": THING}
    inferred = _object(model_name=TEXT, model_version=TEXT, outputs=tensors)
    inferred["properties"]["id"] = TEXT
    return {
        "Error": _object(error=TEXT),
        "Predictions": _object(model=TEXT, predictions=_list(_named("Prediction"))),
        "Prediction": served.schema,
        "Model": _object(**{name: _kind(value) for name, value in served.about().items()}, megabytes=NUMBER),
        "Ready": _object(ready=FLAG),
        "Live": _object(live=FLAG),
        "Server": _object(name=TEXT, version=TEXT, extensions=_list(TEXT)),
        "ModelReady": _object(name=TEXT, ready=FLAG),
        "Metadata": _object(
            name=TEXT, versions=_list(TEXT), platform=TEXT, inputs=_list(described), outputs=_list(described)
        ),
        "Tensor": tensor,
        "Inference": inference,
        "Inferred": inferred,
    }


def _kind(value: Any) -> dict[str, Any]:
    """The schema of what is said of a model."""
    if isinstance(value, dict):
        return THING
    if isinstance(value, list | tuple):
        return {"type": "array"}
    return TEXT if isinstance(value, str) else NUMBER


def _object(**properties: Any) -> dict[str, Any]:
    """With all of these fields."""
    return {**THING, "properties": dict(properties), "required": list(properties)}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _named(schema: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{schema}"}


def _content(schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind, schema in schemas.items()}


def _error(status: int) -> dict[str, Any]:
    found = {"description": WRONG[status], "content": _content({JSON: _named("Error")})}
    return {**found, "headers": RETRY} if status in (429, 503) else found
