"""Distributions over genotypes."""

from uraenas.architecture.dirichlet import ArchitectureDistribution, concentration_of, uniform

__all__ = ["ArchitectureDistribution", "concentration_of", "uniform"]
