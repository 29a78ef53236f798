"""What the server says of images: a prediction with its set, uncertainty by source, and the members' votes."""

import base64
import binascii
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.pictures import MOST_PIXELS, picture_of
from uraenas.deploy.page import page
from uraenas.deploy.serving.limits import Refused
from uraenas.deploy.serving.parsing import LIST, VALUE, parsed
from uraenas.deploy.serving.served import FLAG, NUMBER, TEXT, Output, require_number
from uraenas.ensemble import Ensemble
from uraenas.ensemble.predict import Rule, rows_from
from uraenas.evaluation.metrics import SOURCES

OF_BYTES, OF_FLOATS = ("UINT8",), ("FP32", "FP64")  # datatypes of tensors


class Model:
    """One method's ensemble of images, and the rule by which it abstains."""

    per_image = 1

    def __init__(self, name: str, ensemble: Ensemble, rule: Rule) -> None:
        self.name, self.ensemble, self.rule = name, ensemble, rule
        shape = ensemble.space.shape
        self.image = (shape.height, shape.width, shape.channels)

    def __call__(self, items: list[np.ndarray]) -> list[dict[str, Any]]:
        log_p, p_values = self.ensemble.look(np.stack(items))
        rows = rows_from(self.ensemble, log_p, p_values, self.rule)
        chosen = log_p.argmax(dim=2).T.tolist()
        return [
            {**row, "votes": dict(Counter(self.ensemble.classes[k] for k in votes).most_common())}
            if row
            else {}
            for row, votes in zip(rows, chosen, strict=True)
        ]

    def read(self, body: bytes) -> tuple[np.ndarray, str]:
        """An image file's pixels as the ensemble takes them, and a note on what was done to it."""
        height, width, channels = self.image
        try:
            picture = picture_of(body, (height, width))
            return self._in_units(picture.with_channels(channels)), picture.note_in(channels)
        except UraenasError as error:
            raise Refused(422, str(error)) from error

    def request(self, body: bytes, kind: str, most: int) -> tuple[list[np.ndarray], list[str]]:
        """One image as the body, or several as base64 in JSON: {"images": […]}."""
        is_json = kind.startswith("application/json") or body.lstrip()[:1] == b"{"  # as no image begins
        files = _decoded(parsed(body, self.room(most)), most) if is_json else [body]
        images, notes = [], []
        for number, file in enumerate(files, start=1):
            try:
                image, note = self.read(file)
            except Refused as refused:
                which = f"image {number} of {len(files)}: " if len(files) > 1 else ""
                raise Refused(refused.status, f"{which}{refused.why}") from refused
            images.append(image)
            notes.append(note)
        return images, notes

    def room(self, items: int) -> int:
        """Of numbers in lists by row and pixel."""
        height, width, channels = self.image
        return items * height * (width * (channels * VALUE + LIST) + LIST)

    def about(self) -> dict[str, Any]:
        rule, threshold = self.rule, self.rule.threshold
        return {
            "model": self.name,
            "classes": self.ensemble.classes,
            "image": self.image,
            "pixels": MOST_PIXELS,
            "members": len(self.ensemble),
            "risk": threshold.risk,
            "certainty": threshold.certainty,
            "confidence": threshold.confidence,
            "coverage": rule.coverage,
            "foreign": rule.share,
            "undefined": self.ensemble.undefined,
        }

    def page(self) -> str:
        return page("serving/server.js")

    @property
    def inputs(self) -> list[dict[str, Any]]:
        kind = "UINT8" if self.ensemble.of_bytes else "FP32"
        return [{"name": "images", "datatype": kind, "shape": [-1, *self.image]}]

    @property
    def outputs(self) -> list[Output]:
        classes = self.ensemble.classes
        return [
            Output("label", "BYTES"),
            Output("probabilities", "FP32", classes),
            Output("prediction_set", "BOOL", classes, {"coverage": self.rule.coverage}),
            Output("abstain", "BOOL"),
            *(Output(name, "FP32") for name in (*SOURCES, "p_value")),
            Output("foreign", "BOOL"),
        ]

    @property
    def bodies(self) -> dict[str, Any]:
        several = {"type": "object", "properties": {"images": {"type": "array", "items": TEXT}}}
        return {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": several},
        }

    @property
    def schema(self) -> dict[str, Any]:
        table = {"type": "object", "additionalProperties": NUMBER}
        properties: dict[str, Any] = dict.fromkeys(("label", "reason", "note"), TEXT)
        properties |= dict.fromkeys(("foreign", "abstain"), FLAG)
        properties |= dict.fromkeys(("probability", "p_value", *SOURCES), NUMBER)
        properties |= {"probabilities": table, "votes": table}
        return {
            "type": "object",
            "properties": {**properties, "prediction_set": {"type": "array", "items": TEXT}},
        }

    def tensors(self, inputs: list[Any], most: int) -> list[np.ndarray]:
        if len(inputs) != 1 or not isinstance(inputs[0], dict):
            raise Refused(400, "expected one input, called images")
        return list(self._tensor(inputs[0], most))

    def _tensor(self, given: Mapping[str, Any], most_images: int) -> np.ndarray:
        shape, kind, data = given.get("shape"), given.get("datatype"), given.get("data")
        if given.get("name") != "images":
            raise Refused(400, "expected one input, called images")
        kinds, most = (OF_BYTES, 255.0) if self.ensemble.of_bytes else (OF_FLOATS, 1.0)
        # Whole numbers are none of floats: a dark image of bytes would pass for black and white.
        if kind not in kinds:
            raise Refused(400, f"values lie between 0 and {most:g}; datatype must be {' or '.join(kinds)}")
        if not isinstance(shape, list) or not _are_sizes(shape) or tuple(shape[1:]) != self.image:
            raise Refused(400, f"shape must be [N, {', '.join(map(str, self.image))}]")
        if shape[0] > most_images:
            raise Refused(400, f"a request has at most {most_images} images, not {shape[0]}")
        try:
            values = np.asarray(data)
            if values.dtype.kind not in "iuf":  # true would be 1, and texts would be read
                raise ValueError
            values = values.reshape(shape).astype(np.float64)
        except (ValueError, TypeError, OverflowError) as error:
            raise Refused(400, "data are not the numbers of this shape") from error
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > most:
            raise Refused(400, f"values must lie between 0 and {most:g}")
        if self.ensemble.of_bytes and (values != np.round(values)).any():
            raise Refused(400, "values must be whole numbers from 0 to 255")
        return values.astype(np.uint8 if self.ensemble.of_bytes else np.float32)

    def _in_units(self, pixels: np.ndarray) -> np.ndarray:
        return pixels if self.ensemble.of_bytes else pixels.astype(np.float32) / np.float32(255)


def _decoded(given: Any, most: int) -> list[bytes]:
    images = given.get("images") if isinstance(given, dict) else None
    if not isinstance(images, list) or not all(isinstance(one, str) for one in images):
        raise Refused(400, 'expected {"images": [base64, …]}')
    require_number(len(images), most, "images")
    try:
        return [base64.b64decode(one, validate=True) for one in images]
    except (binascii.Error, ValueError) as error:
        raise Refused(400, "an image is not base64") from error


def _are_sizes(shape: list[Any]) -> bool:
    return len(shape) == 4 and all(type(one) is int and one > 0 for one in shape)
