"""The scikit-learn faces: `UraeNAS` for images, `UraeNASClassifier` and `UraeNASRegressor` for tables."""

from uraenas.estimator.images import UraeNAS
from uraenas.estimator.tables import UraeNASClassifier, UraeNASRegressor

__all__ = ["UraeNAS", "UraeNASClassifier", "UraeNASRegressor"]
