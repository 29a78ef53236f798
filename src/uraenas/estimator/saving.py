"""A fitted estimator in a folder: its parameters, classes and columns as JSON, beside its ensemble."""

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields, shown
from uraenas.ensemble import Ensemble, saved
from uraenas.run.directory import Run

LABEL_KINDS = "biufUSO"
SCALARS = (str, bool, int, float, bytes)  # what a label may be
MOST_LABELS = 100 << 20  # bytes
FIRST = "UraeNAS"  # whose files have said whose they are only since there were others
LATER = ("budget",)  # parameters that files may lack, as they were written before there were these


class Saveable(BaseEstimator):
    """An estimator that can be saved. Abstract: it has an `ensemble_`, and a classifier `classes_`."""

    ensemble_: Ensemble

    def _fitted(self) -> Ensemble:
        check_is_fitted(self, "ensemble_")
        return self.ensemble_

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a folder of JSON and safetensors files; one that was saved there is replaced.

        A folder with anything else in it is refused. Whatever happens meanwhile, `load` gives the old one or the new.
        """
        ensemble = self._fitted()
        parameters = {**self.get_params(deep=False), "run_directory": None}
        if not isinstance(parameters["random_state"], int | np.integer):
            parameters["random_state"] = None
        if Run(path).exists:
            raise UraenasError(f"{path} is a run directory; save the estimator to another folder")
        facts: dict[str, Any] = {"kind": type(self).__name__, "parameters": _plain(parameters)}
        if hasattr(self, "classes_"):
            facts["classes"] = _stored_labels(self.classes_)
        if hasattr(self, "n_features_in_"):
            facts["features"] = int(self.n_features_in_)
        if hasattr(self, "feature_names_in_"):
            facts["columns"] = self.feature_names_in_.tolist()
        try:
            json.dumps(facts, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UraenasError(f"a parameter of the estimator cannot be saved: {error}") from error
        saved.write(Path(path), ensemble, facts)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        if Run(path).exists:
            raise UraenasError(f"{path} is a run directory; open it with uraenas.Run")
        ensemble, facts = saved.read(Path(path))
        kind = facts.text("kind") if facts.has("kind") else FIRST
        if kind != cls.__name__:
            raise UraenasError(f"{path} was saved by {shown(kind)}, not by {cls.__name__}")
        estimator = cls(**_stored_parameters(facts.table("parameters"), cls._get_param_names()))
        if hasattr(cls, "class_names"):
            estimator.classes_ = _stored_as(facts.table("classes"))
            places = tuple(map(str, range(len(estimator.classes_))))  # as classes of tables were called
            if ensemble.classes not in (estimator.class_names(), places):
                raise facts.error("its classes are not those of its ensemble")
        estimator.ensemble_ = ensemble
        if facts.has("features"):
            estimator.n_features_in_ = facts.whole("features")
        if facts.has("columns"):
            estimator.feature_names_in_ = np.array(facts.texts("columns"), dtype=object)
        return estimator


def are_scalars(labels: np.ndarray) -> bool:
    """Whether an array of objects is one of numbers and texts; missing ones are told elsewhere."""
    kinds = (*SCALARS, np.generic, type(None))
    return labels.dtype.kind != "O" or all(isinstance(one, kinds) for one in labels.ravel())


def _plain(value: Any) -> Any:
    """Numpy's numbers as Python's, which JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _stored_labels(classes: np.ndarray) -> dict[str, Any]:
    values = [one.decode("latin-1") if isinstance(one, bytes) else _plain(one) for one in classes.tolist()]
    return {"type": classes.dtype.str, "values": values}


def _stored_as(stored: Fields) -> np.ndarray:
    """The labels that `_stored_labels` described."""
    values = stored.list_of("values", lambda one: isinstance(one, SCALARS), "labels")
    try:
        kind = np.dtype(stored.text("type", 20))
        if kind.kind not in LABEL_KINDS or kind.itemsize * len(values) > MOST_LABELS:
            raise stored.error(f"labels cannot be of type {kind}")
        labels = np.array(
            [one.encode("latin-1") for one in values] if kind.kind == "S" else values, dtype=kind
        )
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise stored.error(f"labels cannot be read: {error}") from error
    if _stored_labels(labels)["values"] != values:
        raise stored.error("labels are not of their type")
    return labels


def _stored_parameters(stored: Fields, names: list[str]) -> dict[str, Any]:
    """The parameters that `save` wrote, all of them but for LATER, and no others."""
    stored.only(*names)
    found: dict[str, Any] = {}
    for name in names:
        if not stored.has(name):
            if name in LATER:
                continue
            raise stored.error(f"{name} is missing")
        value = stored.stored[name]
        if name == "value_range" and value is not None:
            found[name] = stored.numbers(name, 2)
        elif name == "image_shape" and value is not None:
            found[name] = stored.wholes(name)
        elif name == "settings" and value is not None:
            found[name] = dict(stored.table(name).stored)
        elif name in ("method", "preset", "channels", "device"):
            found[name] = stored.text(name)
        elif value is None or isinstance(value, SCALARS):
            found[name] = value
        else:
            raise stored.error(f"{name} is {shown(value)}")
    return found
