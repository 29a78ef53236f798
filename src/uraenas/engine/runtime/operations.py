"""PyTorch's operations as those of ONNX (opset 17): a row of OPERATIONS for each that networks use."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from uraenas.base.errors import UraenasError
from uraenas.engine.runtime.recording import Named, Step

if TYPE_CHECKING:
    from onnx import NodeProto

OPSET = 17


class Builder:
    """Nodes and constants of a graph in the making."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str] | int = 1, **attributes: Any
    ) -> list[str]:
        from onnx import helper

        if isinstance(outputs, int):
            outputs = [f"n{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), **attributes))
        return list(outputs)

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        array = np.asarray(values, dtype)
        name = f"c_{array.dtype}_{'x'.join(map(str, array.shape))}_{array.tobytes().hex()}"
        self.constants[name] = array
        return name

    def operand(self, value: Any) -> str:
        """A tensor's name, or a number as a constant."""
        return value.name if isinstance(value, Named) else self.constant(value, np.float32)

    def add(self, step: Step) -> None:
        """The nodes of one step."""
        name = step.operation.removesuffix(".default")
        if name not in OPERATIONS:
            raise UraenasError(f"{step.operation} is not among the operations that can be exported")
        OPERATIONS[name](self, step)


Maker = Callable[[Builder, Step], None]


def _same(kind: str, **attributes: Any) -> Maker:
    """An operation of the tensors alone."""

    def make(build: Builder, step: Step) -> None:
        build.node(kind, [step.arguments[0].name], step.results, **attributes)

    return make


def _binary(kind: str) -> Maker:
    def make(build: Builder, step: Step) -> None:
        first, second, *_ = step.arguments
        if step.options.get("alpha", 1) != 1:
            raise UraenasError(f"{step.operation} with a factor cannot be exported")
        build.node(kind, [build.operand(first), build.operand(second)], step.results)

    return make


def _reduced(kind: str, axes_as_input: bool = False) -> Maker:
    """A reduction over some dimensions."""

    def make(build: Builder, step: Step) -> None:
        x, axes, *rest = step.arguments
        axes = [axes] if isinstance(axes, int) else list(axes)
        keep = {"keepdims": int(bool(rest and rest[0]))}
        if axes_as_input:
            build.node(kind, [x.name, build.constant(axes)], step.results, **keep)
        else:
            build.node(kind, [x.name], step.results, axes=axes, **keep)

    return make


def _convolution(build: Builder, step: Step) -> None:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = step.arguments
    if transposed:
        raise UraenasError("a transposed convolution cannot be exported")
    inputs = [x.name, weight.name, *([bias.name] if bias is not None else [])]
    pads = [*padding, *padding]
    build.node(
        "Conv", inputs, step.results, strides=list(stride), pads=pads, dilations=list(dilation), group=groups
    )


def _average_pool(build: Builder, step: Step) -> None:
    x, kernel, *rest = step.arguments
    stride, padding, ceil, counted, *_ = [*rest, None, None, None, None]
    padding = list(padding or [0, 0])
    padding = padding * 2 if len(padding) == 1 else padding
    build.node(
        "AveragePool",
        [x.name],
        step.results,
        kernel_shape=list(kernel) * (2 // len(kernel)),
        strides=list(stride or kernel) * (2 // len(stride or kernel)),
        pads=[*padding, *padding],
        ceil_mode=int(bool(ceil)),
        count_include_pad=int(counted is None or counted),
    )


def _batch_norm(build: Builder, step: Step) -> None:
    x, *vectors, training, _, epsilon = step.arguments
    if training:
        raise UraenasError("a norm of the batch's own statistics cannot be exported")
    build.node(
        "BatchNormalization", [x.name, *(one.name for one in vectors)], step.results[:1], epsilon=epsilon
    )


def _linear(build: Builder, step: Step) -> None:
    bias, x, weight = step.arguments
    build.node("Gemm", [x.name, weight.name, bias.name], step.results)


def _split(build: Builder, step: Step) -> None:
    x, _, *rest = step.arguments
    axis = rest[0] if rest else 0
    if axis == 0:  # equal numbers of images, however many there are
        build.node("Split", [x.name], step.results, axis=axis)
        return
    sizes = [one.shape[axis] for one in step.sample]
    build.node("Split", [x.name, build.constant(sizes)], step.results, axis=axis)


def _concatenated(build: Builder, step: Step) -> None:
    parts, *rest = step.arguments
    build.node("Concat", [one.name for one in parts], step.results, axis=rest[0] if rest else 0)


def _stacked(build: Builder, step: Step) -> None:
    parts, *rest = step.arguments
    axis = rest[0] if rest else 0
    raised = [build.node("Unsqueeze", [one.name, build.constant([axis])])[0] for one in parts]
    build.node("Concat", raised, step.results, axis=axis)


def _variance_and_mean(build: Builder, step: Step) -> None:
    """The variance, and the mean where it is a result, too."""
    x, axes, *_ = step.arguments
    if step.options.get("correction") != 0 or step.options.get("keepdim"):
        raise UraenasError("a variance with a correction cannot be exported")
    (mean,) = build.node("ReduceMean", [x.name], axes=list(axes), keepdims=1)
    (apart,) = build.node("Sub", [x.name, mean])
    (square,) = build.node("Mul", [apart, apart])
    build.node("ReduceMean", [square], step.results[:1], axes=list(axes), keepdims=0)
    if len(step.results) > 1:
        build.node("Squeeze", [mean, build.constant(list(axes))], step.results[1:])


def _smallest(build: Builder, step: Step) -> None:
    """The k-th smallest value; its place is not used."""
    x, count, axis, *_ = step.arguments
    values, _ = build.node("TopK", [x.name, build.constant([count])], 2, axis=axis, largest=0)
    last = build.constant(count - 1)
    build.node("Gather", [values, last], step.results[:1], axis=axis)


def _selected(build: Builder, step: Step) -> None:
    x, axis, place = step.arguments
    build.node("Gather", [x.name, build.constant(place)], step.results, axis=axis)


def _gated(build: Builder, step: Step) -> None:
    """x · sigmoid(x)."""
    (gate,) = build.node("Sigmoid", [step.arguments[0].name])
    build.node("Mul", [step.arguments[0].name, gate], step.results)


def _rows(build: Builder, step: Step) -> None:
    """Images as rows."""
    if step.sample[0].ndim != 2:
        raise UraenasError(f"a view of the shape {tuple(step.sample[0].shape)} cannot be exported")
    build.node("Flatten", [step.arguments[0].name], step.results, axis=1)


def _unsqueezed(build: Builder, step: Step) -> None:
    x, axis = step.arguments
    build.node("Unsqueeze", [x.name, build.constant([axis])], step.results)


def _permuted(build: Builder, step: Step) -> None:
    x, order = step.arguments
    build.node("Transpose", [x.name], step.results, perm=list(order))


def _cast(build: Builder, step: Step) -> None:
    from onnx import TensorProto

    kinds = {torch.float32: TensorProto.FLOAT, torch.bool: TensorProto.BOOL, torch.int64: TensorProto.INT64}
    build.node("Cast", [step.arguments[0].name], step.results, to=kinds[step.sample[0].dtype])


def _softmax(kind: str) -> Maker:
    def make(build: Builder, step: Step) -> None:
        x, axis, _ = step.arguments
        build.node(kind, [x.name], step.results, axis=axis)

    return make


OPERATIONS: dict[str, Maker] = {
    "aten.convolution": _convolution,
    "aten.native_batch_norm": _batch_norm,
    "aten.avg_pool2d": _average_pool,
    "aten.addmm": _linear,
    "aten.mm": _binary("MatMul"),
    "aten.relu": _same("Relu"),
    "aten.silu": _gated,
    "aten.tanh": _same("Tanh"),
    "aten.softplus": _same("Softplus"),
    "aten.sqrt": _same("Sqrt"),
    "aten.abs": _same("Abs"),
    "aten.exp": _same("Exp"),
    "aten.log": _same("Log"),
    "aten.neg": _same("Neg"),
    "aten.clone": _same("Identity"),
    "aten.detach": _same("Identity"),
    "aten.alias": _same("Identity"),
    "aten._to_copy": _cast,
    "aten.add.Tensor": _binary("Add"),
    "aten.sub.Tensor": _binary("Sub"),
    "aten.mul.Tensor": _binary("Mul"),
    "aten.div.Tensor": _binary("Div"),
    "aten.pow.Tensor_Scalar": _binary("Pow"),
    "aten.ge.Tensor": _binary("GreaterOrEqual"),
    "aten.le.Tensor": _binary("LessOrEqual"),
    "aten.gt.Tensor": _binary("Greater"),
    "aten.ge.Scalar": _binary("GreaterOrEqual"),
    "aten.le.Scalar": _binary("LessOrEqual"),
    "aten.bitwise_or.Tensor": _binary("Or"),
    "aten.bitwise_not": _same("Not"),
    "aten.mean.dim": _reduced("ReduceMean"),
    "aten.sum.dim_IntList": _reduced("ReduceSum", axes_as_input=True),
    "aten.amax": _reduced("ReduceMax"),
    "aten.amin": _reduced("ReduceMin"),
    "aten.logsumexp": _reduced("ReduceLogSumExp"),
    "aten.var.correction": _variance_and_mean,
    "aten.var_mean.correction": _variance_and_mean,
    "aten.kthvalue": _smallest,
    "aten.select.int": _selected,
    "aten.view": _rows,
    "aten._log_softmax": _softmax("LogSoftmax"),
    "aten._softmax": _softmax("Softmax"),
    "aten.split.Tensor": _split,
    "aten.cat": _concatenated,
    "aten.stack": _stacked,
    "aten.unsqueeze": _unsqueezed,
    "aten.permute": _permuted,
}
