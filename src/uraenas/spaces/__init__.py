"""Which networks exist."""

from uraenas.spaces.nasbench201 import (
    CONVOLUTIONS,
    EDGES,
    GENOTYPES,
    LARGEST,
    NODES,
    OPERATIONS,
    CanonicalForm,
    Genotype,
    all_genotypes,
)
from uraenas.spaces.skeleton import Block, Cost, Skeleton, cost

__all__ = [
    "CONVOLUTIONS",
    "EDGES",
    "GENOTYPES",
    "LARGEST",
    "NODES",
    "OPERATIONS",
    "Block",
    "CanonicalForm",
    "Cost",
    "Genotype",
    "Skeleton",
    "all_genotypes",
    "cost",
]
