"""Metrics as pure functions, calibration, and what an evaluation finds: typed rows."""

from uraenas.evaluation.architecture import ArchitectureEffect, effects_of
from uraenas.evaluation.evaluator import Cell, Evaluator, Judged
from uraenas.evaluation.measures import MEASURES, Measures, measures_of
from uraenas.evaluation.metrics import METRICS, SOURCES, UncertaintyBySource, uncertainty_by_source
from uraenas.evaluation.outcome import Diverged, Metrics
from uraenas.evaluation.references import REFERENCES, References, unbeaten
from uraenas.evaluation.row import CALIBRATIONS, Row, mean_names, sizes_of
from uraenas.evaluation.separation import Separated, separations
from uraenas.evaluation.sets import (
    SEED,
    EvaluateSettings,
    EvaluationSet,
    cell_count,
    evaluation_sets,
    require_suite_fits,
)
from uraenas.evaluation.summarise import Measured, same_suite, summarise

__all__ = [
    "CALIBRATIONS",
    "MEASURES",
    "METRICS",
    "REFERENCES",
    "SEED",
    "SOURCES",
    "ArchitectureEffect",
    "Cell",
    "Diverged",
    "EvaluateSettings",
    "EvaluationSet",
    "Evaluator",
    "Judged",
    "Measured",
    "Measures",
    "Metrics",
    "References",
    "Row",
    "Separated",
    "UncertaintyBySource",
    "cell_count",
    "effects_of",
    "evaluation_sets",
    "mean_names",
    "measures_of",
    "require_suite_fits",
    "same_suite",
    "separations",
    "sizes_of",
    "summarise",
    "unbeaten",
    "uncertainty_by_source",
]
