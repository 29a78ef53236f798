"""Ways to learn or draw weights. One is a row of WEIGHTS; `method.py` says what it must offer."""

from typing import Any

from uraenas.base.parts import Part
from uraenas.weights.adam import Adam
from uraenas.weights.cycle import Cycle
from uraenas.weights.dropconnect import DropConnect
from uraenas.weights.dropout import Dropout
from uraenas.weights.fge import FastGeometric
from uraenas.weights.heads import Heads
from uraenas.weights.langevin import Langevin
from uraenas.weights.laplace import Laplace
from uraenas.weights.method import (
    UNCHANGED,
    Candidate,
    Changes,
    Fit,
    Seen,
    Step,
    WeightMethod,
    as_they_are,
    passes,
    prior_decay,
)
from uraenas.weights.mimo import Mimo
from uraenas.weights.point import Point
from uraenas.weights.rank_one import BatchEnsemble, RankOne
from uraenas.weights.sparse import Sequential, SpikeAndSlab
from uraenas.weights.swag import Swag
from uraenas.weights.swapout import StochasticDepth, Swapout
from uraenas.weights.variational import MeanField

_SAMPLES: dict[str, Any] = {"means": False, "mean_of": 0}
WEIGHTS: dict[str, Part[Any]] = {
    "point": Part(Point),
    "adam": Part(Adam),
    "sghmc": Part(Langevin, about="Samples of cyclical Langevin dynamics with momentum.", **_SAMPLES),
    "sgld": Part(Langevin, about="Samples of cyclical Langevin dynamics.", momentum=0.0, **_SAMPLES),
    "snapshot": Part(
        Langevin, about="The same cycles without noise: the control.", temperature=0.0, **_SAMPLES
    ),
    "swa": Part(
        Langevin, about="SWA means: of the samples of each cycle, the mean of the weights.", means=True
    ),
    "dropout": Part(Dropout),
    "dropconnect": Part(DropConnect),
    "swapout": Part(Swapout),
    "stochastic_depth": Part(StochasticDepth),
    "swag": Part(Swag, floor=0.0),
    "fge": Part(FastGeometric),
    "laplace": Part(Laplace),
    "batch_ensemble": Part(BatchEnsemble),
    "rank_one": Part(RankOne),
    "mimo": Part(Mimo),
    "heads": Part(Heads),
    "variational": Part(MeanField),
    "ssig": Part(SpikeAndSlab),
    "sebays": Part(Sequential),
}

__all__ = [
    "UNCHANGED",
    "WEIGHTS",
    "Candidate",
    "Changes",
    "Cycle",
    "Fit",
    "Langevin",
    "Point",
    "Seen",
    "Step",
    "WeightMethod",
    "as_they_are",
    "passes",
    "prior_decay",
]
