"""The images that the tests of corruptions share."""

import numpy as np
import pytest
from picture_book import picture_book

from uraenas.data import load_dataset
from uraenas.errors import UraenasError


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    return picture_book(100)


@pytest.fixture(scope="session")
def cifar10_test() -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10's test set, where URAENAS_DATA (or ./datasets) has it."""
    try:
        test = load_dataset("cifar10").test
    except UraenasError as error:
        pytest.skip(str(error))
    return test.images, test.labels
