"""Members made ready to predict: stacked, on the device, in stacks that fit into memory."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data.loader import Normalisation
from uraenas.engine import Engine, Predictor, Tracer, Wrapping, naming_want_of_memory
from uraenas.ensemble.member import Member
from uraenas.spaces import Draw, Features, Space, Stack

T = TypeVar("T")


class MembersPredictor:
    """Members made ready to predict: stacked, on the device, in stacks that fit into memory."""

    def __init__(
        self, members: Sequence[Member], space: Space, normalisation: Normalisation, engine: Engine
    ) -> None:
        self.members, self.space, self.engine = members, space, engine
        self.normalise = normalisation.on(engine.device, engine.dtype)
        self.target = normalisation.target
        self.size = engine.stack
        self.stacks: list[tuple[Predictor, int]] = []  # made by the first prediction
        self.tracers: list[tuple[Tracer, int]] = []  # made by the first look

    def __call__(self, images: np.ndarray) -> Tensor:
        """Log-probabilities [M, N, K] of raw images [N, H, W, C], on the CPU."""
        return self._with_what_fits(lambda: self._predict(images), images)

    def look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        """The same, and what each member sees of the images."""
        return self._with_what_fits(lambda: self._look(images), images)

    @torch.no_grad()
    def _with_what_fits(self, work: Callable[[], T], images: np.ndarray) -> T:
        shape = self.space.shape
        expected = (shape.height, shape.width, shape.channels)
        if images.ndim != 4 or images.shape[1:] != expected:
            raise UraenasError(f"these members take images N×H×W×C with {expected}, not {images.shape}")
        while True:
            try:
                with naming_want_of_memory():
                    return work()
            except torch.OutOfMemoryError as error:
                self.size = self.engine.smaller_stack(min(self.size, len(self.members)), error)
                self.stacks, self.tracers = [], []
            self.engine.release_memory()

    def _predict(self, images: np.ndarray) -> Tensor:
        if not self.stacks:
            self.stacks = [self.engine.predictor(*self._stacked(group)) for group in self._groups()]
        parts = []
        for predict, batch in self.stacks:
            batches = [self._log_p(predict(raw)) for raw in self._batches(images, batch)]
            parts.append(torch.cat(batches, dim=1).cpu())
        return torch.cat(parts)

    def _look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        if not self.tracers:
            self.tracers = [self.engine.tracer(*self._stacked(group)) for group in self._groups()]
        parts, seen = [], []
        for group, (trace, batch) in zip(self._groups(), self.tracers, strict=True):
            found = [trace(raw) for raw in self._batches(images, batch)]
            parts.append(torch.cat([self._log_p(logits) for logits, _ in found], dim=1).cpu())
            for m in range(len(group)):
                levels = zip(*(features[m] for _, features in found), strict=True)
                seen.append(tuple(torch.cat(level).cpu() for level in levels))
        return torch.cat(parts), seen

    def _batches(self, images: np.ndarray, batch: int) -> Iterator[Tensor]:
        """Normalised, on the device."""
        for start in range(0, len(images), batch):
            raw = torch.from_numpy(np.array(images[start : start + batch]))  # mapped files are read-only
            yield self.normalise(raw.to(self.engine.device))

    def _log_p(self, logits: Tensor) -> Tensor:
        return self.target.prediction(logits.to(self.engine.dtype))

    def _groups(self) -> Iterator[Sequence[Member]]:
        """Members of one kind of weights that stand together, at most as many as are stacked."""
        for _, alike in itertools.groupby(
            self.members, key=lambda member: member.kind.forward and member.kind
        ):
            of_kind = list(alike)
            for first in range(0, len(of_kind), self.size):
                yield of_kind[first : first + self.size]

    def _stacked(self, group: Sequence[Member]) -> tuple[Stack, Wrapping]:
        architectures, layout = [m.architecture for m in group], group[0].kind.layout
        stack = Stack(architectures, self.space, layout).to(self.engine.device, self.engine.dtype)
        for place, member in enumerate(group):
            stack.put(place, member.weights, member.statistics)
        wrapping = Wrapping(
            forward=group[0].kind.forward,
            draws=[Draw(draws.at(m.origin.key, m.draw, self.engine.device), m.draw) for m in group],
        )
        return stack.eval(), wrapping
