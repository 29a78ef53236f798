"""What a run may say about its data."""

import math
import os
from dataclasses import dataclass
from pathlib import Path

from uraenas.base.errors import UraenasError
from uraenas.base.words import names_in
from uraenas.data.arrays import CHANNEL_ORDERS
from uraenas.data.tables.table import KINDS, TableSettings

ROOT_VARIABLE = "URAENAS_DATA"
DEFAULT_ROOT = "datasets"

FLIPS = ("auto", "on", "off")


def data_root(root: str | os.PathLike[str] = "") -> Path:
    """Where downloaded datasets lie: the given folder, else $URAENAS_DATA, else `datasets` here."""
    return Path(root or os.environ.get(ROOT_VARIABLE, "") or DEFAULT_ROOT)


@dataclass(frozen=True)
class DataSettings:
    """Which images, and how the training set is divided."""

    # A name from the table of datasets, or the path of a table, an .npz file or a folder.
    name: str = "digits"
    root: str = ""  # where downloaded datasets lie; empty: $URAENAS_DATA, else `datasets`
    image_size: int = 32  # folders of images only: every image becomes this many pixels high and wide
    # Folders of images only: leave out what cannot be read, instead of refusing.
    skip_unreadable: bool = False
    limit: int = 0  # use at most so many training images, stratified and drawn by the seed; 0: all
    # Of the training set, for selection and calibration; unless there is a validation part.
    held_out: float = 0.15
    # Tables with train.folds and numbers to predict only: about this share of the rows is no chain's, for intervals.
    apart: float = 0.0
    flip: str = "auto"  # mirror images at random: on, off, or auto: only CIFAR and Fashion-MNIST
    padding: int = -1  # black pixels around images for random crops; -1: an eighth of the size of own images
    target: str = ""  # tables only: the column to predict; several columns of numbers with commas
    predict: str = "auto"  # tables only: the target as classes or as numbers; auto: by its values
    leave_out: str = ""  # tables only: columns that are not looked at, with commas
    weight: str = ""  # tables only: the column that says how much a row counts in training; empty: all alike
    pieces: int = 0  # tables only: of each column of numbers between its quantiles, read beside it; 0: none
    channels: str = "auto"  # .npz only: which axis holds the colours
    value_range: str = "auto"  # .npz only: "LOW,HIGH" of arrays that are neither uint8 nor within 0 … 1

    def __post_init__(self) -> None:
        _require(
            isinstance(self.name, str) and self.name != "", "name", self.name, "a dataset's name or path"
        )
        _require(isinstance(self.root, str), "root", self.root, "a folder, or nothing")
        _require(_is_integer(self.image_size, 4, 1024), "image_size", self.image_size, "an integer, 4 … 1024")
        _require(_is_integer(self.pieces, 0, 100), "pieces", self.pieces, "an integer, 0 (none) … 100")
        _require(_is_integer(self.limit, 0, 2**31), "limit", self.limit, "an integer, 0 (all) or more")
        _require(_is_between(self.held_out, 0, 0.9), "held_out", self.held_out, "above 0, below 0.9")
        none = isinstance(self.apart, int | float) and self.apart == 0
        _require(none or _is_between(self.apart, 0, 0.9), "apart", self.apart, "0 (none), or below 0.9")
        _require(self.flip in FLIPS, "flip", self.flip, ", ".join(FLIPS))
        _require(
            _is_integer(self.padding, -1, 256), "padding", self.padding, "an integer, 0 … 256, or -1 (auto)"
        )
        _require(self.channels in CHANNEL_ORDERS, "channels", self.channels, ", ".join(CHANNEL_ORDERS))
        _require(self.predict in KINDS, "predict", self.predict, ", ".join(KINDS))
        self.value_limits()

    @property
    def table(self) -> TableSettings:
        """Those of a table."""
        return TableSettings(
            self.target,
            leave_out=names_in(self.leave_out),
            kind=self.predict,
            held_out=self.held_out,
            pieces=self.pieces,
            weight=self.weight,
            apart=self.apart,
        )

    def value_limits(self) -> tuple[float, float] | None:
        """The stated range of array values, or none where the array must speak for itself."""
        if self.value_range == "auto":
            return None
        try:
            low, high = (float(limit) for limit in self.value_range.split(","))
        except (ValueError, AttributeError):
            low = high = math.nan
        well_formed = math.isfinite(low) and math.isfinite(high) and low < high
        _require(well_formed, "value_range", self.value_range, "auto, or LOW,HIGH such as 0,255")
        return low, high


def _require(fulfilled: bool, key: str, given: object, allowed: str) -> None:
    if not fulfilled:
        raise UraenasError(f"{key} = {given!r} is not allowed; allowed: {allowed}")


def _is_integer(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_between(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low < value < high
