"""What a server asks of a model, whatever it predicts, and what all models need to read a request."""

import json
from typing import Any, Protocol

from uraenas.deploy.serving.limits import Refused

SOURCES = ("total", "data", "weights", "architecture")
NUMBER, TEXT, FLAG = {"type": "number"}, {"type": "string"}, {"type": "boolean"}


class Served(Protocol):
    """A method's ensemble behind HTTP. An *item* is one image or row, as the model itself reads it."""

    name: str
    per_image: int  # so many items are as much work as an image

    def __call__(self, items: list[Any]) -> list[dict[str, Any]]:
        """What is said of each item; nothing where that is not a number."""

    def request(self, body: bytes, kind: str, most: int) -> tuple[list[Any], list[str]]:
        """The items in the body of /api/predict, and a note on each."""

    def about(self) -> dict[str, Any]:
        """What /api/model says."""

    def tensors(self, inputs: list[Any], most: int) -> list[Any]:
        """The items in inputs of the Open Inference Protocol."""

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Of that protocol."""

    @property
    def outputs(self) -> dict[str, tuple[str, list[int]]]:
        """Of that protocol: datatype and shape by name. Each is a field of the rows."""

    def page(self) -> str: ...

    @property
    def bodies(self) -> dict[str, Any]:
        """What /api/predict takes, by content type, as OpenAPI says it."""

    @property
    def schema(self) -> dict[str, Any]:
        """A prediction's fields, as OpenAPI says it."""


def parsed(body: bytes) -> Any:
    """JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the body is not JSON") from error


def require_number(count: int, most: int, what: str) -> None:
    if not 1 <= count <= most:
        raise Refused(400, f"a request has 1 to {most:,} {what}, not {count:,}")
