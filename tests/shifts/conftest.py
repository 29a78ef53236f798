"""The images that the tests of corruptions share."""

import numpy as np
import pytest
from picture_book import picture_book

from uraenas.data import load_dataset
from uraenas.data.cifar import CIFAR10, is_cifar_folder
from uraenas.data.settings import data_root


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    return picture_book(100)


@pytest.fixture(scope="session")
def cifar10_test() -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10's test set, where URAENAS_DATA (or ./datasets) has it."""
    if not is_cifar_folder(data_root(""), CIFAR10):
        pytest.skip(f"{data_root('')} holds no CIFAR-10; uraenas data cifar10 fetches it")
    test = load_dataset("cifar10").test
    return test.images, test.labels
