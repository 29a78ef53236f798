"""Batch norms that know the images to be predicted."""

import numpy as np
import torch

from uraenas.base import draws
from uraenas.data import digits
from uraenas.data.loader import Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import Member, Origin
from uraenas.ensemble.at_test_time import BATCH, with_statistics_of
from uraenas.spaces import CellSpace, Genotype, Shape

CELL = Genotype.from_string(
    "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|skip_connect~1|nor_conv_3x3~2|"
)
SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 10))
LAYOUT = SPACE.statistics_layout(CELL)
MEMBER = Member(
    CELL,
    SPACE.weight_layout(CELL).initial(draws.key(0, "weights")),
    LAYOUT.initial(),
    Origin("expected-point-00", 1, 0, 1),
)
TRAIN = digits().train


def first_norm(images: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of the first norm, after these images."""
    engine = Engine(EngineSettings(device="cpu"))
    found = with_statistics_of(images, MEMBER, SPACE, Normalisation.of(TRAIN.images), engine)
    of_norms = LAYOUT.views(found.statistics)
    return of_norms["stem.norm.mean"], of_norms["stem.norm.variance"]


def test_an_image_more_than_a_batch_counts_no_more_than_others() -> None:
    images = np.concatenate([TRAIN.images[:BATCH] // 4, np.full_like(TRAIN.images[:1], TRAIN.images.max())])
    before, after = first_norm(images[:BATCH]), first_norm(images)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=0.1, atol=0.05)


def test_statistics_of_classes_one_after_another_are_those_of_all() -> None:
    """The variance between classes counts, too."""
    half = BATCH // 2
    dark, light = TRAIN.images[:half] // 4, TRAIN.images.max() - TRAIN.images[:half] // 4
    in_order = np.concatenate([dark, dark, light, light])  # two batches
    once = first_norm(np.concatenate([dark, light]))  # a single one
    for one, other in zip(once, first_norm(in_order), strict=True):
        torch.testing.assert_close(one, other, rtol=0.01, atol=0.001)
