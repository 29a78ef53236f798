"""Augmentation of training images on their device, once an epoch. One is a row of AUGMENTATIONS.

What a row offers is said in `augmentation.py`. Random crops and mirrored images are not among them: they keep every
label true wherever a dataset allows them, so they are facts of the data.
"""

from dataclasses import dataclass

from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.base.parts import Part, row_of
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


def asked_for(text: str) -> tuple[str, dict[str, float]]:
    """The name in `name` or `name:strength`, and what follows it as a setting."""
    name, colon, strength = text.partition(":")
    if not colon:
        return name, {}
    if "strength" not in row_of(AUGMENTATIONS, "augmentation", name).settings:
        raise UraenasError(f"augmentation = {text} is out of range; {name} has no strength")
    try:
        return name, {"strength": float(strength)}
    except ValueError:
        raise UraenasError(f"augmentation = {text} is out of range; a number follows the colon") from None


__all__ = ["AUGMENTATIONS", "Augmentation", "asked_for", "augmented", "in_parts"]
