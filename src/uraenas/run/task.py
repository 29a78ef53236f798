"""A dataset made ready: divided, with the space and normalisation that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data import Dataset, LabelledImages, load_from_settings, stratified_split
from uraenas.data.augment import Augmentation
from uraenas.data.loader import Loader, Normalisation, Teacher, require_bytes, suited_batch
from uraenas.data.splits import folds_of
from uraenas.engine import Engine, EngineSettings
from uraenas.evaluation import CLASSIFIERS, REGRESSORS, Measures, measures_of
from uraenas.learning.chains import Start
from uraenas.learning.search import SearchTask
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.facts import DataFacts, digest_of_columns, digest_of_images, marks_of
from uraenas.run.starts import starts_of
from uraenas.spaces import Shape, Space

LEAST_EXAMPLES = 3  # of each class: to hold out, and for both halves of the search


@dataclass(frozen=True)
class Task:
    """A dataset, divided, with what follows from it."""

    dataset: Dataset
    held_out: LabelledImages
    train: LabelledImages
    normalisation: Normalisation
    space: Space
    seed: int
    starts: tuple[Start, ...] = ()  # trained networks that chains start from
    # [N]: the part of the training images that each is in. Then chains leave these out in turn, and all are held out.
    fold: np.ndarray | None = None
    apart: LabelledImages | None = None  # beside folds: what no chain learns from, and promises rest on

    def engine(self, settings: EngineSettings) -> Engine:
        """For rows float32, unless less is asked for: bfloat16 is coarser than the noise of many targets."""
        if self.dataset.columns is not None and settings.precision == "auto":
            settings = replace(settings, precision="float32")
        return Engine(settings)

    def search_halves(self, validation: float) -> tuple[LabelledImages, LabelledImages]:
        """The training images divided for a search: for the weights, and for the distribution."""
        key = _split_key(self.seed, "search")
        strata = self.normalisation.target.strata(self.train.labels)
        first, second = stratified_split(strata, (1 - validation, validation), key)
        return self.train.take(first), self.train.take(second)

    def for_search(self, validation: float, engine: Engine) -> SearchTask:
        """The same, with all else that a search is given."""
        halves = self.search_halves(validation)
        return SearchTask(
            self.space,
            *halves,
            self.normalisation,
            lambda part, batch: self.loader(part, batch, engine),
            engine,
            self.seed,
        )

    def loader(
        self,
        part: LabelledImages,
        batch: int,
        engine: Engine,
        augmentations: Sequence[Augmentation] = (),
        teacher: Teacher | None = None,
    ) -> Loader:
        """Batches of one of the parts, at most this large, on the engine's device."""
        data, size = self.dataset, suited_batch(batch, len(part))
        crops = (size, data.padding, data.flip)
        where = (engine.device, engine.dtype)
        fold = self.fold if part is self.train else None
        return Loader(
            part, self.normalisation, *crops, *where, augmentations, len(data.classes), teacher, fold
        )

    @cached_property
    def learned_from(self) -> int:
        """How many training images a chain learns from: all but the part that it leaves out."""
        return len(self.train) - (0 if self.fold is None else int(np.bincount(self.fold).max()))

    def learned_by(self, number: int) -> LabelledImages:
        """The training images that the chain of this number learns from."""
        if self.fold is None:
            return self.train
        return self.train.take(np.flatnonzero(self.fold != number % (int(self.fold.max()) + 1)))

    def steps(self, batch: int) -> int:
        """Of a chain's epoch, in batches at most this large."""
        return max(1, self.learned_from // suited_batch(batch, len(self.train)))

    @cached_property
    def disjoint(self) -> tuple[LabelledImages, LabelledImages]:
        """Training and held-out images that have none in common, for those who are no chains."""
        if self.fold is None:
            return self.train, self.held_out
        return self.train.take(np.flatnonzero(self.fold)), self.train.take(np.flatnonzero(self.fold == 0))

    @property
    def references(self) -> list[str]:
        """The plain models to hold methods against; none where a class has no training images."""
        if self.dataset.target.parts:
            return list(REGRESSORS)
        return list(CLASSIFIERS) if len(self.dataset.classes) == len(np.unique(self.train.labels)) else []

    @property
    def measures(self) -> Measures:
        """How well it is solved."""
        return measures_of(self.normalisation.target)

    def measured_on(self, part: str) -> Dataset:
        """The dataset, whose test images are those to be measured on: its own, or the held-out ones."""
        data = self.dataset
        return data if part == "test" else replace(data, name=f"{data.name}-held-out", test=self.held_out)

    @property
    def notes(self) -> list[str]:
        """How the images were divided, where that is not the usual way."""
        own = self.dataset.validation is not None
        if self.fold is not None:
            notes = [
                f"each chain leaves out one of {self.fold.max() + 1} parts of the training set (train.folds)"
            ]
            if self.apart is not None:
                notes.append(
                    f"none learns from {len(self.apart):,} rows, which intervals rest on (data.apart)"
                )
            return [*notes, *self._notes_on_limit(len(self.train))]
        used = len(self.train) + (0 if own else len(self.held_out))
        part = f"{len(self.held_out):,} {self.dataset.example}s of the validation part"
        notes = [f"{part} are held out"] if own else []
        return [*notes, *self._notes_on_limit(used)]

    def _notes_on_limit(self, used: int) -> list[str]:
        data, val = self.dataset, self.dataset.validation
        known = len(data.train) + (0 if self.fold is None or val is None else len(val))
        return (
            [f"{used:,} of {known:,} training {data.example}s are used (data.limit)"] if used < known else []
        )

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
            len(self.held_out) if self.fold is None else 0,
            len(data.test),
            digest_of_images(*data.parts.values()),
            tuple(part.column for part in data.target.parts) if len(data.target.parts) > 1 else (),
            0 if self.apart is None else len(self.apart),
            digest_of_columns(data.columns),
            digest_of_images(data.test),
            "" if data.columns is not None else marks_of(self.train),
        )


