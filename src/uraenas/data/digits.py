"""scikit-learn's handwritten digits: real data that needs no download."""

import numpy as np

from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.splits import stratified_split

SPLIT_KEY = 8108  # a constant of the dataset: every run, whatever its seed, is tested on the same images
TEST_FRACTION = 0.3
BRIGHTEST = 16  # the files count the dark pixels of 4×4 blocks


def digits() -> Dataset:
    """1,797 digits of 8×8 grey pixels, 70 % for training and 30 % for testing."""
    from sklearn.datasets import (
        load_digits,
    )  # here, because it takes a second that other datasets can do without

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / BRIGHTEST)).astype(np.uint8)[..., None]
    labels = bunch.target.astype(np.int64)
    both = LabelledImages(images, labels)
    classes = tuple(str(digit) for digit in range(10))
    train, test = stratified_split(labels, [1 - TEST_FRACTION, TEST_FRACTION], SPLIT_KEY, classes)
    return Dataset("digits", both.take(train), both.take(test), classes, flip=False, padding=1)
