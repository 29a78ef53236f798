"""Predictions for image files: class, probability, uncertainty by source, and when to abstain."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.base.regular_files import open_regular
from uraenas.data import read_image
from uraenas.data.folder import FORMATS, images_below, no_image_in
from uraenas.ensemble.ensemble import Ensemble
from uraenas.evaluation import calibration, metrics

BATCH = 256
NOT_FINITE = "no prediction: the members' probabilities are not finite"


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
    abstain: bool
    probabilities: dict[str, float]  # by class
    note: str = ""


@dataclass(frozen=True)
class Threshold:
    """The confidence below which to abstain, and the held-out images it rests on."""

    confidence: float
    risk: float  # the share of errors that was asked for
    images: int  # held out
    passing: int  # of these, as sure as that or surer
    wrong: int  # of the passing ones

    def __str__(self) -> str:
        rests = f"{self.wrong:,} of {self.passing:,} wrong"
        if self.passing == 0:
            words = f"abstain always: even the surest of {self.images:,} held-out images are wrong too often"
        elif self.passing == self.images:
            words = f"abstain below {self.confidence:.3f}, the least sure held-out image ({rests})"
        else:
            words = (
                f"abstain below {self.confidence:.3f} ({rests} above it, of {self.images:,} held-out images)"
            )
        few = "; too few images to tell" if self.risk * self.passing < 1 else ""
        return f"{words}; risk {100 * self.risk:g} %{few}"


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
        elif path.exists():
            files.append(path)
        else:
            raise UraenasError(f"{path} does not exist; give image files or folders of them")
    if not files:
        raise no_image_in(", ".join(map(str, paths)), left_out)
    return files, len(left_out)


def threshold_for(confidence_N: Tensor, right_N: Tensor, risk: float) -> Threshold:
    """The lowest confidence at which the held-out images that pass have at most this share of errors.

    An estimate from the held-out images, not a guarantee. Where no threshold will do, it is above 1: always abstain.
    """
    if not 0 < risk < 1:
        raise UraenasError(f"risk = {risk} is out of range; it must be more than 0 and less than 1")
    ranked = confidence_N.sort(descending=True).values
    risks = metrics.risk_at_coverage(confidence_N, right_N)
    last_of_tie = torch.cat(
        [ranked[1:] < ranked[:-1], torch.tensor([True])]
    )  # a threshold cannot part equals
    passing = torch.nonzero((risks <= risk) & last_of_tie)
    if len(passing) == 0:
        return Threshold(1.1, risk, len(ranked), 0, 0)
    last = int(passing[-1])
    wrong = round(float(risks[last]) * (last + 1))
    return Threshold(float(ranked[last]), risk, len(ranked), last + 1, wrong)


def predict_files(
    ensemble: Ensemble,
    files: Sequence[Path],
    threshold: float,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Prediction | Unreadable]:
    """One result for each file, in order, a batch in memory at a time."""
    for start in range(0, len(files), BATCH):
        batch = files[start : start + BATCH]
        read = [_read(path, ensemble) for path in batch]
        images = [item[0] for item in read if not isinstance(item, Unreadable)]
        rows = iter(_rows(ensemble, np.stack(images), threshold) if images else [])
        for path, item in zip(batch, read, strict=True):
            if isinstance(item, Unreadable):
                yield item
            elif row := next(rows):
                yield Prediction(file=str(path), note=item[1], **row)
            else:
                yield Unreadable(str(path), NOT_FINITE)
        progress(start + len(batch))


def _read(path: Path, ensemble: Ensemble) -> tuple[np.ndarray, str] | Unreadable:
    shape = ensemble.space.shape
    size = (shape.height, shape.width)
    try:
        image = read_image(path, size, shape.channels)
        with open_regular(path) as file, Image.open(file, formats=FORMATS) as opened:
            note = f"resized from {opened.width}×{opened.height}" if opened.size != size[::-1] else ""
    except UraenasError as error:
        return Unreadable(str(path), str(error).removeprefix(f"{path} "))
    return image, note


def _rows(ensemble: Ensemble, images: np.ndarray, threshold: float) -> list[dict[str, Any]]:
    """What is said of each image; nothing where it would not be a number."""
    log_p_MNK = ensemble.member_log_probabilities(images)
    finite_N = torch.isfinite(log_p_MNK).all(dim=2).all(dim=0)
    probability_NK = calibration.scale(metrics.mixture(log_p_MNK), ensemble.temperature).exp()
    split = metrics.uncertainty_by_source(log_p_MNK, ensemble.functions)
    confidence_N, label_N = probability_NK.max(dim=1)
    return [
        {
            "label": ensemble.classes[int(label_N[n])],
            "probability": float(confidence_N[n]),
            "abstain": bool(confidence_N[n] < threshold),
            "probabilities": dict(zip(ensemble.classes, probability_NK[n].tolist(), strict=True)),
            **{source: float(getattr(split, source)[n]) for source in metrics.SOURCES},
        }
        if finite_N[n]
        else {}
        for n in range(len(images))
    ]