def prepare(config: Config, dataset: Dataset | None = None) -> Task:
    """Load and divide the data: held-out images are set aside before anything is learned."""
    folded = bool(config.train.folds)
    dataset = dataset or load_from_settings(config.data if folded else replace(config.data, apart=0.0))
    training, held_out = _divided(dataset, config)
    fold = None
    if folded:
        training = held_out = _limited(_together(training, held_out), dataset, config)
        strata, count = dataset.target.strata(training.labels), min(config.train.folds, len(training) // 2)
        fold = folds_of(strata, count, _split_key(config.seed, "folds"))
    if config.train.class_weights == "balanced":
        if not dataset.classes:
            raise UraenasError(
                f"train.class_weights=balanced: {dataset.name} has numbers to predict, no classes"
            )
        training, held_out = _balanced(training), _balanced(held_out)
    if any(augmentation.changes for augmentation in config.augmentations):
        require_bytes(training)  # rather now than after the search
    _require_in_sight(dataset)
    if not dataset.classes and any(config.method(name).weights.changes.heads for name in config.methods):
        raise UraenasError(f"heads predict classes, and {dataset.name} has a number to predict")
    height, width, channels = training.images.shape[1:]
    shape = Shape(height, width, channels, dataset.target.outputs(len(dataset.classes)))
    space = replace(config.network, shape=shape)
    start = next((one.start for name in config.methods if (one := config.method(name).source).start), "")
    return Task(
        dataset,
        held_out,
        training,
        _units(dataset, training),
        space,
        config.seed,
        starts_of(Run.find(start), space, config.seed) if start else (),
        fold,
        dataset.apart if folded else None,
    )


def _require_in_sight(dataset: Dataset) -> None:
    """Refuse random crops that may hold nothing of the image."""
    height, width = dataset.train.images.shape[1:3]
    if dataset.padding >= min(height, width):
        raise UraenasError(
            f"padding = {dataset.padding} would move images of {height}×{width} out of sight; allowed: 0 … "
            f"{min(height, width) - 1} (data.padding)"
        )


def _units(dataset: Dataset, training: LabelledImages) -> Normalisation:
    """How the data's numbers and those of networks belong together, learned from training images alone."""
    target = dataset.target.fitted(training.labels)
    if dataset.columns is not None:
        return Normalisation.none(dataset.columns, target)
    return replace(Normalisation.of(training.images), target=target)


def _divided(dataset: Dataset, config: Config) -> tuple[LabelledImages, LabelledImages]:
    """The images to train on, and those held out: the dataset's own, or a share of the training images."""
    training, share = _limited(dataset.train, dataset, config), config.data.held_out
    target = dataset.target
    names = target.strata_names(dataset.classes)
    if dataset.validation is not None:
        _require_examples(target.strata(training.labels), names, LEAST_EXAMPLES - 1)
        return training, dataset.validation
    strata = target.strata(training.labels)
    _require_examples(strata, names, LEAST_EXAMPLES)
    key = _split_key(config.seed, "held-out")
    apart, rest = stratified_split(strata, (share, 1 - share), key, names or None)
    return training.take(rest), training.take(apart)


def _limited(training: LabelledImages, dataset: Dataset, config: Config) -> LabelledImages:
    """At most as many training images as a run may use."""
    target, limit = dataset.target, config.data.limit
    if not 0 < limit < len(training):
        return training
    names, strata = target.strata_names(dataset.classes), target.strata(training.labels)
    each = LEAST_EXAMPLES if dataset.validation is None else LEAST_EXAMPLES - 1
    if limit < (least := each * len(np.unique(strata))):
        raise UraenasError(
            f"data.limit = {limit} is too few to hold out and to learn from; allowed: 0 (none), {least} and more"
        )
    key = _split_key(config.seed, "limit")
    (chosen,) = stratified_split(strata, (limit,), key, names or None)
    return training.take(chosen)


def _together(first: LabelledImages, second: LabelledImages) -> LabelledImages:
    """One part of two."""
    weights = [
        np.ones(len(one), np.float32) if one.weights is None else one.weights for one in (first, second)
    ]
    return LabelledImages(
        np.concatenate([first.images, second.images]),
        np.concatenate([first.labels, second.labels]),
        None if first.weights is second.weights is None else np.concatenate(weights),
        None if first.names is None or second.names is None else (*first.names, *second.names),
    )


def _balanced(part: LabelledImages) -> LabelledImages:
    """Every class weighs as much: an image counts N / (K · images of its class), times its own weight."""
    counts = np.bincount(part.labels)
    weights = (len(part) / np.count_nonzero(counts) / counts[part.labels]).astype(np.float32)
    return replace(part, weights=weights if part.weights is None else weights * part.weights)


def _require_examples(labels: np.ndarray, classes: Sequence[str], needed: int) -> None:
    counts = np.bincount(labels, minlength=len(classes))
    if counts.min() < needed and not classes:
        raise UraenasError(
            f"{len(labels)} training row(s) are too few; needed: {needed}, to hold out and to learn from"
        )
    if counts.min() < needed:
        apart = "one to hold out and " if needed == LEAST_EXAMPLES else ""
        raise UraenasError(
            f"class {classes[int(counts.argmin())]!r} has {counts.min()} training image(s); needed: {needed}, "
            f"{apart}one for each half of the search. Add images or leave the class out."
        )


def _split_key(seed: int, purpose: str) -> int:
    return draws.key(seed, "split", purpose) & (2**63 - 1)
