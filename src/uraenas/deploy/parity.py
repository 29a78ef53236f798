"""Whether a file says what its ensemble says, on images or rows that are made up."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from uraenas.base.errors import UraenasError
from uraenas.data.tables import Columns, Number
from uraenas.data.targets import Target, names_of
from uraenas.ensemble import Ensemble
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.predict import Rule
from uraenas.ensemble.runtime import PARITY
from uraenas.ensemble.table_rows import predict_rows
from uraenas.evaluation import calibration, conformal, metrics
from uraenas.evaluation.metrics import SOURCES

BATCHES = (1, 12)  # numbers of images on which that is checked, other than the one it was recorded with


def parity_of_images(
    ensemble: Ensemble,
    says: Callable[[np.ndarray], Any],
    of_bytes: bool,
    rule: Rule | None,
    refused: bool = True,
) -> dict[str, float]:
    """The largest difference to the ensemble's own words, on noise and blots in several numbers of images.

    Of `abstain` and `prediction_set` it is the share of images on which they differ. That may be where a number lies on
    the edge, to within what is allowed; elsewhere it is refused, unless differences are only to be told.
    """
    random = np.random.default_rng(0)
    worst: dict[str, float] = {}
    for count in BATCHES:
        images = _patterns(random, count, ensemble, of_bytes)
        found, split = says(images), ensemble.uncertainty(images, device="cpu")
        expected = {source: getattr(split, source).numpy() for source in SOURCES}
        expected["probabilities"] = ensemble.predict_proba(images, device="cpu")
        apart = {name: float(np.abs(found[name] - values).max()) for name, values in expected.items()}
        if rule is not None:
            apart |= _apart(ensemble, rule, images, found, refused)
        worst = {name: max(worst.get(name, 0.0), value) for name, value in apart.items()}
    for name in ("probabilities", *SOURCES):
        if refused and not worst[name] <= PARITY:
            raise UraenasError(
                f"the file does not say what the ensemble says: {name} differ by {worst[name]:.2g}"
            )
    return worst


def _patterns(random: np.random.Generator, count: int, ensemble: Ensemble, of_bytes: bool) -> np.ndarray:
    """Images: noise, and from the second on blots of a few colours, which are less unlike photographs."""
    shape = ensemble.space.shape
    found = random.random((count, shape.height, shape.width, shape.channels), np.float32)
    coarse = random.random((count, 3, 3, shape.channels), np.float32)
    rows, columns = (np.arange(size) * 3 // size for size in (shape.height, shape.width))
    found[1:] = 0.9 * coarse[1:][:, rows][:, :, columns] + 0.1 * found[1:]
    return (found * 256).astype(np.uint8) if of_bytes else found


def _apart(
    ensemble: Ensemble, rule: Rule, images: Any, found: Mapping[str, np.ndarray], refused: bool = True
) -> dict[str, float]:
    """Differences in what follows from the numbers: p-values, and the share of images with another verdict or set."""
    log_p, p_value = ensemble.look(images, device="cpu")
    probability = calibration.scale(metrics.mixture(log_p), ensemble.temperature).exp()
    confidence = probability.amax(dim=1)
    abstain = (p_value <= rule.share) | (confidence < rule.threshold.confidence)
    sets = conformal.prediction_sets(probability, rule.quantile)
    scores = conformal.regularised(*conformal.set_scores(probability))
    step = 2 / (ensemble.require_known().images + 1)  # sums that are equal but for their last digits
    unsure = (confidence - rule.threshold.confidence).abs() <= PARITY
    tied = ((probability.unsqueeze(1) - probability.unsqueeze(2)).abs() <= PARITY).sum(dim=2) > 1
    on_edge = {
        "abstain": ((p_value - rule.share).abs() <= step) | unsure,
        "prediction_set": ((scores - rule.quantile).abs() <= PARITY) | tied,
    }
    differ = {
        name: torch.from_numpy(found[name]) != own
        for name, own in (("abstain", abstain), ("prediction_set", sets))
    }
    for name, which in differ.items():
        if refused and (which & ~on_edge[name]).any():
            raise UraenasError(
                f"the file does not say what the ensemble says: another {name} for some images"
            )
    shares = {
        name: float(which.reshape(len(which), -1).any(dim=1).double().mean())
        for name, which in differ.items()
    }
    return {"p_value": float(np.abs(found["p_value"] - p_value.numpy()).max()), **shares}


def parity_of_rows(
    ensemble: Ensemble, says: Callable[[Any], dict[str, np.ndarray]], rule: Rule | None, asked: Asked
) -> dict[str, float]:
    """The largest difference to `predict_rows`, relative to the value and to the target's scale.

    Rows are made up of what columns may hold: missing values and categories that were never seen are among them.
    """
    columns = ensemble.normalisation.columns
    assert columns is not None
    units = _units(ensemble.normalisation.target)
    worst: dict[str, float] = {}
    for count in BATCHES:
        rows = _made_up(columns, count)
        found, expected = says(rows), predict_rows(ensemble, rows, asked)
        values = {name: np.array([row[name] for row in expected]) for name in (*units, "p_value", "foreign")}
        apart = {name: _relative(found[name], values[name], own) for name, own in units.items()}
        if rule is not None:
            proba = ensemble.predict_proba(rows, device="cpu")
            apart["probabilities"] = float(np.abs(found["probabilities"] - proba).max())
            apart |= _apart(ensemble, rule, rows, found)
        else:
            apart["p_value"] = float(np.abs(found["p_value"] - values["p_value"]).max())
            step = 2 / (ensemble.require_known().images + 1)
            clear = np.abs(values["p_value"] - asked.share) > step
            if (clear & (found["foreign"] != values["foreign"])).any():
                raise UraenasError(
                    "the file does not say what the ensemble says: another foreign for some rows"
                )
        worst = {name: max(worst.get(name, 0.0), value) for name, value in apart.items()}
    for name in worst.keys() & {*units, "probabilities"}:
        if not worst[name] <= PARITY:
            raise UraenasError(
                f"the file does not say what the ensemble says: {name} differ by {worst[name]:.2g}"
            )
    return worst


def _units(target: Target) -> dict[str, float]:
    """What differences are held against, by output."""
    if not target.parts:
        return dict.fromkeys(SOURCES, 1.0)
    found: dict[str, float] = {}
    for k, part in enumerate(target.parts):
        found |= {names_of(target, source)[k]: part.scale**2 for source in SOURCES}
        of_number = ("predicted", "deviation", "low", "high")
        found |= {names_of(target, name)[k]: part.scale for name in of_number}
    return found


def _relative(found: np.ndarray, expected: np.ndarray, unit: float) -> float:
    """The largest difference, of numbers that may be infinite."""
    differ = found != expected
    found, expected = found[differ], expected[differ]
    return float((np.abs(found - expected) / (unit + np.abs(expected))).max(initial=0.0))


def _made_up(columns: Columns, count: int) -> dict[str, np.ndarray]:
    """Rows of numbers around the training rows', and of all categories, some missing and some never seen."""
    random = np.random.default_rng(0)
    rows: dict[str, np.ndarray] = {}
    for part in columns.parts:
        if isinstance(part, Number):
            values = part.mean + part.deviation * random.standard_normal(count)
            rows[part.name] = np.where(random.random(count) < 0.1, np.nan, values)
        else:
            rows[part.name] = random.choice([*part.values, "", "never seen"], count).astype(object)
    return rows
