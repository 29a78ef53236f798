"""The OpenAPI document of the JSON API."""

from typing import Any

from uraenas.deploy.serving.served import Served


def document(served: Served, version: str, token: bool) -> dict[str, Any]:
    """OpenAPI 3.1 of all routes."""
    model = served.name
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"uraenas: {model}", "version": version},
        "paths": {
            "/api/predict": {
                "post": {
                    "summary": "Predict.",
                    "requestBody": {"required": True, "content": served.bodies},
                    "responses": _responses("Prediction"),
                }
            },
            "/api/model": {
                "get": {"summary": "What it takes and says, and promises.", "responses": _responses()}
            },
            "/healthz": {"get": {"summary": "Whether the server answers.", "responses": _responses()}},
            "/metrics": {"get": {"summary": "Prometheus metrics.", "responses": _responses()}},
            "/v2": {"get": {"summary": "Open Inference Protocol: the server.", "responses": _responses()}},
            f"/v2/models/{model}": {
                "get": {"summary": "Open Inference Protocol: inputs and outputs.", "responses": _responses()}
            },
            f"/v2/models/{model}/infer": {
                "post": {
                    "summary": "Open Inference Protocol: tensors in, tensors out.",
                    "requestBody": {"required": True, "content": {"application/json": {}}},
                    "responses": _responses(),
                }
            },
        },
        "components": {"schemas": {"Prediction": served.schema}},
    }
    if token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _responses(schema: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"description": "found"}
    if schema:
        rows = {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}}
        content = {"type": "object", "properties": {"model": {"type": "string"}, "predictions": rows}}
        found["content"] = {"application/json": {"schema": content}}
    return {"200": found, "4XX": {"description": 'what was wrong: {"error": …}'}}
