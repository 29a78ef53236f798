"""A dataset made ready: divided, with the skeleton and normalisation that follow from it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uraenas import draws
from uraenas.config import Config
from uraenas.data import Dataset, LabelledImages, load_from_settings, stratified_split
from uraenas.data.loader import Loader, Normalisation, suited_batch
from uraenas.engine import Engine
from uraenas.errors import UraenasError
from uraenas.spaces import Skeleton

LEAST_EXAMPLES = 3  # of each class


@dataclass(frozen=True)
class Task:
    """A dataset, divided, with the skeleton and normalisation that follow from it."""

    dataset: Dataset
    held_out: LabelledImages
    train: LabelledImages
    search_train: LabelledImages
    search_validation: LabelledImages
    normalisation: Normalisation
    skeleton: Skeleton

    def loader(self, part: LabelledImages, batch: int, engine: Engine) -> Loader:
        """Batches of one of the parts, at most this large, on the engine's device."""
        data, size = self.dataset, suited_batch(batch, len(part))
        return Loader(part, self.normalisation, size, data.padding, data.flip, engine.device, engine.dtype)


def prepare(config: Config, dataset: Dataset | None = None) -> Task:
    """Load and divide the data: held-out images are set aside before anything is learned."""
    dataset = dataset or load_from_settings(config.data)
    labels, settings = dataset.train.labels, config.data
    _require_examples(labels, dataset.classes)
    held_out, rest = stratified_split(
        labels,
        (settings.held_out, 1 - settings.held_out),
        _split_key(config.seed, "held-out"),
        dataset.classes,
    )
    halves = stratified_split(
        labels[rest],
        (1 - settings.search_validation, settings.search_validation),
        _split_key(config.seed, "search"),
    )
    training = dataset.train.take(rest)
    height, width, channels = training.images.shape[1:]
    skeleton = Skeleton(
        config.network.channels, config.network.cells, height, width, channels, len(dataset.classes)
    )
    return Task(
        dataset,
        dataset.train.take(held_out),
        training,
        training.take(halves[0]),
        training.take(halves[1]),
        Normalisation.of(training.images),
        skeleton,
    )


def _require_examples(labels: np.ndarray, classes: Sequence[str]) -> None:
    counts = np.bincount(labels, minlength=len(classes))
    if counts.min() < LEAST_EXAMPLES:
        raise UraenasError(
            f"class {classes[int(counts.argmin())]!r} has {counts.min()} training image(s); needed: "
            f"{LEAST_EXAMPLES}, one to hold out and one for each half of the search. Add images or leave the class out."
        )


def _split_key(seed: int, purpose: str) -> int:
    return draws.key(seed, "split", purpose) & (2**63 - 1)


def describe_data(task: Task) -> dict[str, Any]:
    """Shape, counts and checksum of the images, by which a run knows them again."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (task.dataset.train, task.dataset.test):
        digest.update(np.ascontiguousarray(part.images).tobytes())
        digest.update(part.labels.tobytes())
        digest.update(b"" if part.weights is None else part.weights.tobytes())
    return {
        "classes": list(task.dataset.classes),
        "image": list(task.dataset.train.images.shape[1:]),
        "flip": task.dataset.flip,
        "padding": task.dataset.padding,
        "training_images": len(task.train),
        "held_out_images": len(task.held_out),
        "test_images": len(task.dataset.test),
        "blake2b": digest.hexdigest(),
    }
