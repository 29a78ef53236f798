# ruff: noqa: F401 (the imports are for type checkers; __all__ is made of the table)
"""Joint ensembles over network architectures and weights.

The names below are the public ones; everything else may change. Each is imported when it is first asked for: PyTorch
takes seconds to import, and `uraenas --help`, which imports this package too, should not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from uraenas.base.versions import version_of

__version__ = version_of("uraenas")

if TYPE_CHECKING:
    from uraenas.architectures import ArchitectureDistribution, Searched
    from uraenas.base.errors import UraenasError
    from uraenas.data import Dataset, LabelledImages, load_dataset
    from uraenas.ensemble import Ensemble, Member
    from uraenas.estimator import UraeNAS, UraeNASClassifier, UraeNASRegressor
    from uraenas.evaluation import UncertaintyBySource, uncertainty_by_source
    from uraenas.run.config import Config
    from uraenas.run.directory import Run
    from uraenas.run.export import export
    from uraenas.spaces import Genotype, Space, Stack, Supernet
    from uraenas.weights import WeightMethod

_HOMES = {
    "ArchitectureDistribution": "architectures",
    "Config": "run.config",
    "Dataset": "data",
    "Ensemble": "ensemble",
    "Genotype": "spaces",
    "LabelledImages": "data",
    "Member": "ensemble",
    "Run": "run.directory",
    "Searched": "architectures",
    "Space": "spaces",
    "Stack": "spaces",
    "Supernet": "spaces",
    "UncertaintyBySource": "evaluation",
    "UraeNAS": "estimator",
    "UraeNASClassifier": "estimator",
    "UraeNASRegressor": "estimator",
    "UraenasError": "base.errors",
    "WeightMethod": "weights",
    "export": "run.export",
    "load_dataset": "data",
    "uncertainty_by_source": "evaluation",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
