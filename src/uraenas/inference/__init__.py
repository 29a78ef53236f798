"""How weights are drawn or estimated: update rules and the cycle that sets their step size."""

from uraenas.inference import langevin
from uraenas.inference.rule import SAMPLERS, WeightRule
from uraenas.inference.schedule import Cycle

__all__ = ["SAMPLERS", "Cycle", "WeightRule", "langevin"]
