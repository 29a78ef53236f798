"""Joint ensembles over network architectures and weights.

The names below are the public ones; everything else may change. Each is imported when it is first asked for: PyTorch
takes seconds to import, and `uraenas --help`, which imports this package too, should not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from uraenas.versions import version_of

__version__ = version_of("uraenas")

__all__ = [
    "ArchitectureDistribution",
    "Config",
    "Dataset",
    "Ensemble",
    "Genotype",
    "LabelledImages",
    "Member",
    "Run",
    "Skeleton",
    "Stack",
    "Supernet",
    "UncertaintyBySource",
    "UraeNAS",
    "UraenasError",
    "export",
    "load_dataset",
    "uncertainty_by_source",
]

if TYPE_CHECKING:
    from uraenas.architecture import ArchitectureDistribution
    from uraenas.config import Config
    from uraenas.data import Dataset, LabelledImages, load_dataset
    from uraenas.ensemble import Ensemble, Member
    from uraenas.errors import UraenasError
    from uraenas.estimator import UraeNAS
    from uraenas.handover import export
    from uraenas.metrics import UncertaintyBySource, uncertainty_by_source
    from uraenas.networks import Stack, Supernet
    from uraenas.run import Run
    from uraenas.spaces import Genotype, Skeleton
else:
    _HOMES = {
        "ArchitectureDistribution": "architecture",
        "Config": "config",
        "Dataset": "data",
        "Ensemble": "ensemble",
        "Genotype": "spaces",
        "LabelledImages": "data",
        "Member": "ensemble",
        "Run": "run",
        "Skeleton": "spaces",
        "Stack": "networks",
        "Supernet": "networks",
        "UncertaintyBySource": "metrics",
        "UraeNAS": "estimator",
        "UraenasError": "errors",
        "export": "handover",
        "load_dataset": "data",
        "uncertainty_by_source": "metrics",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
