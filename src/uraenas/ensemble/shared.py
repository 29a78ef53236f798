"""Several ensembles at once: a member that two of them share is run once."""

from collections.abc import Iterator, Mapping

import numpy as np
from torch import Tensor

from uraenas.engine import Engine
from uraenas.ensemble.ensemble import Ensemble
from uraenas.ensemble.member import Member
from uraenas.ensemble.predictor import MembersPredictor
from uraenas.spaces import Features


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
        log_p = self._predictor()(images)
        return {name: log_p[places] for name, places in self._places()}

    def look(self, images: np.ndarray) -> dict[str, tuple[Tensor, list[Features]]]:
        """The same, and what each member sees of the images."""
        log_p, features = self._predictor().look(images)
        return {name: (log_p[places], [features[m] for m in places]) for name, places in self._places()}

    def with_members(self, distinct: Mapping[str, Member]) -> "SharedPredictor":
        """The same ensembles with other members, each in the place of the one with that identity."""
        other = SharedPredictor(self.ensembles, self.engine)
        other.distinct = {identity: distinct[identity] for identity in self.distinct}
        return other

    def _predictor(self) -> MembersPredictor:
        if self.predictor is None:
            first = next(iter(self.ensembles.values()))
            members = list(self.distinct.values())
            self.predictor = MembersPredictor(members, first.space, first.normalisation, self.engine)
        return self.predictor

    def _places(self) -> Iterator[tuple[str, list[int]]]:
        """The members of each ensemble, by their place among all that are distinct."""
        place = {name: position for position, name in enumerate(self.distinct)}
        for name, members in self.names.items():
            yield name, [place[one] for one in members]
