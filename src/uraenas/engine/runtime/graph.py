"""A module as an ONNX model, in float32."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import nn

from uraenas.base.errors import UraenasError
from uraenas.engine.runtime.operations import OPSET, Builder
from uraenas.engine.runtime.recording import Recording, record
from uraenas.engine.runtime.unmerged import unmerged

if TYPE_CHECKING:
    from onnx import ModelProto

IR_VERSION = 10  # what runtimes since 2024 read
SAMPLE = 3  # images that operations are noted down on


@dataclass(frozen=True)
class Output:
    """One thing a module says of each image."""

    name: str
    about: str


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


def model_of(
    network: Described,
    image: tuple[int, int, int],
    of_bytes: bool,
    merged: bool = False,
    images: int = SAMPLE,
) -> "ModelProto":
    """The network as an ONNX model of one input, `images` [N, H, W, C]; merged convolutions stay so where wanted."""
    from onnx import TensorProto, checker, helper, numpy_helper

    shape = (images, *image)
    sample = torch.randint(0, 256, shape, dtype=torch.uint8) if of_bytes else torch.rand(shape)
    found = record(network.eval(), sample)
    found = found if merged else unmerged(found)
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
    stored = [numpy_helper.from_array(np.asarray(one, order="C"), name) for name, one in constants.items()]
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
