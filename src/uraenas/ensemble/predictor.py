"""Members made ready to predict: stacked, on the device, in stacks that fit into memory."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

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


class Predicting(Protocol):
    """What makes an ensemble's predictions, of raw images [N, H, W, C]."""

    def __call__(self, images: np.ndarray) -> Tensor:
        """Log-probabilities [M, N, K], on the CPU."""

    def look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        """The same, and what each member sees of the images."""


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
        return self._with_what_fits(lambda: self._predict(images), images).cpu()

    def on_device(self, images: Tensor) -> Tensor:
        """The same of images that lie on the device, and there they stay."""
        return self._with_what_fits(lambda: self._predict(images), images)

    def look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        """As in a call, and what each member sees of the images."""
        return self._with_what_fits(lambda: self._look(images), images)

    @torch.no_grad()
    def _with_what_fits(self, work: Callable[[], T], images: np.ndarray | Tensor) -> T:
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

    def _predict(self, images: np.ndarray | Tensor) -> Tensor:
        if not self.stacks:
            self.stacks = [self.engine.predictor(*self._stacked(group)) for group in self._groups()]
        parts = []
        for group, (predict, batch) in zip(self._groups(), self.stacks, strict=True):
            batches = [self._log_p(predict(raw), group) for raw in self._batches(images, batch)]
            parts.append(torch.cat(batches, dim=1))
        return torch.cat(parts)

    def _look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        if not self.tracers:
            self.tracers = [self.engine.tracer(*self._stacked(group)) for group in self._groups()]
        parts, seen = [], []
        for group, (trace, batch) in zip(self._groups(), self.tracers, strict=True):
            found = [trace(raw) for raw in self._batches(images, batch)]
            parts.append(torch.cat([self._log_p(logits, group) for logits, _ in found], dim=1).cpu())
            for m in _networks(group)[1]:
                levels = zip(*(features[m] for _, features in found), strict=True)
                seen.append(tuple(torch.cat(level).cpu() for level in levels))
        return torch.cat(parts), seen

    def _batches(self, images: np.ndarray | Tensor, batch: int) -> Iterator[Tensor]:
        """Normalised, on the device."""
        for start in range(0, len(images), batch):
            part = images[start : start + batch]
            raw = part if isinstance(part, Tensor) else torch.from_numpy(np.array(part))  # mapped: read-only
            yield self.normalise(raw.to(self.engine.device))

    def _log_p(self, logits_SNK: Tensor, group: Sequence[Member]) -> Tensor:
        """What the members of a group say [M, N, K], from the numbers that their networks give."""
        logits = logits_SNK.to(self.engine.dtype)
        if heads := len(group[0].kind.heads):
            places, apart = _networks(group)[1], logits.unflatten(-1, (heads, -1))
            pairs = zip(places, group, strict=True)
            logits = torch.stack([apart[place, :, member.draw % heads] for place, member in pairs])
        return self.target.prediction(logits)

    def _groups(self) -> Iterator[Sequence[Member]]:
        """Members of one kind of weights that stand together, at most as many as are stacked."""
        for _, alike in itertools.groupby(
            self.members, key=lambda member: (member.kind.forward or member.kind.heads) and member.kind
        ):
            of_kind = list(alike)
            for first in range(0, len(of_kind), self.size):
                yield of_kind[first : first + self.size]

    def _stacked(self, group: Sequence[Member]) -> tuple[Stack, Wrapping]:
        group, layout = _networks(group)[0], group[0].kind.layout
        architectures = [member.architecture for member in group]
        stack = Stack(architectures, self.space, layout).to(self.engine.device, self.engine.dtype)
        for place, member in enumerate(group):
            stack.put(place, member.weights, member.statistics)
        wrapping = Wrapping(
            forward=group[0].kind.forward,
            draws=[Draw(draws.at(m.origin.key, m.draw, self.engine.device), m.draw) for m in group],
        )
        return stack.eval(), wrapping


def _networks(group: Sequence[Member]) -> tuple[list[Member], list[int]]:
    """What is run: one member of each network where heads share one, else all; and the place of each member there."""
    if not group[0].kind.heads:
        return list(group), list(range(len(group)))
    found: dict[str, Member] = {}
    for member in group:
        found.setdefault(member.network, member)
    places = {name: place for place, name in enumerate(found)}
    return list(found.values()), [places[member.network] for member in group]
