"""An ONNX model that is run: one image on as many threads as are fastest, many in parts side by side."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from uraenas.base.cores import available_cores
from uraenas.base.errors import UraenasError
from uraenas.engine.runtime.graph import require_onnx

TRIALS = 3  # of each way to spread the work over the cores
PART_PIXELS = 1 << 13  # that one thread is given at a time; twice and four times as many are no faster


class Session:
    """What a model says of images [N, H, W, C]: one array for each of its outputs, by name."""

    def __init__(self, source: str | bytes, threads: int) -> None:
        """Of a file, or what would stand in one. With 0 threads the fastest number for one image is found."""
        require_onnx()
        self.cores = threads or available_cores()
        self.alone = self.together = _session(source, 1)  # on one thread, and on several
        self.threads = 1
        if self.cores > 1 and self.takes_images:
            several = _session(source, self.cores)
            if threads or self._seconds(several) < self._seconds(self.alone):
                self.threads, self.together = self.cores, several
        self.names = [output.name for output in self.alone.get_outputs()]
        self._pool: ThreadPoolExecutor | None = None

    def __call__(self, images: np.ndarray) -> dict[str, np.ndarray]:
        step = max(1, PART_PIXELS // (self.image[0] * self.image[1]))
        parts = [images[start : start + step] for start in range(0, max(1, len(images)), step)]
        found = [self._run(self.together, parts[0])] if len(parts) == 1 else self._side_by_side(parts)
        return {
            name: np.concatenate(own) for name, own in zip(self.names, zip(*found, strict=True), strict=True)
        }

    def of(self, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What a model of other inputs says, on one thread."""
        return dict(zip(self.names, self.alone.run(self.names, given), strict=True))

    @property
    def takes_images(self) -> bool:
        """And no table whose only column is called so."""
        return [(one.name, len(one.shape)) for one in self.alone.get_inputs()] == [("images", 4)]

    @cached_property
    def image(self) -> tuple[int, ...]:
        """Height, width and channels."""
        return tuple(self.alone.get_inputs()[0].shape[1:])

    @cached_property
    def dtype(self) -> np.dtype:
        """Of images."""
        return np.dtype(np.uint8 if "uint8" in self.alone.get_inputs()[0].type else np.float32)

    def _side_by_side(self, parts: list[np.ndarray]) -> list[list[np.ndarray]]:
        """Each part on one thread: threads that share an operation wait for each other after each."""
        if self.cores == 1:
            return [self._run(self.alone, part) for part in parts]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.cores, "uraenas")
        return list(self._pool.map(lambda part: self._run(self.alone, part), parts))

    def _run(self, session: Any, images: np.ndarray) -> list[np.ndarray]:
        found: list[np.ndarray] = session.run(self.names, {"images": images})
        return found

    def _seconds(self, session: Any) -> float:
        """The shortest of some runs on one image, after one that is not counted."""
        one = {"images": np.zeros((1, *self.image), self.dtype)}
        session.run(None, one)
        found = []
        for _ in range(TRIALS):
            start = time.perf_counter()
            session.run(None, one)
            found.append(time.perf_counter() - start)
        return min(found)


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
