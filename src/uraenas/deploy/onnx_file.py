"""An ONNX model with weights in half precision, or with convolutions in int8, and what it says of itself."""

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnx import ModelProto

CALIBRATION_BATCH = 16


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
        with _without_advice():
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


@contextmanager
def _without_advice() -> Iterator[None]:
    """ONNX Runtime's to those who quantise by hand would be logged for users who do not."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def describe(model: "ModelProto", facts: Mapping[str, str]) -> None:
    """Write facts into the model's metadata."""
    from onnx import helper

    helper.set_model_props(model, dict(facts))


def _is_weight(name: str) -> bool:
    """Of a member's network, apart from biases and statistics of norms."""
    return "members." in name and name.endswith("weight")
