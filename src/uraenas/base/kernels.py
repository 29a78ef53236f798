"""Modules of GPU kernels (Triton), imported only where Triton is installed."""

import importlib
import importlib.util
from functools import cache
from typing import Any


@cache
def kernels_in(module: str) -> Any:
    """The module, or None without Triton: then PyTorch's operations do the same, more slowly."""
    return importlib.import_module(module) if importlib.util.find_spec("triton") else None
