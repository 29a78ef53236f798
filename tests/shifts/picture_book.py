"""Images for the tests of corruptions: made of integers alone, so that every machine has the same."""

import numpy as np


def picture_book(count: int, height: int = 32, width: int = 32, channels: int = 3) -> np.ndarray:
    """Images with flat patches, edges, a little texture, and black and white corners."""
    generator = np.random.Generator(np.random.Philox(key=2019))
    patches = generator.integers(0, 256, (count, -(-height // 8), -(-width // 8), channels))
    images = patches.repeat(8, axis=1).repeat(8, axis=2)[:, :height, :width]
    images = np.clip(images + generator.integers(-12, 13, images.shape), 0, 255).astype(np.uint8)
    images[:, :4, :4], images[:, -4:, -4:] = 0, 255
    return images
