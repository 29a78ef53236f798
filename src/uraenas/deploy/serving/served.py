"""What a server asks of a model, whatever it predicts, and what all need to read a request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from uraenas.deploy.serving.limits import Refused

NUMBER, TEXT, FLAG = {"type": "number"}, {"type": "string"}, {"type": "boolean"}


@dataclass(frozen=True)
class Output:
    """A field of the rows as an output of the Open Inference Protocol.

    What has `classes` says something of each of them: a number, or whether it is in a set.
    """

    name: str
    datatype: str
    classes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # what else clients should know

    def about(self) -> dict[str, Any]:
        """As the model's metadata have it."""
        facts = {**({"classes": list(self.classes)} if self.classes else {}), **self.facts}
        found = {"name": self.name, "datatype": self.datatype, "shape": [-1, *self._inner]}
        return {**found, "parameters": facts} if facts else found

    def tensor(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        data = [one for row in rows for one in self._values(row[self.name])]
        shape = [len(rows), *self._inner]
        return {"name": self.name, "datatype": self.datatype, "shape": shape, "data": data}

    @property
    def _inner(self) -> list[int]:
        return [len(self.classes)] if self.classes else []

    def _values(self, value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [value[name] for name in self.classes]
        if self.classes:
            return [name in value for name in self.classes]
        return [self.facts["endless"] if value is None else value]  # tensors have no null


class Served(Protocol):
    """A method's ensemble behind HTTP. An *item* is one image or row, as the model itself reads it."""

    name: str
    per_image: int  # so many items are as much work as an image

    def __call__(self, items: list[Any]) -> list[dict[str, Any]]:
        """What is said of each item; nothing where that is not a number."""

    def request(self, body: bytes, kind: str, most: int) -> tuple[list[Any], list[str]]:
        """The items in the body of /api/predict, and a note on each."""

    def room(self, items: int) -> int:
        """Bytes of memory that the JSON of so many items takes at most, once it is read."""

    def about(self) -> dict[str, Any]:
        """What /api/model says."""

    def tensors(self, inputs: list[Any], most: int) -> list[Any]:
        """The items in inputs of the Open Inference Protocol."""

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Of that protocol."""

    @property
    def outputs(self) -> list[Output]:
        """Of that protocol."""

    def page(self) -> str: ...

    @property
    def bodies(self) -> dict[str, Any]:
        """What /api/predict takes, by content type, as OpenAPI says it."""

    @property
    def schema(self) -> dict[str, Any]:
        """A prediction's fields, as OpenAPI says it."""


def require_number(count: int, most: int, what: str) -> None:
    if not 1 <= count <= most:
        raise Refused(400, f"a request has 1 to {most:,} {what}, not {count:,}")
