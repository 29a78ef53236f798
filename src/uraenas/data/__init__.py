"""Datasets, splits, and what a run may say about them."""

from uraenas.data.arrays import as_images
from uraenas.data.catalog import (
    DATASETS,
    EMBEDDED,
    OFFICIAL,
    fetch_dataset,
    load_dataset,
    load_from_settings,
    load_images,
)
from uraenas.data.cifar import CIFAR10, CIFAR100, load_cifar
from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.digits import digits
from uraenas.data.fit import fit_images, in_units_of
from uraenas.data.folder import load_folder
from uraenas.data.idx import load_idx
from uraenas.data.npz import load_npz, save_npz
from uraenas.data.pictures import read_image
from uraenas.data.settings import DataSettings, data_root
from uraenas.data.splits import stratified_split

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "DATASETS",
    "EMBEDDED",
    "OFFICIAL",
    "DataSettings",
    "Dataset",
    "LabelledImages",
    "as_images",
    "data_root",
    "digits",
    "fetch_dataset",
    "fit_images",
    "in_units_of",
    "load_cifar",
    "load_dataset",
    "load_folder",
    "load_from_settings",
    "load_idx",
    "load_images",
    "load_npz",
    "read_image",
    "save_npz",
    "stratified_split",
]
