"""Predictions for image files: class, probability, uncertainty by source, and when to abstain."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, require_share
from uraenas.data.dataset import mark_of
from uraenas.data.folder import images_below, no_image_in
from uraenas.data.pictures import UNREADABLE, read_pictures
from uraenas.ensemble.asked import USUAL, Asked
from uraenas.ensemble.ensemble import Ensemble
from uraenas.ensemble.threshold import Threshold
from uraenas.evaluation import calibration, conformal, metrics

BATCH = 256
LEARNED = "learned from it"
NOT_FINITE = "no prediction: what members say is not finite"


@dataclass(frozen=True)
class Prediction:
    """What the ensemble says of one file; uncertainties in nats, total = data + weights + architecture."""

    file: str
    label: str
    probability: float
    total: float
    data: float
    weights: float
    architecture: float
    p_value: float  # how often an image like those of the training looks like this
    foreign: bool  # too seldom
    abstain: bool  # it is foreign, or the probability is below the threshold
    reason: str  # why it abstains
    # classes, the most probable first, that hold the true one as often as was asked for
    prediction_set: list[str]
    probabilities: dict[str, float]  # by class
    note: str = ""


@dataclass(frozen=True)
class Rule:
    """When to abstain, and which classes to name: what was asked for, and what held-out images make of it."""

    threshold: Threshold
    share: float  # of images like those of the training that may be called foreign
    coverage: float
    quantile: float  # the score up to which classes belong to a prediction set

    @classmethod
    def of(cls, ensemble: Ensemble, asked: Asked = USUAL) -> "Rule":
        held_out = ensemble.require_known().of_classes
        quantile = held_out.quantile(asked.coverage)
        threshold = held_out.threshold(asked.risk, asked.certainty, require_share("share", asked.share))
        return cls(threshold, asked.share, asked.coverage, quantile)

    def sets(self, probability_NK: Tensor) -> list[list[int]]:
        """The classes in the prediction set of each image, the most probable first."""
        inside = conformal.prediction_sets(probability_NK, self.quantile).tolist()
        order = probability_NK.argsort(dim=1, descending=True, stable=True).tolist()
        return [[k for k in ks if own[k]] for ks, own in zip(order, inside, strict=True)]


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be predicted."""

    file: str
    why: str


def find_files(paths: Sequence[Path]) -> tuple[list[Path], int]:
    """The named files, every image below the named folders, and how many other files lie there.

    In a folder a file's ending says whether it is an image, as it does where a run learns from one. A file that is
    named has been meant, whatever its ending.
    """
    files: list[Path] = []
    left_out: list[Path] = []
    for path in paths:
        if path.is_dir():
            images, others = images_below(path)
            files += images
            left_out += others
        else:
            files.append(path)  # also one that does not exist: it is named when it cannot be read
    if paths and not any(path.exists() for path in paths):
        raise UraenasError(f"{paths[0]} does not exist; give image files or folders of them")
    if not files:
        raise no_image_in(", ".join(map(str, paths)), left_out)
    return files, len(left_out)


def predict_files(
    ensemble: Ensemble,
    files: Sequence[Path],
    asked: Asked,
    progress: Callable[[int], None] = lambda done: None,
    learned: Collection[str] = (),
) -> Iterator[Prediction | Unreadable]:
    """One result for each file, in order, a batch in memory at a time; `learned` are marks of training images."""
    rule = Rule.of(ensemble, asked)
    for start in range(0, len(files), BATCH):
        batch = files[start : start + BATCH]
        read = _read(batch, ensemble, learned)
        images = [item[0] for item in read if not isinstance(item, Unreadable)]
        rows = iter(rows_of(ensemble, np.stack(images), rule) if images else [])
        for path, item in zip(batch, read, strict=True):
            if isinstance(item, Unreadable):
                yield item
            elif row := next(rows):
                yield Prediction(file=str(path), note=item[1], **row)
            else:
                yield Unreadable(str(path), NOT_FINITE)
        progress(start + len(batch))


def _read(
    files: Sequence[Path], ensemble: Ensemble, learned: Collection[str]
) -> list[tuple[np.ndarray, str] | Unreadable]:
    """Of each file its pixels and a note, or why there are none."""
    shape, found = ensemble.space.shape, list[tuple[np.ndarray, str] | Unreadable]()
    for path, picture in zip(files, read_pictures(files, (shape.height, shape.width)), strict=True):
        if isinstance(picture, str):
            found.append(Unreadable(str(path), f"{UNREADABLE}: {picture}"))
            continue
        try:
            pixels = picture.with_channels(shape.channels)
        except UraenasError as error:
            found.append(Unreadable(str(path), str(error)))
            continue
        notes = [picture.note_in(shape.channels), LEARNED if learned and mark_of(pixels) in learned else ""]
        found.append((pixels, "; ".join(filter(None, notes))))
    return found


def rows_of(ensemble: Ensemble, images: np.ndarray, rule: Rule) -> list[dict[str, Any]]:
    """What is said of each image; nothing where it would not be a number."""
    return rows_from(ensemble, *ensemble.look(images), rule)


def rows_from(ensemble: Ensemble, log_p_MNK: Tensor, p_value_N: Tensor, rule: Rule) -> list[dict[str, Any]]:
    """The same, from what members say and p-values."""
    finite_N = torch.isfinite(log_p_MNK).all(dim=2).all(dim=0)
    probability_NK = calibration.scale(metrics.mixture(log_p_MNK), ensemble.temperature).exp()
    split = metrics.uncertainty_by_source(log_p_MNK, ensemble.functions)
    confidence_N, label_N = probability_NK.max(dim=1)
    foreign_N, unsure_N = p_value_N <= rule.share, confidence_N < rule.threshold.confidence
    sets = rule.sets(probability_NK)
    return [
        {
            "label": ensemble.classes[int(label_N[n])],
            "probability": float(confidence_N[n]),
            "p_value": float(p_value_N[n]),
            "foreign": bool(foreign_N[n]),
            "abstain": bool(foreign_N[n] or unsure_N[n]),
            "reason": f"unlike anything it was trained on (p = {p_value_N[n]:.2g})"
            if foreign_N[n]
            else "not sure enough"
            if unsure_N[n]
            else "",
            "prediction_set": [ensemble.classes[k] for k in sets[n]],
            "probabilities": dict(zip(ensemble.classes, probability_NK[n].tolist(), strict=True)),
            **{source: float(getattr(split, source)[n]) for source in metrics.SOURCES},
        }
        if finite_N[n]
        else {}
        for n in range(len(p_value_N))
    ]
