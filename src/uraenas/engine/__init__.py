"""Every decision about speed; `kernels/` holds our GPU kernels."""

from uraenas.engine.engine import Engine, EngineSettings, Predictor, Tracer
from uraenas.engine.gradients import Gradients, Objective, Penalty, SearchGradients, Wrapping, cross_entropy
from uraenas.engine.memory import is_want_of_memory, naming_want_of_memory

__all__ = [
    "Engine",
    "EngineSettings",
    "Gradients",
    "Objective",
    "Penalty",
    "Predictor",
    "SearchGradients",
    "Tracer",
    "Wrapping",
    "cross_entropy",
    "is_want_of_memory",
    "naming_want_of_memory",
]
