"""A dataset made ready: divided, with the space and normalisation that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data import Dataset, LabelledImages, load_from_settings, stratified_split
from uraenas.data.loader import Loader, Normalisation, suited_batch
from uraenas.engine import Engine
from uraenas.run.config import Config
from uraenas.run.facts import DataFacts, digest_of_images
from uraenas.spaces import Shape, Space

LEAST_EXAMPLES = 3  # of each class


@dataclass(frozen=True)
class Task:
    """A dataset, divided, with what follows from it."""

    dataset: Dataset
    held_out: LabelledImages
    train: LabelledImages
    normalisation: Normalisation
    space: Space
    seed: int

    def search_halves(self, validation: float) -> tuple[LabelledImages, LabelledImages]:
        """The training images divided for a search: for the weights, and for the distribution."""
        key = _split_key(self.seed, "search")
        first, second = stratified_split(self.train.labels, (1 - validation, validation), key)
        return self.train.take(first), self.train.take(second)

    def loader(self, part: LabelledImages, batch: int, engine: Engine) -> Loader:
        """Batches of one of the parts, at most this large, on the engine's device."""
        data, size = self.dataset, suited_batch(batch, len(part))
        return Loader(part, self.normalisation, size, data.padding, data.flip, engine.device, engine.dtype)

    @cached_property
    def facts(self) -> DataFacts:
        """By which a run knows the images again."""
        data = self.dataset
        height, width, channels = data.train.images.shape[1:]
        return DataFacts(
            data.classes,
            (height, width, channels),
            data.flip,
            data.padding,
            len(self.train),
            len(self.held_out),
            len(data.test),
            digest_of_images(data.train, data.test),
        )


def prepare(config: Config, dataset: Dataset | None = None) -> Task:
    """Load and divide the data: held-out images are set aside before anything is learned."""
    dataset = dataset or load_from_settings(config.data)
    labels, held_out = dataset.train.labels, config.data.held_out
    _require_examples(labels, dataset.classes)
    apart, rest = stratified_split(
        labels, (held_out, 1 - held_out), _split_key(config.seed, "held-out"), dataset.classes
    )
    training = dataset.train.take(rest)
    height, width, channels = training.images.shape[1:]
    space = replace(config.network, shape=Shape(height, width, channels, len(dataset.classes)))  # type: ignore[type-var]
    return Task(
        dataset, dataset.train.take(apart), training, Normalisation.of(training.images), space, config.seed
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
