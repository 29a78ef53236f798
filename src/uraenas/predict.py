"""Predictions for image files: class, probability, uncertainty by source, and when to abstain."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from uraenas import calibration, metrics
from uraenas.data import read_image
from uraenas.data.folder import FORMATS
from uraenas.ensemble import Ensemble
from uraenas.errors import UraenasError

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
    abstain: bool
    note: str = ""


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be predicted."""

    file: str
    why: str


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The named files, and every file below the named folders; hidden ones are left out."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = (p for p in path.rglob("*") if p.is_file())
            files += sorted(
                p for p in below if not any(part.startswith(".") for part in p.relative_to(path).parts)
            )
        elif path.exists():
            files.append(path)
        else:
            raise UraenasError(f"{path} does not exist; give image files or folders of them")
    if not files:
        raise UraenasError(f"{', '.join(map(str, paths))} holds no files")
    return files


def threshold_for(confidence_N: Tensor, right_N: Tensor, risk: float) -> float:
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
    return float(ranked[passing[-1]]) if len(passing) else 1.1


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
            yield (
                item
                if isinstance(item, Unreadable)
                else Prediction(file=str(path), note=item[1], **next(rows))
            )
        progress(start + len(batch))


def _read(path: Path, ensemble: Ensemble) -> tuple[np.ndarray, str] | Unreadable:
    skeleton = ensemble.skeleton
    size = (skeleton.height, skeleton.width)
    try:
        image = read_image(path, size, skeleton.image_channels)
        with Image.open(path, formats=FORMATS) as opened:
            note = f"resized from {opened.width}×{opened.height}" if opened.size != size[::-1] else ""
    except UraenasError as error:
        return Unreadable(str(path), str(error).removeprefix(f"{path} "))
    # Ensembles of float images were trained on 0 … 1.
    return (image if ensemble.of_bytes else image.astype(np.float32) / 255), note


def _rows(ensemble: Ensemble, images: np.ndarray, threshold: float) -> list[dict[str, Any]]:
    log_p_MNK = ensemble.member_log_probabilities(images)
    probability_NK = calibration.scale(metrics.mixture(log_p_MNK), ensemble.temperature).exp()
    split = metrics.uncertainty_by_source(log_p_MNK, [member.genotype for member in ensemble.members])
    confidence_N, label_N = probability_NK.max(dim=1)
    return [
        {
            "label": ensemble.classes[int(label_N[n])],
            "probability": float(confidence_N[n]),
            "abstain": bool(confidence_N[n] < threshold),
            **{source: float(getattr(split, source)[n]) for source in metrics.SOURCES},
        }
        for n in range(len(images))
    ]
