"""What scikit-learn's plain models reach on the same examples: rows that an ensemble should beat."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

import numpy as np
import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.words import three_decimals
from uraenas.data import LabelledImages, fit_images, in_units_of, stratified_split
from uraenas.data.targets import Target
from uraenas.evaluation.classifiers import classifiers
from uraenas.evaluation.evaluator import Judged
from uraenas.evaluation.measures import measures_of
from uraenas.evaluation.regressors import regressors
from uraenas.evaluation.row import Row, sizes_of

_FOREST = "A random forest on the inputs as they are: no network, but a reference to hold methods against."
CLASSIFIERS = {  # with what they are
    "logistic": "Logistic regression on the inputs as they are: no network, but a reference to hold methods against.",
    "forest": _FOREST,
}
REGRESSORS = {
    "ridge": "Ridge regression on the inputs as they are: no network, but a reference to hold methods against.",
    "forest": _FOREST,
}
REFERENCES = CLASSIFIERS | REGRESSORS
MOST_IMAGES, MOST_SIDE = 4000, 32  # so that they take seconds: more images are drawn from, larger ones shrunk


class References:
    """The plain models of a target, fitted to the training images, with their temperatures."""

    def __init__(self, train: LabelledImages, held_out: LabelledImages, target: Target, seed: int) -> None:
        key = draws.key(seed, "references") & (2**31 - 1)
        if len(train) > MOST_IMAGES:
            train = drawn_from(train, target, MOST_IMAGES, key)
        inputs, apart, measures = _inputs(train.images), _inputs(held_out.images), measures_of(target)
        labels = torch.from_numpy(held_out.labels)
        weights = None if held_out.weights is None else torch.from_numpy(held_out.weights)
        with _one_thread():
            self.models = (
                regressors(inputs, train, target, key)
                if target.parts
                else classifiers(inputs, train, apart, held_out, key)
            )
        self.temperatures = {
            name: measures.fit(measures.mean(said[None]), labels, weights)
            for name, said in self._said(held_out.images).items()
        }

    def judged(self, images: np.ndarray) -> dict[str, Judged]:
        """What each says of these images, as if it were an ensemble of one."""
        return {
            name: Judged(said[None], [name], [name], self.temperatures[name])
            for name, said in self._said(images).items()
        }

    def _said(self, images: np.ndarray) -> dict[str, Tensor]:
        inputs = _inputs(images)
        with _one_thread():
            return {name: model(inputs) for name, model in self.models.items()}


def drawn_from(train: LabelledImages, target: Target, count: float, key: int) -> LabelledImages:
    """So many of these images, or this share of them, with classes or sizes of numbers in proportion."""
    strata = target.strata(train.labels) if target.parts else train.labels
    return train.take(stratified_split(strata, (count,), key)[0])


def unbeaten(rows: Iterable[Row], method: str) -> list[str]:
    """A line for each reference that this method does not beat, temperature-scaled.

    Of numbers it beats one if its RMSE is less. Of classes it does if it is better in accuracy or NLL, and in neither
    worse: few test images often make accuracies equal.
    """
    rows = list(rows)
    full = sizes_of(rows)
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.shift == "none" and row.calibration == "temperature" and row.members == full[row.method]:
            found.setdefault(row.method, {})[row.metric] = row.value
    lines = []
    for name in filter(REFERENCES.__contains__, found):
        own, other = found.get(method, {}), found[name]
        measured = own.keys() & other.keys()
        if "rmse" in measured:
            lines += _behind_in_numbers(method, own, name, other)
        elif {"accuracy", "nll"} <= measured:
            lines += _behind_in_classes(method, own, name, other)
    return lines


def _behind_in_numbers(method: str, own: dict[str, float], name: str, other: dict[str, float]) -> list[str]:
    """A line if the method does not beat this reference."""
    if own["rmse"] < other["rmse"]:
        return []
    values = [three_decimals("rmse", one["rmse"]) for one in (own, other)]
    return [
        f"{method} does not beat {name}, a plain regression: test RMSE {values[0]}, against {values[1]}; try other "
        "settings, or more data"
    ]


def _behind_in_classes(method: str, own: dict[str, float], name: str, other: dict[str, float]) -> list[str]:
    """The same."""
    behind = own["accuracy"] < other["accuracy"] or own["nll"] > other["nll"]
    same = own["accuracy"] == other["accuracy"] and own["nll"] == other["nll"]
    if not behind and not same:
        return []
    values = [f"{100 * one['accuracy']:.2f} % and NLL {one['nll']:.3f}" for one in (own, other)]
    return [
        f"{method} does not beat {name}, a plain classifier: test accuracy {values[0]}, against {values[1]}; train "
        "longer, or on more data"
    ]


def _one_thread() -> AbstractContextManager[object]:
    """On more threads a matrix product rounds differently, and values would depend on the machine."""
    import sklearn.linear_model  # noqa: F401 - it brings a BLAS of its own, and what is loaded later has no limit
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


def _inputs(images: np.ndarray) -> np.ndarray:
    """What they read [N, H·W·C]: of pictures values from 0 to 1, of a table what networks read."""
    height, width, channels = images.shape[1:]
    if max(height, width) > MOST_SIDE:
        images = fit_images(images, min(height, MOST_SIDE), min(width, MOST_SIDE), channels)
    return in_units_of(images, np.dtype(np.float32)).reshape(len(images), -1)
