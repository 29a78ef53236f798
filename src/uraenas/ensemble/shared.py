"""Several ensembles at once: a member that two of them share is run once."""

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from uraenas.engine import Engine
from uraenas.ensemble.ensemble import Ensemble
from uraenas.ensemble.member import Member
from uraenas.ensemble.predictor import MembersPredictor


class SharedPredictor:
    """Predicts with several ensembles."""

    def __init__(self, ensembles: Mapping[str, Ensemble], engine: Engine) -> None:
        self.ensembles, self.engine = ensembles, engine
        self.distinct: dict[str, Member] = {}
        self.names = {name: [m.identity for m in ensemble.members] for name, ensemble in ensembles.items()}
        for name, ensemble in ensembles.items():
            self.distinct |= dict(zip(self.names[name], ensemble.members, strict=True))
        self.predictor: MembersPredictor | None = None

    def __call__(self, images: np.ndarray) -> dict[str, Tensor]:
        """Log-probabilities [M, N, K] by ensemble; the first call puts the members on the device."""
        if self.predictor is None:
            first = next(iter(self.ensembles.values()))
            self.predictor = MembersPredictor(
                list(self.distinct.values()), first.space, first.normalisation, self.engine
            )
        log_p = self.predictor(images)
        place = {name: position for position, name in enumerate(self.distinct)}
        return {name: log_p[[place[one] for one in members]] for name, members in self.names.items()}
