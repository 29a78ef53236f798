# ruff: noqa: F401 (the imports are for type checkers; __all__ is made of the table)
"""Metrics as pure functions, calibration, and what an evaluation finds: typed rows.

Each name is imported when it is first asked for: rows can be read without PyTorch, which takes seconds to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uraenas.evaluation.architecture import ArchitectureEffect, effects_of
    from uraenas.evaluation.evaluator import Cell, Evaluator, Judged
    from uraenas.evaluation.measures import MEASURES, Measures, measures_of
    from uraenas.evaluation.metrics import METRICS, SOURCES, UncertaintyBySource, uncertainty_by_source
    from uraenas.evaluation.outcome import Diverged, Metrics
    from uraenas.evaluation.references import CLASSIFIERS, REFERENCES, REGRESSORS, References, unbeaten
    from uraenas.evaluation.row import CALIBRATIONS, Row, mean_names, rows_of_target, sizes_of
    from uraenas.evaluation.separation import Separated, separations
    from uraenas.evaluation.sets import (
        SEED,
        EvaluateSettings,
        EvaluationSet,
        cell_count,
        evaluation_sets,
        require_suite_fits,
        set_names,
    )
    from uraenas.evaluation.summaries import Measured, same_suite, summarise

_HOMES = {
    "ArchitectureEffect": "architecture",
    "CALIBRATIONS": "row",
    "CLASSIFIERS": "references",
    "Cell": "evaluator",
    "Diverged": "outcome",
    "EvaluateSettings": "sets",
    "EvaluationSet": "sets",
    "Evaluator": "evaluator",
    "Judged": "evaluator",
    "MEASURES": "measures",
    "METRICS": "metrics",
    "Measured": "summaries",
    "Measures": "measures",
    "Metrics": "outcome",
    "REFERENCES": "references",
    "REGRESSORS": "references",
    "References": "references",
    "Row": "row",
    "SEED": "sets",
    "SOURCES": "metrics",
    "Separated": "separation",
    "UncertaintyBySource": "metrics",
    "cell_count": "sets",
    "effects_of": "architecture",
    "evaluation_sets": "sets",
    "mean_names": "row",
    "measures_of": "measures",
    "require_suite_fits": "sets",
    "rows_of_target": "row",
    "same_suite": "summaries",
    "separations": "separation",
    "set_names": "sets",
    "sizes_of": "row",
    "summarise": "summaries",
    "unbeaten": "references",
    "uncertainty_by_source": "metrics",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
