"""What scikit-learn's plain classifiers of pixels reach on the same images: rows that an ensemble should beat."""

import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.data import LabelledImages, fit_images, in_units_of, stratified_split
from uraenas.evaluation import calibration, metrics
from uraenas.evaluation.evaluator import Judged
from uraenas.evaluation.row import Row, sizes_of

REFERENCES = {  # with what they are
    "logistic": "Logistic regression on the inputs as they are: no network, but a reference to hold methods against.",
    "forest": "A random forest on the inputs as they are: no network, but a reference to hold methods against.",
}
MOST_IMAGES, MOST_SIDE = 4000, 32  # so that they take seconds: more images are drawn from, larger ones shrunk
STRENGTHS = (1.0, 0.1, 0.01)  # of logistic regression (scikit-learn's C), chosen by held-out NLL
TREES = 100


class References:
    """Logistic regression and a random forest, fitted to the training images, with their temperatures."""

    def __init__(self, train: LabelledImages, held_out: LabelledImages, seed: int) -> None:
        key = draws.key(seed, "references") & (2**31 - 1)
        if len(train) > MOST_IMAGES:
            train = train.take(stratified_split(train.labels, (MOST_IMAGES,), key)[0])
        self.classes = int(train.labels.max()) + 1  # every class has training images
        labels = torch.from_numpy(held_out.labels)
        weights = None if held_out.weights is None else torch.from_numpy(held_out.weights)
        with _one_thread():
            self.logistic = _fitted_logistic(train, held_out)
            self.forest = _fitted_forest(train, key)
        self.temperatures = {
            name: calibration.fit_temperature(log_p, labels, weights)
            for name, log_p in self._log_probabilities(held_out.images).items()
        }

    def judged(self, images: np.ndarray) -> dict[str, Judged]:
        """What each says of these images, as if it were an ensemble of one."""
        return {
            name: Judged(log_p[None], [name], [name], self.temperatures[name])
            for name, log_p in self._log_probabilities(images).items()
        }

    def _log_probabilities(self, images: np.ndarray) -> dict[str, Tensor]:
        pixels = _pixels(images)
        with _one_thread():
            logistic = _log_softmax(self.logistic, pixels)
            votes = TREES * torch.from_numpy(self.forest.predict_proba(pixels))
        # One more vote is spread over all classes, so that none has probability 0.
        return {"logistic": logistic, "forest": ((votes + 1 / self.classes) / (TREES + 1)).log()}


def unbeaten(rows: Iterable[Row], method: str) -> list[str]:
    """A line for each reference that this method does not beat, temperature-scaled.

    It beats one if it is better in accuracy or NLL, and in neither worse: few test images often make accuracies equal.
    """
    rows = list(rows)
    full = sizes_of(rows)
    found = {
        (row.method, row.metric): row.value
        for row in rows
        if row.shift == "none" and row.calibration == "temperature" and row.members == full[row.method]
    }
    lines = []
    for name in REFERENCES:
        try:
            accuracy, nll = ([found[who, metric] for who in (method, name)] for metric in ("accuracy", "nll"))
        except KeyError:
            continue  # one of them was not measured
        behind = accuracy[0] < accuracy[1] or nll[0] > nll[1]
        if behind or (accuracy[0] == accuracy[1] and nll[0] == nll[1]):
            values = [f"{100 * a:.2f} % and NLL {n:.3f}" for a, n in zip(accuracy, nll, strict=True)]
            lines.append(
                f"{method} does not beat {name}, a plain classifier: test accuracy {values[0]}, against "
                f"{values[1]}; train longer, or on more data"
            )
    return lines


def _one_thread() -> AbstractContextManager[object]:
    """On more threads a matrix product rounds differently, and values would depend on the machine."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


def _fitted_logistic(train: LabelledImages, held_out: LabelledImages) -> Any:
    from sklearn.linear_model import LogisticRegression

    pixels, apart = _pixels(train.images), _pixels(held_out.images)
    labels = torch.from_numpy(held_out.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 200 steps need not converge to be a reference
        fitted = [
            LogisticRegression(C=strength, max_iter=200).fit(pixels, train.labels, train.weights)
            for strength in STRENGTHS
        ]
    return min(fitted, key=lambda one: metrics.nll(_log_softmax(one, apart), labels))


def _fitted_forest(train: LabelledImages, key: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(TREES, random_state=key)
    return forest.fit(_pixels(train.images), train.labels, train.weights)


def _pixels(images: np.ndarray) -> np.ndarray:
    """Rows of values from 0 to 1 [N, H·W·C]."""
    height, width, channels = images.shape[1:]
    if max(height, width) > MOST_SIDE:
        images = fit_images(images, min(height, MOST_SIDE), min(width, MOST_SIDE), channels)
    return in_units_of(images, np.dtype(np.float32)).reshape(len(images), -1)


def _log_softmax(model: Any, pixels: np.ndarray) -> Tensor:
    scores = torch.from_numpy(np.asarray(model.decision_function(pixels), np.float64))
    if scores.ndim == 1:  # two classes have one score
        scores = torch.stack([torch.zeros_like(scores), scores], dim=1)
    return torch.log_softmax(scores, dim=1)
