"""Augmentations made of the nine operations: one of them, or a mixture of several."""

from dataclasses import dataclass

from torch import Tensor

from uraenas.base.errors import require_range
from uraenas.data.augment.augmentation import bytes_of, integers, keys_of, planes_of, uniform
from uraenas.data.augment.chains import mixed
from uraenas.data.augment.operations import OPERATIONS, Ranges, operate

WIDE = Ranges(bits=(8, 2), degrees=135, slope=0.99, shift=1.0)  # TrivialAugment's
NARROW = Ranges(bits=(4, 0), degrees=30, slope=0.3, shift=1 / 3)  # AugMix's at severity 10
STEPS = 30  # of TrivialAugment's strengths
SEVEREST = 10.0


@dataclass(frozen=True)
class Trivial:
    """TrivialAugment: one operation or none, with a random strength.

    Of its operations those that are no corruptions of CIFAR-10-C: it goes without changes of brightness, contrast,
    saturation and sharpness.
    """

    strength: float = 1.0  # the most; 1 is the published wide range

    changes, mixes = True, False

    def __post_init__(self) -> None:
        require_range("strength", self.strength, 0.01, 1)

    def __call__(self, images: Tensor, labels: Tensor, key: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        keys = keys_of(key, part)
        which = integers(keys, 0, 1, len(OPERATIONS) + 1)[:, 0]
        strength = integers(keys, 1, 1, STEPS + 1)[:, 0] * (self.strength / STEPS)
        changed = operate(planes_of(images[part]), which, strength, _sign(keys), WIDE)
        return bytes_of(changed), labels[part]


@dataclass(frozen=True)
class AugMix:
    """AugMix: a mixture of three chains of operations and the image itself, without the Jensen-Shannon loss."""

    strength: float = 3.0  # the most severity of an operation, up to 10

    changes, mixes = True, False

    def __post_init__(self) -> None:
        require_range("strength", self.strength, 0.1, SEVEREST)

    def __call__(self, images: Tensor, labels: Tensor, key: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        return bytes_of(mixed(planes_of(images[part]), keys_of(key, part), self._operation)), labels[part]

    def _operation(self, images: Tensor, keys: Tensor) -> Tensor:
        which = integers(keys, 0, 1, len(OPERATIONS))[:, 0]
        severity = 0.1 + (self.strength - 0.1) * uniform(keys, 1, 1)[:, 0]
        return operate(images, which, severity / SEVEREST, _sign(keys), NARROW)


def _sign(keys: Tensor) -> Tensor:
    return 2 * integers(keys, 2, 1, 2)[:, 0].float() - 1
