"""The columns of a table as inputs of an ONNX model, made into what networks read by the model itself.

A number is a double, NaN where it is missing; a category is a text, empty where it is missing. A category that was
never seen may be any that was: rows come in variants, one below the other, and in each it is taken for another.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.tables import Category, Columns, Frame, Number
from uraenas.data.tables.frame import as_texts

if TYPE_CHECKING:
    from onnx import ModelProto

INSIDE = "network/"  # before the names of all that is no input or output
ML = "ai.onnx.ml"


def of_columns(model: "ModelProto", columns: Columns) -> "ModelProto":
    """The model of `images` [variants · N, 1, 1, D] as one of columns [N]."""
    from onnx import compose, helper

    outputs = [output.name for output in model.graph.output]
    if taken := set(outputs).intersection(columns.names):
        raise UraenasError(f"column {min(taken)!r} has the name of an output of the file; rename it")
    model = compose.add_prefix(model, INSIDE)
    front = _Front(columns)
    parts = [front.encoded(variant) for variant in range(columns.variants)]
    together = front.node("Concat", parts, axis=0)
    front.node("Unsqueeze", [together, front.constant([1, 2], np.int64)], name=f"{INSIDE}images")
    for output, name in zip(model.graph.output, outputs, strict=True):
        front.last.append(helper.make_node("Identity", [output.name], [name]))
        output.name = name
    nodes = [*front.nodes, *model.graph.node, *front.last]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(front.constants.values())
    del model.graph.input[:]
    model.graph.input.extend(front.inputs)
    model.opset_import.append(helper.make_opsetid(ML, 3))
    return model


def feeds(columns: Columns, frame: Frame) -> dict[str, np.ndarray]:
    """What such a model is given for checked rows."""
    found = {}
    for part in columns.parts:
        values = frame[part.name]
        found[part.name] = values if isinstance(part, Number) else as_texts(values).astype(object)
    return found


class _Front:
    """Nodes from the columns to the networks."""

    def __init__(self, columns: Columns) -> None:
        from onnx import TensorProto, helper

        self.columns = columns
        self.nodes: list[Any] = []
        self.last: list[Any] = []
        self.constants: dict[str, Any] = {}
        kinds = {Number: TensorProto.DOUBLE, Category: TensorProto.STRING}
        self.inputs = [
            helper.make_tensor_value_info(part.name, kinds[type(part)], ["batch"]) for part in columns.parts
        ]
        axis = self.constant([1], np.int64)
        self.given = {part.name: self.node("Unsqueeze", [part.name, axis]) for part in columns.parts}
        self.fixed: dict[str, str] = {}  # what is the same in all variants

    def encoded(self, variant: int) -> str:
        """What networks read [N, D], in float32."""
        parts = [
            self._number(part) if isinstance(part, Number) else self._category(part, value)
            for part, value in zip(self.columns.parts, self.columns.taken_for[variant], strict=True)
        ]
        return self._float(self.node("Concat", parts, axis=1))

    def _number(self, part: Number) -> str:
        if part.name in self.fixed:
            return self.fixed[part.name]
        missing = self.node("IsNaN", [self.given[part.name]])
        known = self.node("Where", [missing, self.constant(part.median), self.given[part.name]])
        centred = self.node("Sub", [known, self.constant(part.mean)])
        parts = [self.node("Div", [centred, self.constant(part.deviation)])]
        if part.flagged:
            parts.append(self._double(missing))
        if part.ends:
            above = self.node("Sub", [known, self.constant(part.ends[:-1])])
            share = self.node("Div", [above, self.constant(np.diff(part.ends))])
            inside = self.node("Clip", [share, self.constant(0.0), self.constant(1.0)])
            twice = self.node("Mul", [inside, self.constant(2.0)])
            parts.append(self.node("Sub", [twice, self.constant(1.0)]))
        self.fixed[part.name] = self.node("Concat", parts, axis=1)
        return self.fixed[part.name]

    def _category(self, part: Category, value: int) -> str:
        count = len(part.values)
        if part.name not in self.fixed:
            self.fixed[part.name] = self.node(
                "LabelEncoder",
                [self.given[part.name]],
                domain=ML,
                keys_strings=list(part.values),
                values_int64s=list(range(count)),
                default_int64=-1,
            )
        place = self.fixed[part.name]
        unseen = self.node("Less", [place, self.constant(0, np.int64)])
        taken = self.node("Where", [unseen, self.constant(value, np.int64), place])
        return self._double(self.node("Equal", [taken, self.constant(range(count), np.int64)]))

    def node(self, kind: str, inputs: list[str], name: str = "", domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = name or f"{INSIDE}column{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        from onnx import numpy_helper

        name = f"{INSIDE}constant{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.asarray(values, dtype), name)
        return name

    def _double(self, name: str) -> str:
        from onnx import TensorProto

        return self.node("Cast", [name], to=TensorProto.DOUBLE)

    def _float(self, name: str) -> str:
        from onnx import TensorProto

        return self.node("Cast", [name], to=TensorProto.FLOAT)
