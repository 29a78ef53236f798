"""What is measured, and on which images: the clean test set, and every shift at every severity."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from uraenas import shifts
from uraenas.base.errors import UraenasError, require_range, unknown, unknown_or_missing
from uraenas.base.words import names_in
from uraenas.data.dataset import LabelledImages
from uraenas.data.fit import in_units_of
from uraenas.evaluation.row import TEST_TIME
from uraenas.shifts.suite import open_suite

PARTS = ("test", "held_out")
SEED = 0  # of shifts and of resamples: all runs are tested on the same images, and their replicates pair


@dataclass(frozen=True)
class EvaluateSettings:
    """What is measured."""

    suite: str = "basic"  # a suite of shifts by name, a folder in the layout of CIFAR-10-C, or none
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    part: str = "test"  # or held_out: for choices that the test images must not decide
    baseline: str = "deep-ensemble"  # the report shows paired differences to this method
    bootstrap: int = 1000  # resamples of the test images; 0: no intervals
    subsets: int = 20  # random member subsets for each ensemble size below the full one
    # images that should be told from the test images: datasets, .npz files or folders, with commas
    outside: str = ""
    test_time: tuple[str, ...] = ()  # other ways to predict, measured beside: views, statistics
    # plain models as rows to hold methods against: logistic regression or, of numbers, ridge, and a random forest
    references: bool = True
    keep_predictions: bool = True  # on shifted sets, too; those on the clean set are always kept

    def __post_init__(self) -> None:
        once = len(set(self.severities)) == len(self.severities)
        if not self.severities or not once or not set(self.severities) <= {1, 2, 3, 4, 5}:
            raise UraenasError(
                f"severities = {self.severities} is out of range; choose from 1 … 5, each once"
            )
        if self.part not in PARTS:
            raise unknown("part", self.part, PARTS)
        for name in self.test_time:
            if name not in TEST_TIME:
                raise unknown("test_time", name, TEST_TIME)
        require_range("bootstrap", self.bootstrap, 0, 100_000)
        require_range("subsets", self.subsets, 1, 10_000)

    @property
    def outsiders(self) -> tuple[str, ...]:
        """The names or paths in `outside`."""
        return names_in(self.outside)


@dataclass(frozen=True)
class EvaluationSet:
    """Labelled images to be judged on, clean (`shift` "none", severity 0) or shifted."""

    dataset: str
    shift: str
    severity: int
    part: LabelledImages

    @property
    def name(self) -> str:
        return _name(self.dataset, self.shift, self.severity)

    @cached_property
    def checksum(self) -> str:
        """By which its images are known again."""
        return hashlib.blake2b(np.ascontiguousarray(self.part.images).data, digest_size=16).hexdigest()


def evaluation_sets(
    dataset: str, test: LabelledImages, settings: EvaluateSettings, names: Collection[str] | None = None
) -> Iterator[EvaluationSet]:
    """The clean test set, then every shift at every severity, made or mapped from disk when it is asked for.

    With `names`, those of these names alone.
    """
    require_suite_fits(test, settings)

    def wanted(shift: str, severity: int) -> bool:
        return names is None or _name(dataset, shift, severity) in names

    if wanted("none", 0):
        yield EvaluationSet(dataset, "none", 0, test)
    if _is_folder(settings):
        for shift, severity, images in open_suite(settings.suite):
            if severity in settings.severities and wanted(shift, severity):
                part = LabelledImages(in_units_of(images, test.images.dtype), test.labels)
                yield EvaluationSet(dataset, shift, severity, part)
        return
    for shift in _shift_names(test, settings):
        for severity in settings.severities:
            if wanted(shift, severity):
                yield EvaluationSet(dataset, shift, severity, _shifted(test, shift, severity))


def set_names(dataset: str, test: LabelledImages, settings: EvaluateSettings) -> list[str]:
    """The names of the evaluation sets, none of which is made."""
    if _is_folder(settings):
        parts = open_suite(settings.suite).parts
        found = [(part.corruption, part.severity) for part in parts if part.severity in settings.severities]
    else:
        found = [(shift, one) for shift in _shift_names(test, settings) for one in settings.severities]
    return [dataset, *(_name(dataset, *one) for one in found)]


def require_suite_fits(test: LabelledImages, settings: EvaluateSettings) -> None:
    """Refuse a suite that does not fit the images, or whose requirements are missing."""
    if _is_folder(settings):
        if not Path(settings.suite).exists():
            raise unknown_or_missing("suite", settings.suite, ("none", *shifts.SUITES))
        if not Path(settings.suite).is_dir():
            raise UraenasError(
                f"{settings.suite} is a file; a suite is a folder, as `uraenas corrupt` makes it"
            )
        suite = open_suite(settings.suite)
        if not np.array_equal(suite.labels, test.labels):
            raise UraenasError(f"{settings.suite} holds other images than the test set: its labels differ")
        for shift, _, images in suite:
            if images.shape[1:] != test.images.shape[1:]:
                found, wanted = ("×".join(map(str, one.shape[1:])) for one in (images, test.images))
                raise UraenasError(
                    f"{settings.suite}: {shift} has images of {found}, the test set of {wanted}"
                )
        return
    for shift in _shift_names(test, settings):
        try:
            _shifted(test.take(np.arange(1)), shift, settings.severities[0])
        except UraenasError as error:
            raise UraenasError(
                f"{error}; or evaluate on clean images alone: evaluate.suite = none"
            ) from error


def cell_count(test: LabelledImages, settings: EvaluateSettings) -> int:
    """How many evaluation sets there are."""
    return len(set_names("", test, settings))


def _name(dataset: str, shift: str, severity: int) -> str:
    return dataset if shift == "none" else f"{dataset}-{shift}-{severity}"


def _is_folder(settings: EvaluateSettings) -> bool:
    return settings.suite != "none" and settings.suite not in shifts.SUITES


def _shift_names(test: LabelledImages, settings: EvaluateSettings) -> tuple[str, ...]:
    """Of a suite by name (`none` has none) those that the images can have: grey ones cannot be saturated."""
    return shifts.suited(shifts.SUITES.get(settings.suite, ()), test.images.shape[-1])


def _shifted(test: LabelledImages, shift: str, severity: int) -> LabelledImages:
    images = test.images
    if images.dtype == np.uint8:
        return LabelledImages(shifts.corrupt(images, shift, severity, SEED), test.labels)
    quantised = in_units_of(images, np.dtype(np.uint8))  # corruptions are defined on bytes
    shifted = shifts.corrupt(quantised, shift, severity, SEED)
    return LabelledImages(in_units_of(shifted, images.dtype), test.labels)
