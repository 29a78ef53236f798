"""Images for the tests of corruptions: made of integers alone, so that every machine has the same."""

import os
from pathlib import Path

import numpy as np
import pytest


def picture_book(count: int, height: int = 32, width: int = 32, channels: int = 3) -> np.ndarray:
    """Images with flat patches, edges, a little texture, and black and white corners."""
    generator = np.random.Generator(np.random.Philox(key=2019))
    patches = generator.integers(0, 256, (count, -(-height // 8), -(-width // 8), channels))
    images = patches.repeat(8, axis=1).repeat(8, axis=2)[:, :height, :width]
    images = np.clip(images + generator.integers(-12, 13, images.shape), 0, 255).astype(np.uint8)
    images[:, :4, :4], images[:, -4:, -4:] = 0, 255
    return images


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
