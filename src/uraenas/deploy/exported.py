"""An exported ensemble, run by ONNX Runtime."""

import json
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.data.tables import Columns
from uraenas.deploy.columns import feeds
from uraenas.engine.runtime import Session
from uraenas.engine.runtime.graph import require_onnx

FACTS = "facts.json"  # the metadata in a file of `torch.export`
MOST_FACTS = 64 << 20  # bytes


def is_exported(path: Path) -> bool:
    """Whether a file was written by `export`, in any of its formats."""
    try:
        return bool(facts_of(path))
    except UraenasError:
        return False


def facts_of(path: Path) -> dict[str, Any]:
    """The metadata of a file that `export` wrote, in any of its formats."""
    is_zip = zipfile.is_zipfile(path)
    if path.suffix == ".onnx" and not is_zip:
        require_onnx()  # to say what it is; without it no other file is taken for one
    try:
        found = _facts_in_zip(path) if is_zip else _facts_in_onnx(path)
        return {"uraenas": found["uraenas"], **found}
    except (UraenasError, ValueError, RecursionError, KeyError, TypeError, OSError, BadZipFile) as error:
        raise UraenasError(f"{path} was not written by `uraenas export`") from error


def _facts_in_zip(path: Path) -> Any:
    """Of a file of `torch.export`."""
    with zipfile.ZipFile(path) as parts:
        (entry,) = [one for one in parts.infolist() if one.filename.endswith(f"/{FACTS}")]
        if entry.file_size > MOST_FACTS:
            raise ValueError(entry.file_size)
        return json.loads(parts.read(entry))


def _facts_in_onnx(path: Path) -> dict[str, Any]:
    stored = Session(str(path), threads=1).alone.get_modelmeta().custom_metadata_map
    return _decoded(stored if "uraenas" in stored else {})


def _decoded(stored: Mapping[str, str]) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in stored.items()}


class Exported:
    """What the file says of images [N, H, W, C], or of rows of a table: one array for each output, by name."""

    def __init__(self, source: Path | str | bytes, threads: int = 0) -> None:
        """Read a file, or what would stand in one. Without a number of threads the fastest is found by trying."""
        self.session = Session(source if isinstance(source, bytes) else str(source), threads)

    def __call__(self, images: Any) -> dict[str, np.ndarray]:
        if self.columns is not None:
            return self.session.of(feeds(self.columns, self.columns.frame(images)))
        is_array = isinstance(images, np.ndarray)
        if not is_array or images.shape[1:] != self.image or len(images) == 0:
            form = "×".join(map(str, self.image))
            found = f"an array of {images.shape}" if is_array else f"a {type(images).__name__}"
            raise UraenasError(f"this model takes images of N×{form} (N×H×W×C), not {found}")
        wanted = self.session.dtype
        if images.dtype != wanted:
            raise UraenasError(f"this model takes images of {wanted}, not of {images.dtype}")
        if wanted == np.float32 and ((images < 0) | (images > 1)).any():
            raise UraenasError("this model takes images with values from 0 to 1")
        return self.session(images)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The file's metadata."""
        stored = self.session.alone.get_modelmeta().custom_metadata_map
        return _decoded(stored)

    @cached_property
    def columns(self) -> Columns | None:
        """Of a table; none where the file takes images."""
        stored = self.session.alone.get_modelmeta().custom_metadata_map
        own = {"columns": json.loads(stored["columns"])} if "columns" in stored else {}
        return Columns.of(Fields("the file", own))

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.facts["classes"])

    @property
    def image(self) -> tuple[int, ...]:
        """Height, width and channels."""
        return self.session.image
