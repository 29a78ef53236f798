"""Members made ready to predict: stacked, on the device, in stacks that fit into memory."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.data.loader import Normalisation
from uraenas.engine import Engine, Predictor, Tracer, Wrapping, naming_want_of_memory
from uraenas.ensemble.member import Member
from uraenas.ensemble.networks import draw_of, layout_of, served, weights_of, wide
from uraenas.spaces import Features, Space, Stack

T = TypeVar("T")
R = TypeVar("R")
Group = Sequence[Sequence[int]]  # networks, each as the positions of the members that it serves


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
        def said(group: Group, predict: Predictor, batch: int) -> Tensor:
            batches = [self._log_p(predict(raw), group) for raw in self._batches(images, batch)]
            return torch.cat(batches, dim=1)

        return self._in_order(torch.cat(self._of_each(self.engine.predictor, self.stacks, said)))

    def _look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        seen: list[Features] = [() for _ in self.members]

        def said(group: Group, trace: Tracer, batch: int) -> Tensor:
            found = [trace(raw) for raw in self._batches(images, batch)]
            for network, positions in enumerate(group):
                levels = zip(*(features[network] for _, features in found), strict=True)
                own = tuple(torch.cat(level).cpu() for level in levels)
                for position in positions:
                    seen[position] = own
            return torch.cat([self._log_p(logits, group) for logits, _ in found], dim=1).cpu()

        return self._in_order(torch.cat(self._of_each(self.engine.tracer, self.tracers, said))), seen

    def _of_each(
        self, make: Callable[..., tuple[R, int]], kept: list[tuple[R, int]], use: Callable[[Group, R, int], T]
    ) -> list[T]:
        """What becomes of each group; those that are too many to stay ready are made when their turn comes."""
        groups = list(self._groups())
        if len(groups) > self.engine.most_ready:
            found = []
            for group in groups:
                found.append(use(group, *make(*self._stacked(group))))
                self.engine.release_memory()
            return found
        if not kept:
            kept[:] = [make(*self._stacked(group), share=1 / len(groups)) for group in groups]
        return [use(group, *ready) for group, ready in zip(groups, kept, strict=True)]

    def _in_order(self, found: Tensor) -> Tensor:
        """What members say, from the order of groups to that of members."""
        order = [position for group in self._groups() for positions in group for position in positions]
        if order == sorted(order):
            return found
        return found[torch.tensor(order, device=found.device).argsort()]

    def _batches(self, images: np.ndarray | Tensor, batch: int) -> Iterator[Tensor]:
        """Normalised, on the device."""
        for start in range(0, len(images), batch):
            part = images[start : start + batch]
            raw = part if isinstance(part, Tensor) else torch.from_numpy(np.array(part))  # mapped: read-only
            yield self.normalise(raw.to(self.engine.device))

    def _log_p(self, logits_SNK: Tensor, group: Group) -> Tensor:
        """What the members of a group say [M, N, K], from the numbers that their networks give."""
        logits = logits_SNK.to(self.engine.dtype)
        if (heads := len(group[0])) > 1:
            logits = logits.unflatten(-1, (heads, -1)).movedim(2, 1).flatten(0, 1)
        return self.target.prediction(logits)

    def _groups(self) -> Iterator[Group]:
        """Networks that run side by side, at most as many as are stacked: they are wrapped alike, and as wide."""
        alike: dict[tuple[str, int], list[list[int]]] = {}
        for positions in served(self.members):
            kind = self.members[positions[0]].kind
            alike.setdefault((str(kind) if kind.forward else "", len(positions)), []).append(positions)
        for networks in alike.values():
            for first in range(0, len(networks), self.size):
                yield networks[first : first + self.size]

    def _stacked(self, group: Group) -> tuple[Stack, Wrapping]:
        served_by = [[self.members[position] for position in positions] for positions in group]
        firsts, where = [members[0] for members in served_by], (self.engine.device, self.engine.dtype)
        forward = firsts[0].kind.forward
        architectures = [member.architecture for member in firsts]
        stack = Stack(architectures, wide(self.space, len(group[0])), layout_of(firsts[0])).to(*where)
        for place, members in enumerate(served_by):
            stack.put(place, weights_of(members, self.space, *where), members[0].statistics)
        drawn = [draw_of(member, self.engine.device) for member in firsts]
        return stack.eval(), Wrapping(forward=forward, draws=drawn)
