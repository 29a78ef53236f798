"""Predictions for rows of a table: a number and its interval, or a class, its set and whether to abstain; and doubt."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, require_share
from uraenas.data.tables import Frame
from uraenas.data.targets import names_of
from uraenas.ensemble.asked import USUAL, Asked
from uraenas.ensemble.ensemble import Ensemble
from uraenas.ensemble.predict import Rule
from uraenas.evaluation import SOURCES, numbers


def predict_rows(ensemble: Ensemble, rows: Any, asked: Asked = USUAL) -> list[dict[str, Any]]:
    """What is said of each row; uncertainty by source is entropy in nats, of numbers variance.

    Of several targets all but p-value and verdict is said of each, and called by its name: `price.predicted`.

    An interval or set holds the true value of rows like the held-out ones as often as `coverage` says. Foreign is a row
    unlike the training rows; of rows like them, at most `share` is called so. Of classes it abstains where a row is
    foreign, and where it is less sure than held-out rows allow for the risk. A category that was never seen may be
    any that was (`unseen.py`): the prediction is the mixture over those, at least as unsure as for them on average.
    Nothing is said of a row whose prediction would not be a number.
    """
    columns = ensemble.normalisation.columns
    if columns is None:
        raise UraenasError("this ensemble predicts images, not rows of a table")
    frame = columns.frame(rows)
    members, p_values, split = ensemble.look_and_split(frame)
    finite = torch.isfinite(members).all(dim=2).all(dim=0).tolist()
    sources = {source: getattr(split, source) for source in SOURCES}
    foreign = p_values <= require_share("share", asked.share)
    said = SAYINGS[ensemble.normalisation.target.name](ensemble, members, sources, foreign, asked)
    notes = unseen(ensemble, frame)
    return [
        {
            "row": n + 1,
            **said[n],
            "p_value": float(p_values[n]),
            "foreign": bool(foreign[n]),
            "note": notes[n],
        }
        if finite[n]
        else {}
        for n in range(len(notes))
    ]


def unseen(ensemble: Ensemble, frame: Frame) -> list[str]:
    """Of each row, which values were never seen in training: categories, missing ones, others than the only one."""
    columns = ensemble.normalisation.columns
    assert columns is not None
    found = {part.name: part.unseen(frame[part.name]).tolist() for part in columns.parts}
    count = len(next(iter(frame.values())))
    notes = []
    for n in range(count):
        strange = [value_in_words(name, frame[name][n]) for name, marks in found.items() if marks[n]]
        notes.append(f"never seen in training: {', '.join(strange)}" if strange else "")
    return notes


def value_in_words(name: str, value: Any) -> str:
    """A column and its value in one row."""
    return f"{name} missing" if value == "" or value != value else f"{name} = {value}"


def _numbers(
    ensemble: Ensemble, members: Tensor, sources: Mapping[str, Tensor], foreign_N: Tensor, asked: Asked
) -> list[dict[str, Any]]:
    measures, target = ensemble.measures, ensemble.normalisation.target
    mixture = measures.mean(members)
    mean, variance = numbers.moments(measures.scaled(mixture, ensemble.temperatures))
    ends = ensemble.require_known().of_numbers.interval(mixture, asked.coverage)
    facts = {"predicted": mean, "deviation": variance.sqrt(), "low": ends[..., 0], "high": ends[..., 1]}
    columns: dict[str, list[float]] = {}
    lists = {name: one.reshape(len(mean), -1).T.tolist() for name, one in {**facts, **sources}.items()}
    for k in range(len(target.parts)):
        columns |= {names_of(target, name)[k]: values[k] for name, values in lists.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _classes(
    ensemble: Ensemble, members: Tensor, sources: Mapping[str, Tensor], foreign_N: Tensor, asked: Asked
) -> list[dict[str, Any]]:
    rule = Rule.of(ensemble, asked)
    measures = ensemble.measures
    probability = measures.scaled(measures.mean(members), ensemble.temperature).exp()
    confidence, label = probability.max(dim=1)
    abstain = foreign_N | (confidence < rule.threshold.confidence)
    names, sets = ensemble.classes, rule.sets(probability)
    return [
        {
            "predicted": names[int(label[n])],
            "probability": float(confidence[n]),
            "abstain": bool(abstain[n]),
            "prediction_set": [names[k] for k in sets[n]],
            "probabilities": dict(zip(names, probability[n].tolist(), strict=True)),
            **{source: float(one[n]) for source, one in sources.items()},
        }
        for n in range(len(probability))
    ]


# By the name of the target.
SAYINGS: dict[
    str, Callable[[Ensemble, Tensor, Mapping[str, Tensor], Tensor, Asked], list[dict[str, Any]]]
] = {
    "classes": _classes,
    "numbers": _numbers,
    "several": _numbers,
}
