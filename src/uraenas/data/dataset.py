"""What every dataset reader returns."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.arrays import require_finite, require_form
from uraenas.data.targets import CLASSES, Target

if TYPE_CHECKING:
    from uraenas.data.tables.columns import Columns

MOST_NAME = 100  # bytes of a dataset's name: two of them and what a run adds must fit into a file's 255
MOST_CLASS_NAME = 1000
MARK = 16  # hexadecimal digits that an image is known by


@dataclass(frozen=True)
class LabelledImages:
    """N images with one label each."""

    images: np.ndarray  # [N, H, W, C], uint8 or float32
    labels: np.ndarray  # [N], int64, 0 … K-1; or float64, where the target is a number; [N, T] of T numbers
    weights: np.ndarray | None = None  # [N], float32: how much each image counts in the training loss
    names: tuple[str, ...] | None = None  # [N], by which a person finds them again

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        require_form(images)
        if images.size == 0:
            raise UraenasError(f"there are no images: the array is {images.shape}")
        shaped = labels.ndim == 1 or (labels.ndim == 2 and labels.dtype == np.float64)
        if not shaped or len(labels) != len(images) or labels.dtype not in (np.int64, np.float64):
            raise UraenasError(
                f"{len(images)} images need {len(images)} int64 labels, not {labels.shape} {labels.dtype}"
            )
        require_finite(images)
        if self.weights is not None:
            _check_weights(self.weights, len(images))

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: np.ndarray) -> "LabelledImages":
        """The images at these positions, in this order."""
        weights = None if self.weights is None else self.weights[index]
        names = None if self.names is None else tuple(self.names[int(position)] for position in index)
        return LabelledImages(self.images[index], self.labels[index], weights, names)

    def also_in(self, other: "LabelledImages", labelled: bool = False) -> int:
        """How many of the images are also among the other ones, value by value; if asked for, with the same label."""
        theirs = set(other._digests(labelled))
        return sum(one in theirs for one in self._digests(labelled))

    def in_several(self, part_N: np.ndarray, labelled: bool = False) -> int:
        """How many of the images are in another part, too, value by value; if asked for, with the same label."""
        digests, parts = list(self._digests(labelled)), dict[int, set[int]]()
        for digest, part in zip(digests, part_N.tolist(), strict=True):
            parts.setdefault(digest, set()).add(part)
        return sum(len(parts[digest]) > 1 for digest in digests)

    @property
    def labelled_twice(self) -> int:
        """How many of the images are there with another label, too, value by value."""
        return self.in_several(self.labels)

    def _digests(self, labelled: bool) -> Iterator[int]:
        for image, label in zip(self.images, self.labels, strict=True):
            yield hash((image.tobytes(), label.tobytes() if labelled else b""))


def mark_of(image: np.ndarray) -> str:
    """A checksum by which an image is known again."""
    return hashlib.blake2b(image.tobytes(), digest_size=MARK // 2).hexdigest()


def _check_weights(weights: np.ndarray, needed: int) -> None:
    if weights.shape != (needed,) or weights.dtype != np.float32:
        raise UraenasError(
            f"{needed} images need {needed} float32 weights, not {weights.shape} {weights.dtype}"
        )
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise UraenasError("weights must be finite and not negative")


def require_distinct(classes: Sequence[str]) -> None:
    """Refuse class names of which two are the same."""
    if len(set(classes)) < len(classes):
        twice = Counter(classes).most_common(1)[0][0]
        raise UraenasError(f"two classes are called {twice!r}; give each a name of its own")


def _require_storable(name: str, most: int) -> None:
    """Refuse, before anything is learned, a name that no file of a run could have or hold."""
    if len(name.encode(errors="surrogatepass")) > most:
        raise UraenasError(f"the name {name[:20]!r}… has more than {most} bytes; choose a shorter one")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UraenasError(f"the name {name!r} is not UTF-8; choose another") from error


@dataclass(frozen=True)
class Dataset:
    """A training and a test set of one task. Augmentation that keeps the label true is a fact of the data."""

    name: str
    train: LabelledImages
    test: LabelledImages
    classes: tuple[str, ...]
    flip: bool  # a mirrored image keeps its label
    padding: int  # random crops come from the image padded by this many black pixels on each side
    notes: tuple[str, ...] = ()  # what the reader did to the data and the user should know
    validation: LabelledImages | None = None  # held out instead of a share of the training set
    target: Target = CLASSES
    columns: "Columns | None" = None  # of a table, whose rows are images of one pixel
    apart: LabelledImages | None = None  # from which nothing is learned, and by which nothing is chosen

    def __post_init__(self) -> None:
        labels = {kind: part.labels for kind, part in self.parts.items()}
        names = {kind: part.names for kind, part in self.parts.items()}
        self.target.check(self.name, self.classes, labels, names)
        require_distinct(self.classes)
        _require_storable(self.name, MOST_NAME)
        for name in self.classes:
            _require_storable(name, MOST_CLASS_NAME)
        for kind, part in self.parts.items():
            if self.train.images.shape[1:] != part.images.shape[1:]:
                raise UraenasError(
                    f"{self.name}: training images are {self.train.images.shape[1:]} and {kind} images "
                    f"{part.images.shape[1:]}; they must agree"
                )
            if self.train.images.dtype != part.images.dtype:
                raise UraenasError(
                    f"{self.name}: training images are {self.train.images.dtype} and {kind} images "
                    f"{part.images.dtype}, whose values mean other things; give both as uint8, or both as floats"
                )

    @property
    def example(self) -> str:
        """What one of its examples is called."""
        return "image" if self.columns is None else "row"

    @property
    def parts(self) -> dict[str, LabelledImages]:
        """All that there are, by what they are called."""
        known = {"training": self.train, "test": self.test}
        others = {"validation": self.validation, "apart": self.apart}
        return known | {name: part for name, part in others.items() if part is not None}
