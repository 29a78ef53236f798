"""The embedded dataset is what it claims to be."""

import numpy as np

from uraenas.data import digits


def test_digits_are_whole_scaled_and_split_once() -> None:
    dataset = digits()
    assert dataset.train.images.shape == (1258, 8, 8, 1)
    assert dataset.test.images.shape == (539, 8, 8, 1)
    assert dataset.train.images.dtype == np.uint8
    assert dataset.train.images.max() == 255
    assert not dataset.flip
    assert dataset.padding == 1
    assert np.bincount(dataset.test.labels).min() >= 52
    np.testing.assert_array_equal(dataset.test.images, digits().test.images)
