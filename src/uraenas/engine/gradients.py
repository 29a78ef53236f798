"""Losses and gradients by PyTorch's own operations: what own kernels are held against, and what runs without them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.data.loader import EpochDraws, Loader
from uraenas.data.targets import CLASSES
from uraenas.engine.workers import Workers
from uraenas.spaces import Draw, Forward, Stack, Supernet, Tensors

# logits [M, N, K], labels [M, N] or class probabilities [M, N, K], weights of the images [M, N] or None → losses [M]
Objective = Callable[[Tensor, Tensor, Tensor | None], Tensor]
# weights by name, how far training has come (0 … 1) → what is added to the loss of one member
Penalty = Callable[[Tensors, Tensor], Tensor]


cross_entropy: Objective = CLASSES.loss


# (draws of an epoch, place in it, number of the step) → losses [M], flat gradient of their sum
Gradients = Callable[[EpochDraws, Tensor, Tensor], tuple[Tensor, Tensor]]


class SearchGradients(Protocol):
    """(loader, draws of an epoch, place in it, θ) → loss, and its slope."""

    def begin_epoch(self) -> None:
        """Forget everything that a resumed search would not know."""

    def of_mixing(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]: ...

    def of_weights(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class Wrapping:
    """What a kind of weights changes about a step: the loss, and what is wrapped around each member's network."""

    objective: Objective | None = None
    forward: Forward | None = None
    draws: Sequence[Draw] = ()  # of the members, for `forward`
    smoothing: Tensor | None = None  # [M], of the labels
    repeats: int = 1  # how often each image stands in a batch
    penalty: Penalty | None = None
    steps: int = 1  # of the whole training, for `penalty`

    @property
    def is_plain(self) -> bool:
        nothing = self.objective is None and self.forward is None and self.penalty is None
        return nothing and self.repeats == 1


class Arithmetic(Protocol):
    """What gradients ask of the engine."""

    dtype: torch.dtype
    workers: Workers | None

    def autocast(self) -> AbstractContextManager: ...


class PlainGradients:
    """Of a stack. On a CPU each member is worked out by itself, side by side, unless its space has batches of them."""

    def __init__(self, stack: Stack, loader: Loader, engine: Arithmetic, wrapping: Wrapping) -> None:
        self.stack, self.loader, self.engine, self.wrapping = stack, loader, engine, wrapping
        self.smoothing = [] if wrapping.smoothing is None else wrapping.smoothing.tolist()

    def __call__(self, drawn: EpochDraws, position: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        images, labels, weights_MN = self._repeated(*self.loader.batch_at(drawn, position))
        stack, workers = self.stack, self.engine.workers
        if workers is None:
            members = range(len(stack))
            return self._of(members, stack.weights, images, labels, weights_MN, step)
        shares = self._shares(workers.count)

        def of_share(number: int) -> tuple[Tensor, Tensor]:
            some = slice(shares[number].start, shares[number].stop)
            importance = None if weights_MN is None else weights_MN[some]
            own = stack.weights_of(shares[number]).detach().requires_grad_()
            return self._of(shares[number], own, images[some], labels[some], importance, step)

        losses, gradients = zip(*workers.each(of_share, range(len(shares))), strict=True)
        return torch.cat(losses), torch.cat(gradients)

    def _shares(self, workers: int) -> list[range]:
        """The members that a CPU works out at once: each by itself, or as many as make one batch for each core."""
        members = len(self.stack)
        size = -(-members // workers) if self.stack.runs_together else 1
        return [range(start, min(start + size, members)) for start in range(0, members, size)]

    def _repeated(
        self, images: Tensor, labels: Tensor, weights_MN: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The batch, one after another as often as it is wanted."""
        times = self.wrapping.repeats
        if times == 1:
            return images, labels, weights_MN
        if weights_MN is not None:
            weights_MN = torch.cat([weights_MN] * times, dim=1)
        return torch.cat([images] * times, dim=1), torch.cat([labels] * times, dim=1), weights_MN

    def _of(
        self,
        members: Sequence[int],
        flat: Tensor,
        images: Tensor,
        labels: Tensor,
        weights_MN: Tensor | None,
        step: Tensor,
    ) -> tuple[Tensor, Tensor]:
        wrapping = self.wrapping
        own = [wrapping.draws[m] for m in members] if wrapping.forward else ()
        drawn = [replace(draw, key=draws.at(draw.key, step)) for draw in own]
        with self.engine.autocast():
            logits_MNK = self.stack.run(members, flat, images, wrapping.forward, drawn)
        target = self.loader.target
        objective = wrapping.objective or target.loss
        logits_MNK = logits_MNK.to(self.engine.dtype)
        losses_M = objective(logits_MNK, labels, weights_MN)
        if wrapping.smoothing is not None and any(self.smoothing[m] for m in members):
            own_smoothing = wrapping.smoothing[members[0] : members[-1] + 1]
            importance_MN = self.loader.importance(labels, weights_MN)
            losses_M = target.smoothed(losses_M, logits_MNK, importance_MN, own_smoothing)
        total = losses_M.sum()
        if wrapping.penalty is not None:
            progress = step / wrapping.steps
            parts = flat.split([self.stack.weight_sizes[m] for m in members])
            for m, part in zip(members, parts, strict=True):
                total = total + wrapping.penalty(self.stack.weight_layouts[m].views(part), progress)
        (gradient,) = torch.autograd.grad(total, flat)
        return losses_M.detach(), gradient  # what diverges is told by the loss alone


def of_chosen(slopes: Tensor, mixing: Tensor) -> Tensor:
    """The slopes of options that ran; those of others are exactly 0, whatever stands in their place."""
    return torch.where(mixing != 0, slopes, 0.0)


class PlainSearchGradients:
    """Of the supernet. Where θ is `hard`, options of the weight 0 do not run on a CPU, and have no slope anywhere."""

    def __init__(self, supernet: Supernet, engine: Arithmetic, hard: bool, parts: int = 1) -> None:
        self.supernet, self.engine, self.hard, self.parts = supernet, engine, hard, parts

    def begin_epoch(self) -> None:
        """Nothing is kept from step to step."""

    def of_mixing(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]:
        mixing = mixing.detach().requires_grad_()
        loss = self._loss(loader, drawn, position, mixing, frozen=True)
        (slope,) = torch.autograd.grad(loss, mixing)
        return loss.detach(), of_chosen(slope, mixing) if self.hard else slope

    def of_weights(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor
    ) -> tuple[Tensor, Tensor]:
        loss = self._loss(loader, drawn, position, mixing.detach(), frozen=False)
        (gradient,) = torch.autograd.grad(loss, self.supernet.weights)
        return loss.detach(), gradient

    def _loss(
        self, loader: Loader, drawn: EpochDraws, position: Tensor, mixing: Tensor, frozen: bool
    ) -> Tensor:
        (images,), labels_MN, weights_MN = loader.batch_at(drawn, position)
        if not images.is_cuda:
            images = images.contiguous()  # most of a supernet is sums of slices, faster so on a CPU
        with self.engine.autocast():
            logits_NK = self.supernet(images, mixing, frozen, self.hard, self.parts)
        outputs_MNK = logits_NK.to(self.supernet.weights.dtype)[None]
        return loader.target.loss(outputs_MNK, labels_MN, weights_MN)[0]
