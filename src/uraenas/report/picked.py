"""Some methods of a run, and what says whether runs can be compared: their test images and their settings."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol

from uraenas.base.errors import unknown
from uraenas.evaluation import REFERENCES, Metrics, Row, same_suite, sizes_of
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.facts import DataFacts
from uraenas.run.pairing import differences

PLACE = attrgetter("shift", "severity")


class Picked:
    """Some methods of a run, or all, and what its metrics say of them."""

    def __init__(self, run: Run, methods: Sequence[str] = ()) -> None:
        self.run, self.metrics, self.config, self.data = run, run.metrics(), run.config(), run.data()
        every = self.metrics.rows
        sizes = sizes_of(every)
        for name in methods:
            if name not in sizes:
                raise unknown(f"method of {run.path}", name, sizes)
        self.sizes = {name: sizes[name] for name in methods} if methods else sizes
        self.methods = list(self.sizes)
        self.rows = [row for name in methods for row in every if row.method == name] if methods else every

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run, and those it was measured with."""
        return settings_of(self.config, self.metrics)

    def differences(self, against: str = "") -> list[Row]:
        """Paired, to this method or between all."""
        metrics = self.metrics
        every = differences(self.run, against, metrics) if against else metrics.differences
        return [row for row in every if row.method in self.methods]

    @property
    def found(self) -> Metrics:
        """The metrics of the picked methods."""
        kinds = tuple(self.config.only(name).method(name).chains for name in trained(self.methods))
        diverged = [one for one in self.metrics.diverged if one.chain.startswith(kinds)]
        return replace(self.metrics, rows=self.rows, diverged=diverged)

    @cached_property
    def cells(self) -> list[tuple[str, int]]:
        """All (shift, severity) of shifted images."""
        return [place for place in dict.fromkeys(map(PLACE, self.rows)) if place[1] > 0]


def trained(methods: Iterable[str]) -> list[str]:
    return [name for name in methods if name not in REFERENCES]


def settings_of(config: Config, metrics: Metrics) -> dict[str, Any]:
    return {**config.values, **metrics.settings}


# What images references learn from, but for the seed.
LEARNED_FROM = ("data.held_out", "data.limit", "train.folds", "train.class_weights")


class Tested(Protocol):
    """A run, or some of its methods, as others are held against it."""

    @property
    def metrics(self) -> Metrics: ...

    @property
    def settings(self) -> dict[str, Any]: ...

    @property
    def rows(self) -> list[Row]: ...

    @property
    def data(self) -> DataFacts | None: ...

    @property
    def cells(self) -> list[tuple[str, int]]: ...


def alike(runs: Sequence[Tested]) -> bool:
    """Whether the runs were tested on the same images, shifted ones too, whatever they learned from."""
    return same_tests(runs) and _same_shifts(runs)


def same_tests(runs: Sequence[Tested]) -> bool:
    """The same of images that are not shifted."""
    return all(_same_images(runs[0], one) for one in runs)


def same_shifts(runs: Sequence[Tested]) -> bool:
    """The same of shifted images, and of those runs alone that were tested on some."""
    return _same_shifts([one for one in runs if one.cells])


def _same_shifts(runs: Sequence[Tested]) -> bool:
    return (
        same_suite(*(one.metrics.suite for one in runs)) and len({frozenset(one.cells) for one in runs}) <= 1
    )


def _same_images(one: Tested, other: Tested) -> bool:
    if one.data is None or other.data is None:
        return one.data is other.data and one.rows[0].dataset == other.rows[0].dataset
    return one.data.same_images(one.settings, other.data, other.settings)


def same_learning(one: Tested, other: Tested) -> bool:
    """Whether both learned from the same images."""
    checksums = [run.data and run.data.blake2b for run in (one, other)]
    return checksums[0] == checksums[1]


def same_references(one: Tested, other: Tested) -> bool:
    """Whether references of both learned from the same images in the same way, but for the seed."""
    same = all(one.settings.get(key) == other.settings.get(key) for key in LEARNED_FROM)
    return same and same_learning(one, other)


def differing(runs: Sequence[Tested]) -> dict[str, list[Any]]:
    """The settings that runs which have them set differently, each with the runs' values; None: it has none."""
    every = _of_each(runs)
    return {key: values for key, values in every.items() if len(_known(values)) > 1}


def only_in_some(runs: Sequence[Tested]) -> dict[str, list[Any]]:
    """The settings that not all runs have and those that do have set alike; None: it has none."""
    every = _of_each(runs)
    return {key: values for key, values in every.items() if len(_known(values)) == 1 and None in values}


def _of_each(runs: Sequence[Tested]) -> dict[str, list[Any]]:
    configs = [one.settings for one in runs]
    keys = dict.fromkeys(key for config in configs for key in config)
    return {key: [config.get(key) for config in configs] for key in keys}


def _known(values: Sequence[Any]) -> list[Any]:
    """Those that are there, each once."""
    return [value for k, value in enumerate(values) if value is not None and value not in values[:k]]
