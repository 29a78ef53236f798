"""Distributions over architectures. One is a row of DISTRIBUTIONS; `distribution.py` says what it must offer."""

from typing import Any

from uraenas.architectures.agebo import Agebo
from uraenas.architectures.balenas import Balenas
from uraenas.architectures.bayesian import Bayesian
from uraenas.architectures.bayesnas import BayesNas
from uraenas.architectures.darts import Darts
from uraenas.architectures.dirichlet import Dirichlet
from uraenas.architectures.distribution import (
    ArchitectureDistribution,
    IsValid,
    Mixed,
    Queried,
    adam,
    entropy_of,
    masked,
    option_mask,
)
from uraenas.architectures.evolution import Evolution
from uraenas.architectures.gdas import Gdas
from uraenas.architectures.local_search import LocalSearch
from uraenas.architectures.random_search import RandomSearch
from uraenas.architectures.reinforce import Reinforce
from uraenas.architectures.searched import Searched
from uraenas.architectures.snas import Snas
from uraenas.base.parts import Part

DISTRIBUTIONS: dict[str, Part[Any]] = {
    "dirichlet": Part(Dirichlet),
    "darts": Part(Darts),
    "snas": Part(Snas),
    "gdas": Part(Gdas),
    "balenas": Part(Balenas),
    "bayesnas": Part(BayesNas),
    "random": Part(RandomSearch),
    "evolution": Part(Evolution),
    "reinforce": Part(Reinforce),
    "local": Part(LocalSearch),
    "bayesian": Part(Bayesian),
    "agebo": Part(Agebo),
}

__all__ = [
    "DISTRIBUTIONS",
    "ArchitectureDistribution",
    "Dirichlet",
    "IsValid",
    "Mixed",
    "Queried",
    "Searched",
    "adam",
    "entropy_of",
    "masked",
    "option_mask",
]
