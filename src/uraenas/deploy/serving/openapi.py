"""The OpenAPI document of the JSON API."""

from typing import Any


def document(model: str, version: str, token: bool) -> dict[str, Any]:
    """OpenAPI 3.1 of all routes."""
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"uraenas: {model}", "version": version},
        "paths": {
            "/api/predict": {
                "post": {
                    "summary": "Predict one image (the body is the file) or several (JSON with base64).",
                    "requestBody": {"required": True, "content": _bodies()},
                    "responses": _responses("Prediction"),
                }
            },
            "/api/model": {
                "get": {"summary": "Classes, image size and promises.", "responses": _responses()}
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
        "components": {"schemas": {"Prediction": _prediction()}},
    }
    if token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _bodies() -> dict[str, Any]:
    several = {"type": "object", "properties": {"images": {"type": "array", "items": {"type": "string"}}}}
    return {
        "image/*": {"schema": {"type": "string", "format": "binary"}},
        "application/json": {"schema": several},
    }


def _responses(schema: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"description": "found"}
    if schema:
        rows = {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}}
        content = {"type": "object", "properties": {"model": {"type": "string"}, "predictions": rows}}
        found["content"] = {"application/json": {"schema": content}}
    return {"200": found, "4XX": {"description": 'what was wrong: {"error": …}'}}


def _prediction() -> dict[str, Any]:
    number, text, flag = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
    numbers = ("probability", "p_value", "total", "data", "weights", "architecture")
    table = {"type": "object", "additionalProperties": number}
    properties: dict[str, Any] = {
        "label": text,
        "reason": text,
        "note": text,
        "foreign": flag,
        "abstain": flag,
    }
    properties |= dict.fromkeys(numbers, number)
    properties |= {"probabilities": table, "votes": table, "prediction_set": {"type": "array", "items": text}}
    return {"type": "object", "properties": properties}
