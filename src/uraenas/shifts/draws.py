"""Random draws that belong to an image, not to the order in which images are worked on."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Draws:
    """One random generator per image, keyed by (seed, shift, severity, image index).

    The n-th image of a batch has index `first_index + n` in its dataset, so neither batch size nor the number
    of workers changes what is drawn for it.
    """

    seed: int
    shift: str
    severity: int
    first_index: int = 0

    def for_image(self, position: int) -> np.random.Generator:
        """The generator of the image at this position of the batch, always at its start."""
        name = f"{self.seed}/{self.shift}/{self.severity}/{self.first_index + position}"
        key = hashlib.blake2b(name.encode(), digest_size=16).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))

    def for_batch(self, size: int) -> Iterator[np.random.Generator]:
        """The generators of the first `size` images, in order."""
        return (self.for_image(position) for position in range(size))
