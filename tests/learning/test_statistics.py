"""Batch-norm statistics that are measured on training batches."""

import pytest
import torch
import torch.nn.functional as F

from uraenas.base import draws
from uraenas.data import digits
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.learning.statistics import BATCHES, measure_statistics
from uraenas.spaces import CellSpace, Genotype, Shape, Stack

CELL = Genotype.from_string(
    "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|skip_connect~1|nor_conv_3x3~2|"
)
ENGINE = Engine(EngineSettings(device="cpu", precision="float64"))
SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 10))
LAYOUT = SPACE.statistics_layout(CELL)


@pytest.fixture(scope="module")
def weights() -> torch.Tensor:
    return SPACE.weight_layout(CELL).initial(draws.key(0, "weights")).double()


def loader(images: int) -> Loader:
    """Batches of 64 of the first digits."""
    train = digits().train
    part = train.take(list(range(images)))
    return Loader(part, Normalisation.of(train.images), 64, 1, False, ENGINE.device, ENGINE.dtype)


def test_statistics_are_those_of_the_networks_own_maps(weights: torch.Tensor) -> None:
    batches = loader(320)
    statistics = LAYOUT.views(measure_statistics(CELL, weights, SPACE, batches, ENGINE, key=3, number=0))
    stem = SPACE.weight_layout(CELL).views(weights)["stem.weight"]
    drawn = batches.draw([3], epoch=0)
    assert batches.steps == 5 < BATCHES
    images = [batches.batch_at(drawn, k)[0][0] for k in range(5)]
    maps = [F.conv2d(one, stem, padding=1).movedim(1, 0).flatten(1) for one in images]
    torch.testing.assert_close(statistics["stem.norm.mean"], torch.stack([m.mean(1) for m in maps]).mean(0))
    variance = torch.stack([m.var(1) for m in maps]).mean(0)
    torch.testing.assert_close(statistics["stem.norm.variance"], variance)


def test_statistics_of_a_single_batch_make_prediction_the_same_as_training(weights: torch.Tensor) -> None:
    """The whole network: with a batch's own statistics at every norm, it predicts what it computes in training."""
    one = loader(64)
    statistics = measure_statistics(CELL, weights, SPACE, one, ENGINE, key=5, number=0)
    stack = Stack([CELL], SPACE).to(ENGINE.device, ENGINE.dtype)
    images = one.batch_at(one.draw([5], 0), 0)[0]
    stack.put(0, weights, statistics)
    evaluated, trained = stack.eval()(images), stack.train()(images)
    torch.testing.assert_close(evaluated, trained, rtol=0.02, atol=0.02)  # n and n − 1
    named = LAYOUT.views(statistics)
    assert all(value.gt(0).all() for name, value in named.items() if "variance" in name)
