"""Predictions for image files: class, probability, uncertainty by source, and when to abstain."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.folder import images_below, no_image_in
from uraenas.data.pictures import read_picture
from uraenas.ensemble.ensemble import SHARE, Ensemble, checked_share
from uraenas.evaluation import calibration, metrics

BATCH = 256


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
    probabilities: dict[str, float]  # by class
    note: str = ""

    @property
    def reason(self) -> str:
        """Why it abstains."""
        if self.foreign:
            return f"unlike anything it was trained on (p = {self.p_value:.2g})"
        return "abstain: not sure enough" if self.abstain else ""


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
    risk: float,
    share: float = SHARE,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Prediction | Unreadable]:
    """One result for each file, in order, a batch in memory at a time.

    It abstains where the image is foreign, for this share of false alarms, and where it is less sure than the held-out
    images allow for this share of errors.
    """
    threshold, share = ensemble.require_known().threshold(risk).confidence, checked_share(share)
    for start in range(0, len(files), BATCH):
        batch = files[start : start + BATCH]
        read = [_read(path, ensemble) for path in batch]
        images = [item[0] for item in read if not isinstance(item, Unreadable)]
        rows = iter(_rows(ensemble, np.stack(images), threshold, share) if images else [])
        for path, item in zip(batch, read, strict=True):
            yield (
                item
                if isinstance(item, Unreadable)
                else Prediction(file=str(path), note=item[1], **next(rows))
            )
        progress(start + len(batch))


def _read(path: Path, ensemble: Ensemble) -> tuple[np.ndarray, str] | Unreadable:
    shape = ensemble.space.shape
    size = (shape.height, shape.width)
    try:
        picture = read_picture(path, size)
        image = picture.with_channels(shape.channels)
    except UraenasError as error:
        return Unreadable(str(path), str(error).removeprefix(f"{path} "))
    notes = ["resized from {}×{}".format(*picture.size)] if picture.size != size[::-1] else []
    notes += [f"first of {picture.frames} frames"] if picture.frames > 1 else []
    notes += ["uses at most 12 of its 16 bits"] if picture.dim else []
    return image, "; ".join(notes)


def _rows(ensemble: Ensemble, images: np.ndarray, threshold: float, share: float) -> list[dict[str, Any]]:
    log_p_MNK, p_value_N = ensemble.look(images)
    probability_NK = calibration.scale(metrics.mixture(log_p_MNK), ensemble.temperature).exp()
    split = metrics.uncertainty_by_source(log_p_MNK, ensemble.functions)
    confidence_N, label_N = probability_NK.max(dim=1)
    return [
        {
            "label": ensemble.classes[int(label_N[n])],
            "probability": float(confidence_N[n]),
            "p_value": float(p_value_N[n]),
            "foreign": bool(p_value_N[n] <= share),
            "abstain": bool(confidence_N[n] < threshold or p_value_N[n] <= share),
            "probabilities": dict(zip(ensemble.classes, probability_NK[n].tolist(), strict=True)),
            **{source: float(getattr(split, source)[n]) for source in metrics.SOURCES},
        }
        for n in range(len(images))
    ]
