"""What the server says of rows of a table: a number with its interval, or a class with its set, and doubt by source."""

import math
import sys
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.tables import Category, Frame
from uraenas.data.tables.frame import as_texts
from uraenas.data.targets import names_of
from uraenas.deploy.serving.limits import Refused
from uraenas.deploy.serving.parsing import FIELD, TABLE, parsed, rows_in_csv
from uraenas.deploy.serving.served import FLAG, NUMBER, TEXT, Output, require_number
from uraenas.ensemble import Ensemble
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.predict import Rule
from uraenas.ensemble.table_rows import predict_rows
from uraenas.evaluation.metrics import SOURCES

# Datatypes, the usual one first.
KINDS = {"number": ("FP64", "FP32", "INT64", "INT32"), "category": ("BYTES",)}

# Characters of a text: in a column of texts each takes as much memory as the longest.
MOST_TEXT = 1000

ENDLESS = sys.float_info.max  # an end of an interval that holds every number, where there can be no null

Item = dict[str, float | str]  # a row: values by column, as they are once a frame is checked


class RowsModel:
    """One method's ensemble of tables."""

    per_image = 100

    def __init__(self, name: str, ensemble: Ensemble, asked: Asked) -> None:
        columns = ensemble.normalisation.columns
        assert columns is not None
        self.name, self.ensemble, self.asked, self.columns = name, ensemble, asked, columns
        self.of_column = {
            part.name: "category" if isinstance(part, Category) else "number" for part in columns.parts
        }

    def __call__(self, items: list[Item]) -> list[dict[str, Any]]:
        rows = {name: np.array([item[name] for item in items]) for name in self.columns.names}
        return [_finite(row) for row in predict_rows(self.ensemble, rows, self.asked)]

    def request(self, body: bytes, kind: str, most: int) -> tuple[list[Item], list[str]]:
        """{"rows": [{column: value, …}, …]}, or a CSV file with a line of names."""
        given: Any = None
        if kind.startswith("text/csv"):
            given = rows_in_csv(body, self.room(most))
        elif body.lstrip()[:1] in (b"{", b"["):  # what else is JSON holds no rows
            found = parsed(body, self.room(most))
            given = found.get("rows") if isinstance(found, dict) else None
        if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
            raise Refused(
                400, 'expected {"rows": [{column: value, …}, …]}, or CSV with Content-Type: text/csv'
            )
        require_number(len(given), most, "rows")
        for number, row in enumerate(given, 1):
            if missing := [name for name in self.columns.names if name not in row]:
                raise Refused(422, f"column {missing[0]!r} is missing in row {number}; null where not known")
        values = {name: [row[name] for row in given] for name in self.columns.names}
        items = self._items(values)
        return items, [""] * len(items)

    def tensors(self, inputs: list[Any], most: int) -> list[Item]:
        """An input for each column [N] or [N, 1]."""
        named = {one.get("name"): one for one in inputs if isinstance(one, dict)}
        values = {}
        for name, of_column in self.of_column.items():
            if name not in named:
                raise Refused(400, f"there is no input {name!r}; each column is one")
            shape, kind, data = (named[name].get(key) for key in ("shape", "datatype", "data"))
            if kind not in KINDS[of_column]:
                raise Refused(400, f"datatype of {name} must be {' or '.join(KINDS[of_column])}")
            if isinstance(data, np.ndarray):
                require_number(data.size, most, "rows")
                data = data.tolist()
            if not isinstance(data, list) or not isinstance(shape, list) or shape[1:] not in ([], [1]):
                raise Refused(400, f"shape of {name} must be [N], and data a list")
            flat = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in data]
            if shape[:1] != [len(flat)]:
                raise Refused(400, f"data of {name} are not as many as its shape says")
            values[name] = flat
        sizes = {len(own) for own in values.values()}
        if len(sizes) != 1:
            raise Refused(400, "all inputs must have as many rows")
        require_number(sizes.pop(), most, "rows")
        return self._items(values)

    def _items(self, values: Mapping[str, list[Any]]) -> list[Item]:
        """Rows that can be predicted, checked by themselves: another request must not suffer from them."""
        for name, own in values.items():
            if not all(one is None or isinstance(one, str | int | float) for one in own):
                raise Refused(422, f"column {name} must hold numbers and texts")
            if any(isinstance(one, str) and len(one) > MOST_TEXT for one in own):
                raise Refused(422, f"a text of column {name} has more than {MOST_TEXT:,} characters")
        try:
            arrays = {name: np.array(own, object) for name, own in values.items()}
            frame: Frame = self.columns.frame(arrays)
            self.columns.encode(frame)
        except UraenasError as error:
            raise Refused(422, str(error)) from error
        texts = {
            name: as_texts(frame[name]) if kind == "category" else frame[name]
            for name, kind in self.of_column.items()
        }
        lists = {name: own.tolist() for name, own in texts.items()}
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]

    def room(self, items: int) -> int:
        return items * (len(self.of_column) * FIELD + TABLE)

    def about(self) -> dict[str, Any]:
        asked, target = self.asked, self.ensemble.normalisation.target
        return {
            "model": self.name,
            "target": ", ".join(part.column for part in target.parts),
            **({"targets": [part.column for part in target.parts]} if len(target.parts) > 1 else {}),
            "classes": self.ensemble.classes,
            "columns": [
                {"name": part.name, "kind": "category", "values": part.values}
                if isinstance(part, Category)
                else {"name": part.name, "kind": "number", "median": part.median}
                for part in self.columns.parts
            ],
            "members": len(self.ensemble),
            "coverage": asked.coverage,
            "foreign": asked.share,
            "undefined": self.ensemble.undefined,
            **(self._promised() if self.ensemble.classes else {}),
        }

    def _promised(self) -> dict[str, float]:
        """The risk, and with which certainty it is kept: 0 where held-out rows are too few to promise it."""
        threshold = Rule.of(self.ensemble, self.asked).threshold
        return {name: getattr(threshold, name) for name in ("risk", "certainty", "confidence")}

    @property
    def inputs(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "datatype": KINDS[kind][0], "shape": [-1]} for name, kind in self.of_column.items()
        ]

    @property
    def outputs(self) -> list[Output]:
        promised = {"coverage": self.asked.coverage}
        if classes := self.ensemble.classes:
            own = [
                Output("predicted", "BYTES"),
                Output("probability", "FP64"),
                Output("probabilities", "FP64", classes),
                Output("prediction_set", "BOOL", classes, promised),
                Output("abstain", "BOOL"),
            ]
            own += [Output(name, "FP64") for name in SOURCES]
        else:
            ends = {"low": {**promised, "endless": -ENDLESS}, "high": {**promised, "endless": ENDLESS}}
            own = [
                Output(name, "FP64", facts=ends.get(name.rpartition(".")[2], {})) for name in self._numbers
            ]
        return [*own, Output("p_value", "FP64"), Output("foreign", "BOOL")]

    def page(self) -> str:
        return resources.files("uraenas.deploy").joinpath("serving/rows.html").read_text(encoding="utf-8")

    @property
    def bodies(self) -> dict[str, Any]:
        kinds = {"number": {"type": ["number", "null"]}, "category": {"type": ["string", "null"]}}
        row = {
            "type": "object",
            "properties": {name: kinds[kind] for name, kind in self.of_column.items()},
            "required": list(self.of_column),
        }
        several = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
        return {"application/json": {"schema": several}, "text/csv": {"schema": TEXT}}

    @property
    def schema(self) -> dict[str, Any]:
        shared = {"row": {"type": "integer"}, "p_value": NUMBER, "foreign": FLAG, "note": TEXT}
        if self.ensemble.classes:
            own: dict[str, Any] = {"predicted": TEXT, "probability": NUMBER, "abstain": FLAG}
            own["probabilities"] = {"type": "object", "additionalProperties": NUMBER}
            own["prediction_set"] = {"type": "array", "items": TEXT}
            own |= dict.fromkeys(SOURCES, NUMBER)
        else:
            ends = {"type": ["number", "null"]}  # null: without end
            own = {name: ends if _is_end(name) else NUMBER for name in self._numbers}
        return {"type": "object", "properties": {**own, **shared}}

    @property
    def _numbers(self) -> list[str]:
        """What is said of each target, by field."""
        target = self.ensemble.normalisation.target
        names = ("predicted", "deviation", "low", "high", *SOURCES)
        return [names_of(target, name)[k] for k in range(len(target.parts)) for name in names]


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON can have it: an end of an interval that is infinite is null; nothing where another number is."""
    ends: dict[str, Any] = {name: None for name in row if _is_end(name) and math.isinf(row[name])}
    row = {**row, **ends}
    return {} if any(isinstance(one, float) and not math.isfinite(one) for one in row.values()) else row


def _is_end(name: str) -> bool:
    """Whether a field is an end of an interval."""
    return name.rpartition(".")[2] in ("low", "high")
