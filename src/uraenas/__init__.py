"""Joint ensembles over network architectures and weights.

The names below are the public ones; everything else may change.
"""

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
