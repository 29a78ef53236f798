"""`UraeNASClassifier` and `UraeNASRegressor`: the joint ensemble as scikit-learn estimators of tables.

X is an array N×D, also a sparse one or one of objects, or a pandas table; columns of texts are categories, and values
may be missing.
"""

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    column_or_1d,
    validate_data,
)

from uraenas.base.errors import UraenasError
from uraenas.base.progress import Lines, Progress, silent
from uraenas.data import Dataset
from uraenas.data.tables import TableSettings, frame_of, table_dataset
from uraenas.ensemble import SHARE
from uraenas.ensemble.held_out import COVERAGE
from uraenas.ensemble.table_rows import value_in_words
from uraenas.estimator.fitting import (
    folder_for,
    logarithms,
    parts_of_uncertainty,
    require_used,
    seed_of,
    trained,
    warn_of,
)
from uraenas.estimator.saving import Saveable
from uraenas.learning.methods import method as row_of_method
from uraenas.run.advice import leaks_into_promises
from uraenas.run.budget import plan
from uraenas.run.config import Config
from uraenas.run.config import preset as settings_of_preset
from uraenas.run.pipeline import Pipeline

TARGET = "the target"  # its column's name, and how those of several begin; none of X may be called so
WEIGHT = "the target's weight"


class TableEstimator(Saveable):
    """What both have in common. Abstract: they add a target, and override nothing.

    Parameters
    ----------
    method : a row of the table of methods; the default is the joint ensemble.
    preset : the settings to start from, as on the command line.
    members, epochs, search_epochs : the most wanted settings; None keeps the preset's, and for epochs takes as many as
        make about 2,000 steps.
    settings : any other setting by its dotted key, such as {"network.nodes": 2}.
    held_out : the share of rows for selection, calibration and intervals, which no member is trained on. None: as the
        preset has it, where each member leaves out rows of its own in turn, and intervals rest on a few that all do.
    budget : how long `fit` may take: seconds, or a text such as "10m". What is not set above is chosen to fit.
    run_directory : where the run is kept; None: nowhere.
    device : "auto", "cpu" or "cuda".
    random_state : an int makes the fit repeatable.
    verbose : whether `fit` says how far it has come, on standard error.
    """

    def __init__(
        self,
        method: str = "joint-adam",
        *,
        preset: str = "table",
        members: int | None = None,
        epochs: int | None = None,
        search_epochs: int | None = None,
        settings: dict[str, Any] | None = None,
        held_out: float | None = None,
        budget: float | str | None = None,
        run_directory: str | Path | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.preset = preset
        self.members = members
        self.epochs = epochs
        self.search_epochs = search_epochs
        self.settings = settings
        self.held_out = held_out
        self.budget = budget
        self.run_directory = run_directory
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        return tags

    def uncertainty(self, X: Any) -> dict[str, np.ndarray]:
        """Per row `total` = `data` + `weights` + `architecture`: of classes in nats, of numbers as variances.

        Of T targets each is [N, T]. All are without the temperature, which deviations and probabilities have.
        A warning names a part that is 0 because these members cannot tell it.
        """
        return parts_of_uncertainty(self._fitted(), self._rows(X), self.device)

    def is_foreign(self, X: Any, share: float = SHARE) -> np.ndarray:
        """Whether each row is unlike the training rows.

        Of rows like them at most `share` is called so; nearly, where `held_out` is None and there are classes or fewer
        than 317 rows.
        """
        ensemble, rows = self._fitted(), self._rows(X)
        warn_of(ensemble.require_known().doubts_of_foreign(share, "row"))
        return ensemble.is_foreign(rows, share, self.device)

    def _fit_target(
        self,
        rows: Any,
        labels: np.ndarray,
        kind: str,
        names: Sequence[str] = (TARGET,),
        classes: tuple[str, ...] = (),
        weights: np.ndarray | None = None,
    ) -> None:
        """Learn from rows with labels [N], or [N, T] of T targets with these names; of classes they are places."""
        with _as_value_error():
            columns = dict(zip(names, labels.reshape(len(labels), -1).T, strict=True))
            target = ",".join(columns)
            if weights is not None:
                columns[WEIGHT] = weights
            config = self._config()
            settings = TableSettings(
                target,
                (),
                kind,
                config.data.held_out,
                config.data.pieces,
                weight=WEIGHT if WEIGHT in columns else "",
                apart=config.data.apart if config.train.folds else 0.0,
            )
            frame = frame_of(rows)
            if taken := frame.keys() & columns:
                raise UraenasError(f"a column of X is called {min(taken)!r}; give it another name")
            counting = np.full(len(labels), True) if weights is None else weights > 0
            frame = {name: column[counting] for name, column in (frame | columns).items()}
            no_test = np.zeros(counting.sum(), bool)  # no stage that fit calls looks at test rows
            known = (frame, settings, no_test, seed_of(self.random_state))
            dataset = replace(table_dataset("rows", *known), classes=classes)
            with folder_for(self.run_directory) as folder:
                progress = Lines() if self.verbose else silent
                pipeline = self._planned(folder, config, progress, dataset)
                self.ensemble_ = trained(pipeline, self.method, above=3)
            warn_of([*dataset.notes, *leaks_into_promises(pipeline.task)], above=2)

    def _planned(self, folder: Path, config: Config, progress: Progress, dataset: Dataset) -> Pipeline:
        given = self._given()
        if self.budget is None:
            return Pipeline.checked(folder, config, progress, dataset, given=given)
        known = (progress, dataset, None, self.budget)
        return plan(folder, config, *known, fixed=given, evaluating=False).pipeline

    def _config(self) -> Config:
        row_of_method(self.method)
        require_used(self.settings or {}, "data.limit", "data.held_out", "data.pieces", "data.apart")
        return settings_of_preset(self.preset, self._given())

    def _given(self) -> dict[str, Any]:
        """The settings that were asked for."""
        wanted = {
            "methods": self.method,
            "ensemble.members": self.members,
            "train.epochs": self.epochs,
            "search.epochs": self.search_epochs,
            "engine.device": self.device,
            "seed": seed_of(self.random_state),
            "data.held_out": self.held_out,
            "train.folds": None if self.held_out is None else 0,
        }
        given = {key: value for key, value in wanted.items() if value is not None}
        return {**given, **(self.settings or {})}

    def _rows(self, X: Any) -> Any:
        """New rows in the form of those of the fit."""
        columns = self._fitted().normalisation.columns
        assert columns is not None
        rows = _dense(X)
        if _has_texts(rows):
            _check_feature_names(self, rows, reset=False)
            _check_n_features(self, rows, reset=False)
        else:
            checked = validate_data(self, rows, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
            rows = dict(zip(columns.names, checked.T, strict=True))
        with _as_value_error():
            frame = columns.frame(rows)
        for part in columns.parts:
            strange = part.unseen(frame[part.name])
            if strange.any():
                first = value_in_words(part.name, frame[part.name][strange.argmax()])
                rows_have = "1 row has" if strange.sum() == 1 else f"{strange.sum():,} rows have"
                warn_of([f"{rows_have} what no training row has, such as {first}"], above=2)
        return frame

    @property
    def _names(self) -> list[str] | None:
        """Of the columns, where they have some that can be told apart."""
        given = [str(name) for name in getattr(self, "feature_names_in_", ())]
        plain = all(name and not name.startswith(TARGET) for name in given)
        return given if plain and len(set(given)) == len(given) > 0 else None

    def _known_rows(self, X: Any, y: Any, **more: Any) -> tuple[Any, np.ndarray]:
        """Rows and labels of a fit, checked as scikit-learn does."""
        rows, y = _dense(X), _whole(y)
        if _has_texts(rows):
            _check_feature_names(self, rows, reset=True)
            _check_n_features(self, rows, reset=True)
            labels = check_X_y(np.zeros((len(rows), 1)), y, **more)[1]
        else:
            limits = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "ensure_min_samples": 2}
            checked, labels = validate_data(self, rows, y, **limits, **more)
            rows = frame_of(checked, self._names)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = column_or_1d(labels, warn=True)
        return rows, labels


def _target_names(y: Any, count: int, taken: Container[str]) -> list[str]:
    """Those of its columns where it has some that can stand beside those of the rows, else numbers."""
    given = [str(column) for column in getattr(y, "columns", ())]
    plain = all(name and name == name.strip() and "," not in name and name not in taken for name in given)
    if len(set(given)) == count and plain:
        return given
    return [f"{TARGET} {k}" for k in range(count)]


class UraeNASRegressor(RegressorMixin, TableEstimator):
    """An ensemble over architectures and weights that predicts a number, an interval, and where doubt comes from.

    With y [N, T] it predicts T numbers, each with a mean, variance, temperature and interval of its own.
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "UraeNASRegressor":
        """Learn the architecture distribution, draw and train the members; a row of weight 0 is left out."""
        rows, labels = self._known_rows(X, y, y_numeric=True, multi_output=True)
        weights = _checked_weights(sample_weight, labels)
        names = (TARGET,) if labels.ndim == 1 else _target_names(y, labels.shape[1], frame_of(rows))
        self._fit_target(rows, np.asarray(labels, np.float64), "numbers", names, weights=weights)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of each row's number [N] or [N, T], and with `return_std` its standard deviation."""
        mean, deviation = self._fitted().predict_distribution(self._rows(X), self.device)
        return (mean, deviation) if return_std else mean

    def predict_interval(self, X: Any, coverage: float = COVERAGE) -> np.ndarray:
        """An interval for each row [N, 2]; of rows like the training rows, the share `coverage` lies in it.

        At least that share does, whatever members are worth; nearly, where `held_out` is None and there are fewer than
        317 rows.
        Of T targets it is [N, T, 2], and that share is of each target by itself, not of all at once.
        """
        ensemble, rows = self._fitted(), self._rows(X)
        warn_of(ensemble.require_known().held_out.doubts_of_coverage(coverage, "row"))
        return ensemble.predict_interval(rows, coverage, self.device)


class UraeNASClassifier(ClassifierMixin, TableEstimator):
    """An ensemble over architectures and weights, as a classifier of rows."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "UraeNASClassifier":
        """Learn the architecture distribution, draw and train the members; a row of weight 0 is left out."""
        rows, labels = self._known_rows(X, y)
        _require_one_kind(labels)
        check_classification_targets(labels)
        weights = _checked_weights(sample_weight, labels)
        self.classes_ = np.unique(labels if weights is None else labels[weights > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"a classifier needs at least 2 classes; the data has 1 class, {self.classes_[0]}"
            )
        coded = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1).astype(np.float64)
        self._fit_target(rows, coded, "classes", classes=self.class_names(), weights=weights)
        return self

    def class_names(self) -> tuple[str, ...]:
        """What the ensemble calls its classes."""
        return tuple(map(str, self.classes_))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities [N, K], temperature-scaled on rows that no member was trained on."""
        return self._fitted().predict_proba(self._rows(X), device=self.device)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities [N, K]."""
        return logarithms(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    def predict_set(self, X: Any, coverage: float = COVERAGE) -> np.ndarray:
        """Whether each class of `classes_` is in the row's prediction set [N, K]; the true one is, so often."""
        ensemble, rows = self._fitted(), self._rows(X)
        warn_of(ensemble.require_known().held_out.doubts_of_coverage(coverage, "row"))
        return ensemble.predict_set(rows, coverage, self.device)


def _checked_weights(sample_weight: Any, labels: np.ndarray) -> np.ndarray | None:
    """Weights of mean 1 where they are not 0 [N]: only their ratios count."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight is 0 for all rows")
    return weights / weights[weights > 0].mean()


def _require_one_kind(labels: np.ndarray) -> None:
    """Refuse labels that are objects and not all texts: they have no order, and some may be missing."""
    kinds = {"nothing" if one is None else type(one).__name__ for one in labels.tolist()}
    if labels.dtype.kind == "O" and kinds != {"str"}:
        raise ValueError(
            f"Unknown label type: objects, here {' and '.join(sorted(kinds))}; give an array of numbers or of texts"
        )


def _whole(y: Any) -> Any:
    """Labels without a gap; those of a pandas column as numpy has them, since scikit-learn makes floats of Int64."""
    of_pandas = hasattr(y, "isna")
    if np.asarray(y.isna()).any() if of_pandas else np.ma.is_masked(y):
        raise ValueError("y has missing values; leave those rows out")
    return np.asarray(y) if of_pandas and y.ndim == 1 else y


def _dense(X: Any) -> Any:
    """Sparse rows with all their zeros, masked values as missing ones, and rows with texts as an array of objects."""
    if issparse(X):
        return X.toarray()
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(np.float64), np.nan)
    if not isinstance(X, list | tuple) and getattr(getattr(X, "dtype", None), "kind", "f") not in "OUS":
        return X
    try:
        np.asarray(X, np.float64)
    except (TypeError, ValueError):
        array = np.asarray(X, object)
        return array if array.ndim == 2 else X
    return X


def _has_texts(rows: Any) -> bool:
    """Whether these are a table with columns that are no numbers, or an array of texts and numbers."""
    if hasattr(rows, "dtypes") and hasattr(rows, "columns"):
        return any(getattr(kind, "kind", "O") not in "biuf" for kind in rows.dtypes)
    if not isinstance(rows, np.ndarray) or rows.dtype.kind != "O" or rows.ndim != 2:
        return False
    return any(issubclass(kind, (str, bytes)) for kind in set(map(type, rows.flat)))


@contextmanager
def _as_value_error() -> Iterator[None]:
    """scikit-learn wants a ValueError for data that cannot be learned from."""
    try:
        yield
    except UraenasError as error:
        raise ValueError(str(error)) from error
