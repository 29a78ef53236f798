"""Plain classifiers: logistic regression and a random forest. Shapes: N examples, D inputs, K classes."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.data import LabelledImages
from uraenas.evaluation import metrics

STRENGTHS = (1.0, 0.1, 0.01)  # of logistic regression (scikit-learn's C), chosen by held-out NLL
TREES = 100


@dataclass(frozen=True)
class Logistic:
    """Logistic regression."""

    model: Any

    def __call__(self, inputs_ND: np.ndarray) -> Tensor:
        """Log-probabilities [N, K]."""
        scores = torch.from_numpy(np.asarray(self.model.decision_function(inputs_ND), np.float64))
        if scores.ndim == 1:  # two classes have one score
            scores = torch.stack([torch.zeros_like(scores), scores], dim=1)
        return torch.log_softmax(scores, dim=1)


@dataclass(frozen=True)
class Votes:
    """A forest whose trees vote. One more vote is spread over all classes, so that none has probability 0."""

    model: Any
    classes: int

    def __call__(self, inputs_ND: np.ndarray) -> Tensor:
        """Log-probabilities [N, K]."""
        votes = TREES * torch.from_numpy(self.model.predict_proba(inputs_ND))
        return ((votes + 1 / self.classes) / (TREES + 1)).log()


def classifiers(
    inputs_ND: np.ndarray, train: LabelledImages, apart_ND: np.ndarray, held_out: LabelledImages, key: int
) -> dict[str, Logistic | Votes]:
    """Both, by name, fitted to training examples; `apart` are the inputs of those held out."""
    return {
        "logistic": _logistic(inputs_ND, train, apart_ND, held_out),
        "forest": _forest(inputs_ND, train, key),
    }


def _logistic(
    inputs_ND: np.ndarray, train: LabelledImages, apart_ND: np.ndarray, held_out: LabelledImages
) -> Logistic:
    from sklearn.linear_model import LogisticRegression

    labels = torch.from_numpy(held_out.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 200 steps need not converge to be a reference
        fitted = [
            LogisticRegression(C=strength, max_iter=200).fit(inputs_ND, train.labels, train.weights)
            for strength in STRENGTHS
        ]
    return min(map(Logistic, fitted), key=lambda one: metrics.nll(one(apart_ND), labels))


def _forest(inputs_ND: np.ndarray, train: LabelledImages, key: int) -> Votes:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(TREES, random_state=key)
    classes = int(train.labels.max()) + 1  # every class has training images
    return Votes(forest.fit(inputs_ND, train.labels, train.weights), classes)
