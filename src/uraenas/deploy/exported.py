"""An exported ensemble, run by ONNX Runtime."""

import json
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from uraenas.base.cores import available_cores
from uraenas.base.errors import UraenasError
from uraenas.deploy.onnx_file import require_onnx
from uraenas.engine.engine import CACHED_PIXELS

TRIALS = 3  # of each way to spread the work over the cores


class Exported:
    """What the file says of images [N, H, W, C]: one array for each of its outputs, by name."""

    def __init__(self, source: Path | str | bytes, threads: int = 0) -> None:
        """Read a file, or what would stand in one. Without a number of threads the fastest is found by trying."""
        require_onnx()
        self.source = source if isinstance(source, bytes) else str(source)
        self.threads = threads or 1
        self.session = _session(self.source, self.threads)
        if not threads and (cores := available_cores()) > 1:
            self._choose(cores)

    def __call__(self, images: np.ndarray) -> dict[str, np.ndarray]:
        names = [output.name for output in self.session.get_outputs()]
        if images.shape[1:] != self.image or images.ndim != 4:
            form = "×".join(map(str, self.image))
            raise UraenasError(
                f"this model takes images of N×{form} (N×H×W×C), not an array of {images.shape}"
            )
        wanted = np.dtype(np.uint8 if "uint8" in self.session.get_inputs()[0].type else np.float32)
        if images.dtype != wanted:
            raise UraenasError(f"this model takes images of {wanted}, not of {images.dtype}")
        step = max(1, CACHED_PIXELS // (self.image[0] * self.image[1]))
        starts = range(0, max(1, len(images)), step)
        parts = [self.session.run(names, {"images": images[start : start + step]}) for start in starts]
        return {
            name: np.concatenate(found) for name, found in zip(names, zip(*parts, strict=True), strict=True)
        }

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The file's metadata."""
        stored = self.session.get_modelmeta().custom_metadata_map
        return {name: json.loads(text) for name, text in stored.items()}

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.facts["classes"])

    @property
    def image(self) -> tuple[int, ...]:
        """Height, width and channels."""
        return tuple(self.session.get_inputs()[0].shape[1:])

    def _choose(self, cores: int) -> None:
        """Keep the number of threads that is faster on one image."""
        many = _session(self.source, cores)
        of_bytes = "uint8" in self.session.get_inputs()[0].type
        one = {"images": np.zeros((1, *self.image), np.uint8 if of_bytes else np.float32)}
        spent = {count: _seconds(session, one) for count, session in ((1, self.session), (cores, many))}
        if spent[cores] < spent[1]:
            self.threads, self.session = cores, many


def _session(source: str | bytes, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors have no common base
        raise UraenasError(f"no ONNX model that can be run: {' '.join(str(error).split())}") from error


def _seconds(session: Any, images: dict[str, np.ndarray]) -> float:
    """The shortest of some runs, after one that is not counted."""
    session.run(None, images)
    found = []
    for _ in range(TRIALS):
        start = time.perf_counter()
        session.run(None, images)
        found.append(time.perf_counter() - start)
    return min(found)
