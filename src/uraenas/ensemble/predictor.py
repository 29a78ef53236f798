"""Members made ready to predict: stacked, on the device, in stacks that fit into memory."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.data.loader import Normalisation
from uraenas.engine import Engine, Predictor, Wrapping, naming_want_of_memory
from uraenas.ensemble.member import Member
from uraenas.spaces import Space, Stack


class MembersPredictor:
    """Members made ready to predict: stacked, on the device, in stacks that fit into memory."""

    def __init__(
        self, members: Sequence[Member], space: Space, normalisation: Normalisation, engine: Engine
    ) -> None:
        self.members, self.space, self.engine = members, space, engine
        self.normalise = normalisation.on(engine.device, engine.dtype)
        self.size = engine.stack
        self.stacks: list[tuple[Predictor, int]] = []  # made by the first prediction

    @torch.no_grad()
    def __call__(self, images: np.ndarray) -> Tensor:
        """Log-probabilities [M, N, K] of raw images [N, H, W, C], on the CPU."""
        shape = self.space.shape
        expected = (shape.height, shape.width, shape.channels)
        if images.ndim != 4 or images.shape[1:] != expected:
            raise UraenasError(f"these members take images N×H×W×C with {expected}, not {images.shape}")
        while True:
            try:
                with naming_want_of_memory():
                    return self._predict(images)
            except torch.OutOfMemoryError as error:
                self.size = self.engine.smaller_stack(min(self.size, len(self.members)), error)
                self.stacks = []
            self.engine.release_memory()

    def _predict(self, images: np.ndarray) -> Tensor:
        if not self.stacks:
            self.stacks = [self._stacked(group) for group in self._groups()]
        parts = []
        for predict, batch in self.stacks:
            batches = []
            for start in range(0, len(images), batch):
                raw = torch.from_numpy(np.array(images[start : start + batch]))  # mapped files are read-only
                logits = predict(self.normalise(raw.to(self.engine.device)))
                batches.append(torch.log_softmax(logits.to(self.engine.dtype), dim=-1))
            parts.append(torch.cat(batches, dim=1).cpu())
        return torch.cat(parts)

    def _groups(self) -> Iterator[Sequence[Member]]:
        """Members of one kind of weights that stand together, at most as many as are stacked."""
        for _, alike in itertools.groupby(
            self.members, key=lambda member: member.kind.forward and member.kind
        ):
            of_kind = list(alike)
            for first in range(0, len(of_kind), self.size):
                yield of_kind[first : first + self.size]

    def _stacked(self, group: Sequence[Member]) -> tuple[Predictor, int]:
        stack = Stack([m.architecture for m in group], self.space).to(self.engine.device, self.engine.dtype)
        for place, member in enumerate(group):
            stack.put(place, member.weights, member.statistics)
        wrapping = Wrapping(
            forward=group[0].kind.forward,
            keys=[torch.tensor(m.origin.key).to(self.engine.device) for m in group],
        )
        return self.engine.predictor(stack.eval(), wrapping)
