"""Distributions over architectures. One is a row of DISTRIBUTIONS; `distribution.py` says what it must offer."""

from typing import Any

from uraenas.architectures.dirichlet import Dirichlet
from uraenas.architectures.distribution import ArchitectureDistribution, adam, masked, option_mask
from uraenas.architectures.searched import Searched
from uraenas.base.parts import Part

DISTRIBUTIONS: dict[str, Part[Any]] = {"dirichlet": Part(Dirichlet)}

__all__ = [
    "DISTRIBUTIONS",
    "ArchitectureDistribution",
    "Dirichlet",
    "Searched",
    "adam",
    "masked",
    "option_mask",
]
