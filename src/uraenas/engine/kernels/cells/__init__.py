"""Stacks of members and supernets of cell spaces on own GPU kernels (Triton). README.md explains the hard parts."""

from uraenas.engine.kernels.cells.fits import why_not
from uraenas.engine.kernels.cells.prediction import KernelPredictor as Predictor
from uraenas.engine.kernels.cells.training import KernelGradients as Gradients
from uraenas.engine.kernels.cells.training import KernelSearchGradients as SearchGradients

__all__ = ["Gradients", "Predictor", "SearchGradients", "why_not"]
