"""What a run's small files say, typed: the images it was made with."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data import LabelledImages


@dataclass(frozen=True)
class DataFacts:
    """By which a run knows its images again: what data.json holds."""

    classes: tuple[str, ...]
    image: tuple[int, int, int]  # height, width, channels
    flip: bool
    padding: int
    training_images: int
    held_out_images: int
    test_images: int
    blake2b: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Any) -> "DataFacts":
        try:
            height, width, channels = map(int, stored["image"])
            return cls(
                classes=tuple(map(str, stored["classes"])),
                image=(height, width, channels),
                flip=bool(stored["flip"]),
                padding=int(stored["padding"]),
                training_images=int(stored["training_images"]),
                held_out_images=int(stored["held_out_images"]),
                test_images=int(stored["test_images"]),
                blake2b=str(stored["blake2b"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UraenasError(f"no images are described: {error!r}") from error


def digest_of_images(*parts: LabelledImages) -> str:
    """A checksum of images, labels and weights."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(np.ascontiguousarray(part.images).tobytes())
        digest.update(part.labels.tobytes())
        digest.update(b"" if part.weights is None else part.weights.tobytes())
    return digest.hexdigest()
