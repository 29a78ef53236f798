"""Datasets, splits, and what a run may say about them."""

import os
from dataclasses import replace

from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.digits import digits
from uraenas.data.settings import DataSettings, data_root
from uraenas.data.splits import stratified_split
from uraenas.errors import unknown

__all__ = [
    "DataSettings",
    "Dataset",
    "LabelledImages",
    "data_root",
    "digits",
    "load_dataset",
    "load_from_settings",
    "stratified_split",
]


def load_dataset(
    name: str,
    root: str | os.PathLike[str] = "",
    image_size: int | None = None,
    channels: str = "auto",
    value_range: tuple[float, float] | None = None,
) -> Dataset:
    """The dataset of this name, or of the .npz file or folder at this path."""
    if name == "digits":
        return digits()
    raise unknown("dataset", name, ["digits"])


def load_from_settings(settings: DataSettings) -> Dataset:
    """The dataset that the settings name, with their say on flips and padding."""
    dataset = load_dataset(
        settings.name, settings.root, settings.image_size, settings.channels, settings.value_limits()
    )
    return replace(
        dataset,
        flip=dataset.flip if settings.flip == "auto" else settings.flip == "on",
        padding=dataset.padding if settings.padding < 0 else settings.padding,
    )
