"""Predictions for rows of a table: a number with its interval or a class with its set, and where doubt comes from."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.data.tables import Frame
from uraenas.ensemble.ensemble import SHARE, Ensemble, checked_share
from uraenas.ensemble.held_out import COVERAGE
from uraenas.evaluation import SOURCES, conformal, numbers


def predict_rows(
    ensemble: Ensemble, rows: Any, coverage: float = COVERAGE, share: float = SHARE
) -> list[dict[str, Any]]:
    """What is said of each row; uncertainty by source is entropy in nats, of numbers variance.

    An interval or set holds the true value of rows like the held-out ones as often as `coverage` says. Foreign is a row
    unlike the training rows; of rows like them, at most `share` is called so. A category that was never seen may be
    any that was: the prediction is the mixture over those, so it is at least as unsure as for them on average.
    """
    columns = ensemble.normalisation.columns
    if columns is None:
        raise UraenasError("this ensemble predicts images, not rows of a table")
    frame = columns.frame(rows)
    members, p_values = ensemble.look(frame)
    prediction = ensemble.measures.scaled(ensemble.measures.mean(members), ensemble.temperature)
    split = ensemble.measures.split(members, ensemble.functions)
    said = SAYINGS[ensemble.normalisation.target.name](ensemble, prediction, coverage)
    notes = unseen(ensemble, frame)
    return [
        {
            "row": n + 1,
            **said[n],
            **{source: float(getattr(split, source)[n]) for source in SOURCES},
            "p_value": float(p_values[n]),
            "foreign": bool(p_values[n] <= checked_share(share)),
            "note": notes[n],
        }
        for n in range(len(notes))
    ]


def unseen(ensemble: Ensemble, frame: Frame) -> list[str]:
    """Of each row, which categories were never seen in training."""
    columns = ensemble.normalisation.columns
    assert columns is not None
    found: dict[str, list[bool]] = {
        part.name: part.encode(frame[part.name], 0)[1].tolist() for part in columns.parts
    }
    count = len(next(iter(frame.values())))
    notes = []
    for n in range(count):
        strange = [f"{name} = {frame[name][n]}" for name, marks in found.items() if marks[n]]
        notes.append(f"never seen in training: {', '.join(strange)}" if strange else "")
    return notes


def _numbers(ensemble: Ensemble, prediction: Tensor, coverage: float) -> list[dict[str, Any]]:
    mean, variance = numbers.moments(prediction)
    score = ensemble.require_known().of_numbers.quantile(coverage)
    ends = numbers.conformal_interval(prediction, score)
    facts = zip(mean.tolist(), variance.sqrt().tolist(), ends.tolist(), strict=True)
    return [
        {"predicted": middle, "deviation": deviation, "low": low, "high": high}
        for middle, deviation, (low, high) in facts
    ]


def _classes(ensemble: Ensemble, prediction: Tensor, coverage: float) -> list[dict[str, Any]]:
    probability = prediction.exp()
    sets = conformal.prediction_sets(probability, ensemble.require_known().of_classes.quantile(coverage))
    order = torch.argsort(probability, dim=1, descending=True, stable=True)
    names = ensemble.classes
    return [
        {
            "predicted": names[int(order[n, 0])],
            "probability": float(probability[n].max()),
            "prediction_set": [names[k] for k in order[n].tolist() if sets[n, k]],
        }
        for n in range(len(probability))
    ]


# By the name of the target.
SAYINGS: dict[str, Callable[[Ensemble, Tensor, float], list[dict[str, Any]]]] = {
    "classes": _classes,
    "numbers": _numbers,
}
