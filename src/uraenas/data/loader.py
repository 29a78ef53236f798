"""Images on the device, and the batches drawn from them.

An epoch's order, crops and flips are drawn at its start as a function of a key; a batch is then one gather. What an
augmentation makes of the images is worked out then, too. Shapes: M members, each with its own draws, B images of a
batch, K classes; of A augmentations each has N images of its own, one after another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.data.augment import Augmentation, in_parts
from uraenas.data.dataset import LabelledImages
from uraenas.data.tables.columns import Columns
from uraenas.data.targets import CLASSES, Target, target_of

# raw images [N, H, W, C] → what each of T members of a teacher says of them, class probabilities [T, N, K]
Teacher = Callable[[Tensor], Tensor]

TAUGHT = 5000  # images that a teacher is shown at once
LEAST_STEPS, LEAST_BATCH = 8, 8  # a few large steps an epoch teach little, a batch norm of a few images less


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation per channel, in the units of the raw images; and what networks' numbers say."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    target: Target = CLASSES
    columns: Columns | None = None  # of a table: they make images of its rows

    @classmethod
    def of(cls, images: np.ndarray) -> "Normalisation":
        """Of training images [N, H, W, C]; a constant channel gets deviation 1."""
        flat = images.reshape(-1, images.shape[-1])
        mean = flat.mean(axis=0, dtype=np.float64)
        # A chunk at a time: the whole set in float64 would be eight times its size.
        chunks = np.array_split(flat, max(1, len(flat) // 1_000_000))
        variance = sum(((chunk - mean) ** 2).sum(axis=0) for chunk in chunks) / len(flat)
        deviation = np.where(variance > 0, np.sqrt(variance), 1.0)
        return cls(tuple(mean.tolist()), tuple(deviation.tolist()))

    @classmethod
    def none(cls, columns: Columns, target: Target) -> "Normalisation":
        """Of a table, whose columns are in standard units already."""
        return cls((0.0,) * columns.width, (1.0,) * columns.width, target, columns)

    def as_json(self) -> dict[str, Any]:
        columns = {} if self.columns is None else self.columns.as_json()
        return {"mean": self.mean, "deviation": self.deviation, **self.target.as_json(), **columns}

    @classmethod
    def stored_in(cls, facts: Fields) -> "Normalisation":
        """What `as_json` wrote among other fields."""
        numbers = facts.numbers("mean"), facts.numbers("deviation")
        return cls(*numbers, target_of(facts), Columns.of(facts))

    def on(self, device: torch.device, dtype: torch.dtype) -> "Normaliser":
        return Normaliser(self, device, dtype)


class Normaliser:
    """Raw images [..., H, W, C] → normalised [..., C, H, W], on one device."""

    def __init__(self, normalisation: Normalisation, device: torch.device, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.mean = torch.tensor(normalisation.mean, dtype=dtype).to(device)
        self.deviation = torch.tensor(normalisation.deviation, dtype=dtype).to(device)

    def __call__(self, images: Tensor) -> Tensor:
        # The channels stay innermost in memory, which is how convolutions are fastest.
        return ((images.to(self.dtype) - self.mean) / self.deviation).movedim(-1, -3)


@dataclass(frozen=True)
class EpochDraws:
    """What is random about one epoch of M members: image numbers, crop corners, flips; and what is learned of them."""

    order: Tensor  # [M, steps, B]
    corner: Tensor  # [M, steps, B, 2]
    flip: Tensor  # [M, steps, B], bool
    # [M, steps, B, K], in place of labels, times the images' weights; of T members of a teacher [M, steps, B, T·K]
    targets: Tensor | None = None

    def refill(self, fresh: "EpochDraws") -> None:
        """Take over the draws of another epoch in place, where a captured graph looks for them."""
        self.order.copy_(fresh.order)
        self.corner.copy_(fresh.corner)
        self.flip.copy_(fresh.flip)


def suited_batch(batch: int, images: int) -> int:
    """The batch to use: halved until an epoch has at least LEAST_STEPS steps, or the batch is LEAST_BATCH."""
    while batch > LEAST_BATCH and images // batch < LEAST_STEPS:
        batch = max(LEAST_BATCH, batch // 2)
    return batch


def require_bytes(part: LabelledImages) -> None:
    """Refuse to augment images that are no bytes."""
    if part.images.dtype != np.uint8:
        raise UraenasError(
            f"augmentation changes images of bytes, and these are {part.images.dtype}; give whole numbers 0 … 255 "
            "(uint8), or use train.augmentation=none"
        )


class Folds:
    """The parts of a training set that members leave out in turn."""

    def __init__(self, fold_N: np.ndarray, device: torch.device) -> None:
        sizes = np.bincount(fold_N)
        self.count, self.largest = len(sizes), int(sizes.max())
        self.of_image = torch.from_numpy(fold_N).to(device)  # [N]

    @cached_property
    def images(self) -> list[Tensor]:
        """The numbers of the images in each."""
        return [torch.nonzero(self.of_image == fold).flatten() for fold in range(self.count)]

    def put_last(self, order_MN: Tensor, numbers: Sequence[int]) -> Tensor:
        """In the same order, first what members of these numbers learn from, then what they leave out."""
        own_M = torch.tensor([number % self.count for number in numbers]).to(order_MN.device)
        left_out = self.of_image[order_MN] == own_M[:, None]
        return order_MN.gather(1, left_out.to(torch.int8).argsort(dim=1, stable=True))


class Loader:
    """A labelled set on the device."""

    def __init__(
        self,
        part: LabelledImages,
        normalisation: Normalisation,
        batch: int,
        padding: int,
        flip: bool,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        augmentations: Sequence[Augmentation] = (),
        classes: int = 0,  # needed where labels are mixed
        teacher: Teacher | None = None,  # whose predictions are learned in place of labels
        # [N]: the part that each image is in, of those that members leave out in turn
        fold: np.ndarray | None = None,
    ) -> None:
        if len(part) < 2:
            raise UraenasError("training needs at least 2 images")
        self.count, self.padding, self.flip, self.teacher = len(part), padding, flip, teacher
        self.normalise, self.target = normalisation.on(device, dtype), normalisation.target
        self.folds = None if fold is None else Folds(fold, device)
        # That a member learns from: all but the fold that it leaves out.
        self.learned = self.count - (0 if self.folds is None else self.folds.largest)
        self.batch = min(batch, self.learned)
        self.steps = self.learned // self.batch  # what is left over sits this epoch out
        self.augmentations = tuple(augmentations) if any(one.changes for one in augmentations) else ()
        self.kinds = max(1, len(self.augmentations))
        images = torch.from_numpy(np.ascontiguousarray(part.images)).to(device)
        self._take_images(images)
        labels, weights = _labels_on(device, dtype, part, self.target)
        self.weighted = weights is not None
        if any(one.mixes for one in self.augmentations):
            labels = _probabilities(labels, weights, max(classes, int(part.labels.max()) + 1), dtype)
            weights = None
        self.labels = torch.cat([labels] * self.kinds)
        self.weights = None if weights is None else weights.repeat(self.kinds)
        if self.augmentations:
            require_bytes(part)
            self.originals, self.original_labels = images, labels

    def _take_images(self, images: Tensor) -> None:
        """Keep images [N, H, W, C] as often as there are kinds, with a border."""
        self.height, self.width = images.shape[1:3]
        border = self.padding
        padded = F.pad(images, (0, 0, border, border, border, border))  # black, before normalisation
        self.images = padded if self.kinds == 1 else padded.repeat(self.kinds, 1, 1, 1)
        # What is refilled: a captured graph looks for images in this memory.
        self.inner = self.images[:, border : border + self.height, border : border + self.width]
        # Every crop of every image, as a view: a batch is then copied row by row, not pixel by pixel.
        windows = self.images.unfold(1, self.height, 1).unfold(2, self.width, 1)
        self.windows = windows.movedim(3, 5)  # [A·N, top, left, H, W, C]

    def augment(self, key: int, epoch: int) -> None:
        """Fill the images anew, in place, with what each augmentation makes of the originals in this epoch."""
        here = draws.at(key, epoch, self.images.device)
        for kind, augmentation in enumerate(self.augmentations):
            start = kind * self.count
            if augmentation.mixes and self.folds is not None:
                self._mix_within(self.folds, augmentation, here, start)
                continue
            for part, images, labels in in_parts(augmentation, self.originals, self.original_labels, here):
                place = slice(start + part.start, start + part.stop)
                self.inner[place].copy_(images)
                if augmentation.mixes:
                    self.labels[place].copy_(labels)

    def _mix_within(self, folds: Folds, augmentation: Augmentation, key: Tensor, start: int) -> None:
        """Mix images of one fold with each other alone: a member learns nothing of the fold that it leaves out."""
        for number, own in enumerate(folds.images):
            whole = (self.originals[own], self.original_labels[own], draws.at(key, number))
            for part, images, labels in in_parts(augmentation, *whole):
                self.inner[start + own[part]] = images
                self.labels[start + own[part]] = labels

    def draw(
        self,
        keys: Sequence[int],
        epoch: int,
        kinds: Sequence[int | None] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> EpochDraws:
        """The draws of one epoch, one key per member, whose images are of one augmentation's kind.

        Where it is None, each image is of one of the kinds, by chance. Member number n leaves out fold n mod the number
        of folds; members without a number leave out nothing.
        """
        count, shape = self.steps * self.batch, (len(keys), self.steps, self.batch)
        here = draws.at(torch.tensor(keys).to(self.images.device)[:, None], epoch)
        order = draws.permutation(draws.at(here, 0), self.count)
        if self.folds is not None and numbers is not None:
            order = self.folds.put_last(order, numbers)
        order = order[:, :count]
        if self.kinds > 1:
            order = order + self.count * self._kinds_of(here, count, kinds)
        corner = draws.integers(draws.at(here, 1), 2 * count, 2 * self.padding + 1)
        flip = draws.integers(draws.at(here, 2), count, 2) == 1 if self.flip else order < 0
        return EpochDraws(
            order.contiguous().view(shape), corner.view(*shape, 2), flip.contiguous().view(shape)
        )

    def _kinds_of(self, here: Tensor, count: int, kinds: Sequence[int | None] | None) -> Tensor:
        """Of each image that is drawn, which augmentation it goes through."""
        drawn = draws.integers(draws.at(here, 3), count, self.kinds)
        given = [-1 if kind is None else kind for kind in kinds or [None] * len(here)]
        given_M = torch.tensor(given).to(drawn.device)[:, None]
        return torch.where(given_M < 0, drawn, given_M)

    def batch_at(self, drawn: EpochDraws, position: int | Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Images [M, B, C, H, W], labels and, where given, weights [M, B] at this place of the epoch."""
        index, corner, flip = (_at(part, position) for part in (drawn.order, drawn.corner, drawn.flip))
        return self.normalise(self._raw(index, corner, flip)), *self.labels_at(drawn, position)

    def _raw(self, index: Tensor, corner: Tensor, flip: Tensor) -> Tensor:
        """Images [..., H, W, C] as they are drawn."""
        raw = self.windows[index, corner[..., 0], corner[..., 1]]
        return torch.where(flip[..., None, None, None], raw.flip(-2), raw) if self.flip else raw

    def taught(self, drawn: EpochDraws, each: bool) -> Tensor:
        """What the teacher says of an epoch's images, as `EpochDraws.targets` has it: its mean, or each member's words.

        It sees just what is trained on. A chain's images are looked at by themselves, so a chain in a stack is taught
        what the chain alone would be.
        """
        shape = drawn.order.shape
        chains = zip(drawn.order.flatten(1), drawn.corner.flatten(1, 2), drawn.flip.flatten(1), strict=True)
        found = []
        for order, corner, flip in chains:
            parts = zip(order.split(TAUGHT), corner.split(TAUGHT), flip.split(TAUGHT), strict=True)
            found.append(torch.cat([self._taught(*part, each) for part in parts]))
        return torch.stack(found).unflatten(1, shape[1:])

    def with_room(self, drawn: EpochDraws, each: bool) -> EpochDraws:
        """The draws with room for what the teacher will say."""
        one = (drawn.order[0, 0, :1], drawn.corner[0, 0, :1], drawn.flip[0, 0, :1])
        said = self._taught(*one, each)
        return replace(drawn, targets=said.new_zeros(*drawn.order.shape, said.shape[1]))

    def _taught(self, index: Tensor, corner: Tensor, flip: Tensor, each: bool) -> Tensor:
        assert self.teacher is not None
        said_TNK = self.teacher(self._raw(index, corner, flip))
        targets = said_TNK.movedim(0, 1).flatten(1) if each else said_TNK.mean(dim=0)
        if self.labels.ndim == 2:  # mixed ones, times their weights
            return targets * self.labels[index].sum(dim=1, keepdim=True)
        return targets if self.weights is None else targets * self.weights[index, None]

    def labels_at(self, drawn: EpochDraws, position: int | Tensor) -> tuple[Tensor, Tensor | None]:
        """Labels [M, B] ([M, B, T] of T numbers) and, where given, weights [M, B].

        Of mixed and taught images they are class probabilities alone.
        """
        if drawn.targets is not None:
            return _at(drawn.targets, position), None
        index = _at(drawn.order, position)
        return self.labels[index], None if self.weights is None else self.weights[index]

    def importance(self, labels: Tensor, weights_MN: Tensor | None) -> Tensor | None:
        """How much images count [M, B], also where their labels are class probabilities times that."""
        return labels.sum(dim=2) if self.weighted and weights_MN is None else weights_MN


