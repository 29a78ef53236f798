"""The embedded dataset is what it claims to be."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

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


@pytest.mark.parametrize("file", ["datasets/data/digits.csv.gz", "elsewhere.csv.gz"])
def test_digits_are_those_of_scikit_learn_wherever_it_keeps_them(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[digits.__module__], "FILE", file)
    dataset, (pixels, labels) = digits(), load_digits(return_X_y=True)
    theirs = sorted(zip(np.rint(pixels * 255 / 16).tolist(), labels.tolist(), strict=True))
    parts = (dataset.train, dataset.test)
    images = np.concatenate([part.images.reshape(-1, 64) for part in parts])
    own = np.concatenate([part.labels for part in parts])
    assert sorted(zip(images.tolist(), own.tolist(), strict=True)) == theirs
