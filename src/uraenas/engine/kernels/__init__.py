"""Own GPU kernels (Triton), looked up by space: each space's say themselves whether they fit."""

import importlib
import importlib.util
from typing import Any, Protocol

from uraenas.spaces import CellSpace, Space

KERNELS: dict[type, str] = {CellSpace: "uraenas.engine.kernels.cells"}  # imported only where Triton is


class Kernels(Protocol):
    """What a module of kernels offers. Its classes compute what those of `engine.gradients` do."""

    Gradients: Any
    SearchGradients: Any
    Predictor: Any

    def why_not(self, space: Space) -> str:
        """Why networks of this space do not fit; empty if they do."""


def kernels_for(space: Space) -> tuple[Kernels | None, str]:
    """The kernels for networks of this space, or why there are none."""
    if importlib.util.find_spec("triton") is None:
        return None, "Triton is not installed"
    if type(space) not in KERNELS:
        return None, f"there are none for {space.name}"
    module: Any = importlib.import_module(KERNELS[type(space)])
    why_not = module.why_not(space)
    return (None, why_not) if why_not else (module, "")
