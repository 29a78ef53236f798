"""scikit-learn's handwritten digits: real data that needs no download."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.splits import stratified_split

SPLIT_KEY = 8108  # a constant of the dataset: every run, whatever its seed, is tested on the same images
TEST_FRACTION = 0.3
FILE = "datasets/data/digits.csv.gz"  # in scikit-learn: lines of 64 pixels and a label
BRIGHTEST = 16  # the files count the dark pixels of 4×4 blocks


def digits() -> Dataset:
    """1,797 digits of 8×8 grey pixels, 70 % for training and 30 % for testing."""
    pixels, labels = _stored()
    images = np.rint(pixels * (255 / BRIGHTEST)).astype(np.uint8).reshape(-1, 8, 8, 1)
    both = LabelledImages(images, labels)
    classes = tuple(str(digit) for digit in range(10))
    train, test = stratified_split(labels, [1 - TEST_FRACTION, TEST_FRACTION], SPLIT_KEY, classes)
    return Dataset("digits", both.take(train), both.take(test), classes, flip=False, padding=1)


def _stored() -> tuple[np.ndarray, np.ndarray]:
    """What `load_digits` returns, from the file that it reads: to import scikit-learn takes a second and more."""
    found = find_spec("sklearn")
    file = Path(found.origin or "").parent / FILE if found else Path()
    if file.is_file():
        lines = np.loadtxt(file, delimiter=",")
        pixels, labels = lines[:, :-1], lines[:, -1]
    else:  # another version may keep it elsewhere
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
    return pixels, labels.astype(np.int64)
