"""The ONNX model of an ensemble, in float32, with weights in half precision, or with convolutions in int8."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import nn

from uraenas.base.errors import UraenasError
from uraenas.deploy.network import Output
from uraenas.deploy.operations import OPSET, Builder
from uraenas.deploy.recording import Recording, record

if TYPE_CHECKING:
    from onnx import ModelProto

IR_VERSION = 10  # what runtimes since 2024 read
SAMPLE = 3  # images that operations are noted down on
CALIBRATION_BATCH = 16


class Described(Protocol):
    """A module that says what its outputs are."""

    @property
    def outputs(self) -> list[Output]: ...

    def eval(self) -> nn.Module: ...


def require_onnx() -> None:
    """Say what to install where the packages are missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise UraenasError(
            f"{error.name} is missing; install it with: pip install 'uraenas[onnx]'"
        ) from error


def model_of(network: Described, image: tuple[int, int, int], of_bytes: bool) -> "ModelProto":
    """The network as an ONNX model of one input, `images` [N, H, W, C]."""
    from onnx import TensorProto, checker, helper, numpy_helper

    shape = (SAMPLE, *image)
    images = torch.randint(0, 256, shape, dtype=torch.uint8) if of_bytes else torch.rand(shape)
    found = record(network.eval(), images)
    build = Builder()
    for step in found.steps:
        build.add(step)
    names = [output.name for output in network.outputs]
    for own, name in zip(found.outputs, names, strict=True):
        build.node("Identity", [own], [name])
    kind = TensorProto.UINT8 if of_bytes else TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("images", kind, ["batch", *image])]
    outputs = [
        helper.make_tensor_value_info(name, *form) for name, form in zip(names, _forms(found), strict=True)
    ]
    constants = {name: tensor.numpy() for name, tensor in found.constants.items()} | build.constants
    stored = [numpy_helper.from_array(np.ascontiguousarray(one), name) for name, one in constants.items()]
    graph = helper.make_graph(build.nodes, "uraenas", inputs, outputs, stored)
    for value, output in zip(graph.output, network.outputs, strict=True):
        value.doc_string = output.about
    model = helper.make_model(
        graph,
        producer_name="uraenas",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    checker.check_model(model, full_check=True)
    return model


def _forms(found: Recording) -> Iterator[tuple[int, list[Any]]]:
    """Type and shape of each output."""
    from onnx import TensorProto

    samples = {
        name: tensor for step in found.steps for name, tensor in zip(step.results, step.sample, strict=True)
    }
    for name in found.outputs:
        kind = TensorProto.BOOL if samples[name].dtype == torch.bool else TensorProto.FLOAT
        yield kind, ["batch", *samples[name].shape[1:]]


def halved(model: "ModelProto") -> "ModelProto":
    """The model with the members' weights stored in half precision; a runtime widens them once, when it loads it."""
    from onnx import TensorProto, helper, numpy_helper

    large = [
        one for one in model.graph.initializer if one.data_type == TensorProto.FLOAT and _is_weight(one.name)
    ]
    casts = []
    for one in large:
        values = numpy_helper.to_array(one)
        half = values.astype(np.float16)
        if not np.isfinite(half).all():
            continue  # it cannot hold a value
        casts.append(helper.make_node("Cast", [f"{one.name}.half"], [one.name], to=TensorProto.FLOAT))
        model.graph.initializer.append(numpy_helper.from_array(half, f"{one.name}.half"))
        model.graph.initializer.remove(one)
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def in_int8(model: "ModelProto", images: np.ndarray) -> "ModelProto":
    """The model with convolutions in int8, whose ranges come from these images; everything else stays in float32."""
    import onnx
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter(np.array_split(images, max(1, len(images) // CALIBRATION_BATCH)))

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"images": batch}

    with tempfile.TemporaryDirectory(prefix="uraenas-") as folder:
        source, target = Path(folder) / "float32.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            target,
            Images(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )
        return onnx.load(target)


def describe(model: "ModelProto", facts: Mapping[str, str]) -> None:
    """Write facts into the model's metadata."""
    from onnx import helper

    helper.set_model_props(model, dict(facts))


def _is_weight(name: str) -> bool:
    """Of a member's network, apart from biases and statistics of norms."""
    return name.startswith("members.") and name.endswith("weight")
