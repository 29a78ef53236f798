"""An exported ensemble, run by ONNX Runtime."""

import json
import zipfile
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.data.tables import Columns
from uraenas.deploy.columns import feeds
from uraenas.engine.runtime import Session

FACTS = "facts.json"  # the metadata in a file of `torch.export`


def is_exported(path: Path) -> bool:
    """Whether a file was written by `export`, in any of its formats."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as parts:
            return any(name.endswith(f"/{FACTS}") for name in parts.namelist())
    try:
        stored = Session(str(path), threads=1).alone.get_modelmeta().custom_metadata_map
    except UraenasError:
        return False
    return "uraenas" in stored


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
        return {name: json.loads(text) for name, text in stored.items()}

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
