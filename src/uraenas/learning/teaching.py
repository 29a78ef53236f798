"""A teacher: an ensemble whose predictions networks learn in place of labels."""

from torch import Tensor

from uraenas.engine import Engine
from uraenas.ensemble import Ensemble, MembersPredictor


class EnsembleTeacher:
    """Raw images [N, H, W, C] on the device → class probabilities [T, N, K] of the ensemble's T members, there.

    They are as the members say them. A temperature belongs to the mean and to held-out images; the network that learns
    gets one of its own.
    """

    def __init__(self, ensemble: Ensemble, engine: Engine) -> None:
        self.predictor = MembersPredictor(ensemble.members, ensemble.space, ensemble.normalisation, engine)

    def __call__(self, images: Tensor) -> Tensor:
        return self.predictor.on_device(images).exp()