def _labels_on(
    device: torch.device, dtype: torch.dtype, part: LabelledImages, target: Target
) -> tuple[Tensor, Tensor | None]:
    """Labels as the target codes them, and weights, where there are some: 1 on average."""
    labels = target.coded(part.labels).to(device)
    labels = labels.to(dtype) if labels.is_floating_point() else labels
    if part.weights is None:
        return labels, None
    if not part.weights.sum() > 0:
        raise UraenasError("all images of one part of the training set weigh 0; give some of them weight")
    weights = torch.from_numpy(part.weights).to(device, dtype)
    return labels, weights / weights.mean()


def _probabilities(labels_N: Tensor, weights_N: Tensor | None, classes: int, dtype: torch.dtype) -> Tensor:
    """Of the classes [N, K], times the image's weight: so that weights are mixed with labels."""
    found = torch.zeros(len(labels_N), classes, dtype=dtype, device=labels_N.device)
    return found.scatter_(1, labels_N[:, None], 1 if weights_N is None else weights_N[:, None])


def _at(draws: Tensor, position: int | Tensor) -> Tensor:
    """The draws of one step; plain indexing with a tensor would make the device wait for the host."""
    return draws.index_select(1, torch.as_tensor(position, device=draws.device).view(1)).squeeze(1)
