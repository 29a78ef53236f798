"""Augmentation of training images on their device, once an epoch. One is a row of AUGMENTATIONS.

What a row offers is said in `augmentation.py`. Random crops and mirrored images are not among them: they keep every
label true wherever a dataset allows them, so they are facts of the data.
"""

from dataclasses import dataclass

from torch import Tensor

from uraenas.base.parts import Part
from uraenas.data.augment.augmentation import Augmentation, augmented, in_parts
from uraenas.data.augment.cutting import Cutout
from uraenas.data.augment.operating import AugMix, Trivial
from uraenas.data.augment.pairs import CutMix, Mixup
from uraenas.data.augment.primitives import Primitives


@dataclass(frozen=True)
class Nothing:
    """Images as they are."""

    changes, mixes = False, False

    def __call__(self, images: Tensor, labels: Tensor, key: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        return images[part], labels[part]


AUGMENTATIONS: dict[str, Part[Augmentation]] = {
    "none": Part(Nothing),
    "cutout": Part(Cutout),
    "trivial": Part(Trivial),
    "augmix": Part(AugMix),
    "primitives": Part(Primitives),
    "mixup": Part(Mixup),
    "cutmix": Part(CutMix),
}

__all__ = ["AUGMENTATIONS", "Augmentation", "augmented", "in_parts"]
