"""Multilayer perceptrons with skips, for tables."""

from uraenas.spaces.perceptrons.space import PerceptronSpace
from uraenas.spaces.perceptrons.wiring import Perceptron

__all__ = ["Perceptron", "PerceptronSpace"]
