"""`UraeNAS`, the scikit-learn face: fit on image arrays, predict, and ask for uncertainty by source."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names

from uraenas.base.errors import UraenasError, require_share
from uraenas.base.progress import Lines, silent
from uraenas.data import Dataset, LabelledImages, as_images
from uraenas.data.arrays import require_clear_range
from uraenas.ensemble import SHARE
from uraenas.ensemble.held_out import CERTAINTY, COVERAGE
from uraenas.estimator.fitting import (
    folder_for,
    logarithms,
    parts_of_uncertainty,
    require_used,
    seed_of,
    trained,
    warn_of,
)
from uraenas.estimator.saving import LABEL_KINDS, Saveable, are_scalars
from uraenas.evaluation import calibration
from uraenas.evaluation.metrics import mixture
from uraenas.learning.methods import method
from uraenas.run.budget import plan
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline


class UraeNAS(ClassifierMixin, Saveable):
    """An ensemble over architectures and weights, as a scikit-learn classifier of images.

    Images are N×H×W, N×H×W×C or N×C×H×W arrays; uint8, or float within 0 … 1, or with a stated `value_range`.

    Parameters
    ----------
    method : a row of the table of methods; the default is the joint ensemble.
    preset : the settings to start from, as on the command line.
    members, epochs, search_epochs, width, cells : the most wanted settings; None keeps the preset's. Fewer than 10,000
        images are not searched on unless `search_epochs` is set: the search that comes with the package serves.
    settings : any other setting by its dotted key, such as {"train.sampling.temperature": 0.01}.
    flip : whether a mirrored image keeps its label.
    padding : how many pixels random crops may shift an image; None: an eighth of its size.
    value_range, channels : what the arrays do not say of themselves; see `uraenas.data.as_images`.
    image_shape : (H, W) or (H, W, C), where images come as rows N×D, as scikit-learn's own datasets have them.
    run_directory : where the run is kept; a fit that was cut off goes on from there, on the same images. None: nowhere.
    budget : how long `fit` may take: seconds, or a text such as "10m". What is not set above is chosen to fit.
        Few images of 16 to 48 pixels start from networks of CIFAR-10, unless `settings` has `train.sampled.start`.
    device : "auto", "cpu" or "cuda".
    random_state : an int makes the fit repeatable.
    verbose : whether `fit` says how far it has come, on standard error.
    """

    def __init__(
        self,
        method: str = "uraenas",
        *,
        preset: str = "digits",
        members: int | None = None,
        epochs: int | None = None,
        search_epochs: int | None = None,
        width: int | None = None,
        cells: int | None = None,
        settings: dict[str, Any] | None = None,
        flip: bool = False,
        padding: int | None = None,
        value_range: tuple[float, float] | None = None,
        channels: str = "auto",
        image_shape: tuple[int, ...] | None = None,
        run_directory: str | Path | None = None,
        budget: float | str | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.preset = preset
        self.members = members
        self.epochs = epochs
        self.search_epochs = search_epochs
        self.width = width
        self.cells = cells
        self.settings = settings
        self.flip = flip
        self.padding = padding
        self.value_range = value_range
        self.channels = channels
        self.image_shape = image_shape
        self.run_directory = run_directory
        self.budget = budget
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = self.image_shape is not None
        tags.input_tags.three_d_array = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "UraeNAS":
        """Learn the architecture distribution, draw and train the members."""
        method(self.method)
        require_used(self.settings or {}, "data.limit", "data.held_out")
        images = self._images(X)
        labels = _checked_labels(y, len(images))
        require_clear_range(images, self.value_range)
        if (rows := np.asarray(X)).ndim == 2:
            # scikit-learn wants to know how long they are, and what their columns are called.
            _check_feature_names(self, X, reset=True)
            self.n_features_in_ = rows.shape[1]
        self.classes_, coded = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise UraenasError(f"a classifier needs at least 2 classes; all labels are {self.classes_[0]}")
        part = LabelledImages(images, coded.astype(np.int64), _checked_weights(sample_weight, len(images)))
        padding = min(images.shape[1:3]) // 8 if self.padding is None else self.padding
        if not isinstance(padding, int) or not 0 <= padding <= 256:
            raise UraenasError(f"padding = {padding!r} is not allowed; it must be a whole number, 0 … 256")
        # No stage that fit calls looks at the test images, so the training images may stand in for them.
        dataset = Dataset("arrays", part, part, self.class_names(), self.flip, padding)
        with folder_for(self.run_directory) as folder:
            self.ensemble_ = trained(self._planned(folder, dataset), self.method, above=2)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities [N, K], temperature-scaled on images that no member was trained on."""
        return self._fitted().predict_proba(self._new_images(X), device=self.device)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities [N, K]."""
        return logarithms(self.predict_proba(X))

    def predict(
        self,
        X: Any,
        abstain: bool = False,
        risk: float = 0.05,
        share: float = SHARE,
        certainty: float = CERTAINTY,
    ) -> np.ndarray:
        """The most probable class of each image.

        With `abstain` it is a masked array: masked where the image is foreign (`is_foreign`), and where the ensemble is
        less sure than held-out images allow if at most the share `risk` of the rest is to be wrong, which holds with
        this certainty where they are many enough, and is an estimate with a warning where they are not.
        """
        if not abstain:
            most_probable = self.predict_proba(X).argmax(axis=1)
            return self.classes_[most_probable]
        ensemble = self._fitted()
        log_p, p_value = ensemble.look(self._new_images(X), self.device)
        mean = mixture(ensemble.require_finite(log_p))
        proba = calibration.scale(mean, ensemble.temperature).exp().numpy()
        known = ensemble.require_known()
        warn_of(known.of_classes.doubts_of_risk(risk, share, certainty, "image"))
        warn_of(known.doubts_of_foreign(share, "image"))
        threshold = known.threshold(risk, certainty, share).confidence
        mask = (p_value.numpy() <= require_share("share", share)) | (proba.max(axis=1) < threshold)
        return np.ma.masked_array(self.classes_[proba.argmax(axis=1)], mask=mask)

    def predict_set(self, X: Any, coverage: float = COVERAGE) -> np.ndarray:
        """Whether each class of `classes_` is in the image's prediction set [N, K].

        Of images like the training images, at least the share `coverage` has its true class in the set.
        """
        ensemble, images = self._fitted(), self._new_images(X)
        warn_of(ensemble.require_known().held_out.doubts_of_coverage(coverage, "image"))
        return ensemble.predict_set(images, coverage, self.device)

    def is_foreign(self, X: Any, share: float = SHARE) -> np.ndarray:
        """Whether each image is unlike the training images; of images like them, at most `share` is called so."""
        ensemble, images = self._fitted(), self._new_images(X)
        warn_of(ensemble.require_known().doubts_of_foreign(share, "image"))
        return ensemble.is_foreign(images, share, self.device)

    def uncertainty(self, X: Any) -> dict[str, np.ndarray]:
        """Per image, in nats: `total` entropy = `data` + `weights` + `architecture`.

        A warning names a part that is 0 because these members cannot tell it.
        """
        return parts_of_uncertainty(self._fitted(), self._new_images(X), self.device)

    def class_names(self) -> tuple[str, ...]:
        """What the ensemble calls its classes."""
        return tuple(map(str, self.classes_))

    def _settings(self) -> dict[str, Any]:
        """Those that differ from the preset's."""
        wanted = {
            "methods": self.method,
            "ensemble.members": self.members,
            "train.epochs": self.epochs,
            "search.epochs": self.search_epochs,
            "network.channels": self.width,
            "network.cells": self.cells,
            "engine.device": self.device,
            "evaluate.suite": "none",  # nothing is evaluated, so no shift has to suit the images
            "seed": seed_of(self.random_state),
        }
        changes = {key: value for key, value in wanted.items() if value is not None}
        return {**changes, **(self.settings or {})}

    def _planned(self, folder: Path, dataset: Dataset) -> Pipeline:
        settings = self._settings()
        config = preset(self.preset, settings)
        progress = Lines() if self.verbose else silent
        own = self.search_epochs is not None or any(key.startswith("search.") for key in self.settings or {})
        search_of: Literal["usual"] | None = None if own else "usual"
        if self.budget is None:
            return Pipeline.checked(folder, config, progress, dataset, search_of)
        known = (progress, dataset, search_of, self.budget)
        return plan(folder, config, *known, fixed=settings, evaluating=False).pipeline

    def _new_images(self, X: Any) -> np.ndarray:
        """Images of X, whose columns are those of the fit in the same order, if they have names."""
        if getattr(X, "ndim", 0) == 2:
            _check_feature_names(self, X, reset=False)
        return self._images(X)

    def _images(self, X: Any) -> np.ndarray:
        return as_images(X, self.value_range, self.channels, self.image_shape)


def _checked_labels(y: Any, count: int) -> np.ndarray:
    labels = np.asarray(y)
    if labels.dtype.kind not in LABEL_KINDS or not are_scalars(labels):
        raise UraenasError(
            f"labels of type {labels.dtype} are not allowed; allowed: numbers, booleans, texts"
        )
    if labels.shape != (count,):
        raise UraenasError(f"{count} images need {count} labels, not an array of {labels.shape}")
    if np.ma.is_masked(y) or any(label is None or label != label for label in labels.tolist()):
        raise UraenasError("labels contain missing values; leave those images out")
    check_classification_targets(labels)
    return labels


def _checked_weights(sample_weight: Any, count: int) -> np.ndarray | None:
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise UraenasError(f"sample_weight must be {count} numbers") from error
    if (
        weights.shape != (count,)
        or not np.isfinite(weights).all()
        or (weights < 0).any()
        or weights.sum() == 0
    ):
        raise UraenasError(f"sample_weight must be {count} finite numbers of 0 or more, not all 0")
    return weights
