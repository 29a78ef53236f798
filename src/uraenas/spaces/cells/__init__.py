"""Cell spaces, NAS-Bench-201 among them."""

from uraenas.spaces.cells.genotype import CanonicalForm, Genotype
from uraenas.spaces.cells.operations import CONVOLUTIONS, NASBENCH201, Cell, edges
from uraenas.spaces.cells.skeleton import Block, Skeleton
from uraenas.spaces.cells.space import CellSpace

__all__ = [
    "CONVOLUTIONS",
    "NASBENCH201",
    "Block",
    "CanonicalForm",
    "Cell",
    "CellSpace",
    "Genotype",
    "Skeleton",
    "edges",
]
