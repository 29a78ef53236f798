"""The images that the tests of corruptions share."""

import os
from pathlib import Path

import numpy as np
import pytest
from picture_book import picture_book


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    return picture_book(100)


@pytest.fixture(scope="session")
def cifar10_test() -> tuple[np.ndarray, np.ndarray]:
    """The CIFAR-10 test set from the folder of its binary layout that URAENAS_CIFAR10 names."""
    if not (folder := os.environ.get("URAENAS_CIFAR10")):
        pytest.skip("URAENAS_CIFAR10 does not name the folder of CIFAR-10's binary files")
    records = np.fromfile(Path(folder) / "test_batch.bin", np.uint8).reshape(-1, 3073)
    images = np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return images, records[:, 0].astype(np.int64)
