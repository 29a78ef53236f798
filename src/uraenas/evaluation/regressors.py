"""Plain regressions: ridge and a random forest, each with a Gaussian about what it predicts.

The deviation is the same for all rows: the root mean square of the errors on training rows that were left out, one by
one (ridge) or of the samples that trees learn from (forest). Each of several targets has a model of its own. Shapes: N
rows, D inputs, T targets.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.data import LabelledImages
from uraenas.data.targets import FLOOR, Target

PENALTIES = 10.0 ** np.arange(-2, 5)  # of ridge (scikit-learn's alpha), chosen by errors on rows left out
TREES = 100
# Of the columns that a split may be of: a third, as Breiman advises for numbers, but with many columns it takes long.
MOST_TRIED = 30
FARTHEST = 1000.0  # deviations from the mean label: a line goes on for ever, and one wild test value would undo a run

# inputs [N, D], labels [N] in units of their spread, weights of mean 1 [N] → a model, and its mean squared error
Fit = Callable[[np.ndarray, np.ndarray, np.ndarray | None], tuple[Any, float]]


@dataclass(frozen=True)
class Gaussians:
    """A model of each target, and the variance of its errors in units of the training labels."""

    target: Target
    models: Sequence[Any]
    variances: Sequence[float]

    def __call__(self, inputs_ND: np.ndarray) -> Tensor:
        """Mean and log-variance of each target in turn [N, 2 T]."""
        said = []
        for part, model, variance in zip(self.target.parts, self.models, self.variances, strict=True):
            mean_N = torch.from_numpy(model.predict(inputs_ND)).double().clamp(-FARTHEST, FARTHEST)
            mean_N = part.centre + part.scale * mean_N
            log_variance = math.log(max(FLOOR, variance)) + 2 * math.log(part.scale)
            said += [mean_N, torch.full_like(mean_N, log_variance)]
        return torch.stack(said, dim=-1)


def regressors(
    inputs_ND: np.ndarray, train: LabelledImages, target: Target, key: int
) -> dict[str, Gaussians]:
    """Both, by name, fitted to training rows."""
    return {
        "ridge": _each(_ridge, inputs_ND, train, target),
        "forest": _each(partial(_forest, key), inputs_ND, train, target),
    }


def _ridge(inputs_ND: np.ndarray, labels_N: np.ndarray, weights_N: np.ndarray | None) -> tuple[Any, float]:
    from sklearn.linear_model import RidgeCV

    ridge = RidgeCV(PENALTIES).fit(inputs_ND.astype(np.float64), labels_N, weights_N)
    return ridge, -float(ridge.best_score_)


def _forest(
    key: int, inputs_ND: np.ndarray, labels_N: np.ndarray, weights_N: np.ndarray | None
) -> tuple[Any, float]:
    from sklearn.ensemble import RandomForestRegressor

    tried = min(-(-inputs_ND.shape[1] // 3), MOST_TRIED)
    forest = RandomForestRegressor(TREES, max_features=tried, oob_score=True, random_state=key)
    with warnings.catch_warnings():
        # A row of very large weight may be in all samples; it counts as if the mean, 0, had been predicted.
        warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
        forest.fit(inputs_ND, labels_N, weights_N)
    errors_N = labels_N - forest.oob_prediction_
    return forest, float(np.average(errors_N**2, weights=weights_N))


def _each(fit: Fit, inputs_ND: np.ndarray, train: LabelledImages, target: Target) -> Gaussians:
    """A model for each target."""
    weights_N = None
    if train.weights is not None:
        weights_N = train.weights.astype(np.float64) / train.weights.mean(dtype=np.float64)
    own = zip(target.parts, train.labels.reshape(len(train), -1).T, strict=True)
    found = [fit(inputs_ND, (labels_N - part.centre) / part.scale, weights_N) for part, labels_N in own]
    return Gaussians(target, *zip(*found, strict=True))
