"""ONNX Runtime: a module as a graph of operations, and sessions that run it on a CPU."""

from uraenas.engine.runtime.graph import Described, Output, model_of, require_onnx
from uraenas.engine.runtime.session import Session

__all__ = ["Described", "Output", "Session", "model_of", "require_onnx"]
