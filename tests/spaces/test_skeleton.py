"""The skeleton's sizes, and what a network costs."""

import pytest
from plain_cases import EVERY, TINY

from uraenas.base.errors import UraenasError
from uraenas.spaces import CellSpace, Cost, Genotype, Shape
from uraenas.spaces.cells import Skeleton

CONVOLUTIONS_ONLY = Genotype(("nor_conv_3x3",) * 6)


def test_six_convolutions_cost_what_the_benchmark_says() -> None:
    spent = CellSpace().cost(CONVOLUTIONS_ONLY)
    assert spent.parameters == 1_531_546
    assert round(spent.multiply_adds / 1e6, 2) == 220.12


def test_the_cheapest_network_costs_what_stands_outside_its_cells() -> None:
    c = 4
    stem = 9 * c + 2 * c
    reductions = sum(9 * a * 2 * a + 9 * (2 * a) ** 2 + a * 2 * a + 2 * 2 * 2 * a for a in (c, 2 * c))
    head = 2 * 4 * c + 4 * c * 3 + 3
    cheapest = Genotype(("none",) * 3 + ("skip_connect",) + ("none",) * 2)
    assert TINY.cost(cheapest).parameters == stem + reductions + head


def test_genotypes_of_one_form_cost_the_same() -> None:
    costs: dict[str, Cost] = {}
    for genotype in EVERY[::5]:
        spent = TINY.cost(genotype)
        assert costs.setdefault(genotype.canonical.text, spent) == spent, genotype


def test_blocks_halve_the_map_upwards_and_double_the_channels() -> None:
    blocks = list(CellSpace(channels=4, cells=2, shape=Shape(9, 6)).skeleton.blocks())
    assert [block.name for block in blocks] == [
        "cell0", "cell1", "reduce1", "cell2", "cell3", "reduce2", "cell4", "cell5",
    ]  # fmt: skip
    assert [(block.channels, block.height, block.width) for block in blocks[::3]] == [
        (4, 9, 6),
        (8, 5, 3),
        (16, 3, 2),
    ]
    assert CellSpace(channels=4).skeleton.features == 16


@pytest.mark.parametrize(
    ("size", "halvings", "map_size"),
    [
        ((8, 8), 0, (8, 8)),
        ((48, 48), 0, (48, 48)),
        ((49, 20), 1, (25, 10)),
        ((64, 64), 1, (32, 32)),
        ((96, 97), 2, (24, 25)),
        ((128, 128), 2, (32, 32)),
        ((224, 224), 3, (28, 28)),
        ((1024, 4), 5, (32, 1)),
    ],
)
def test_the_stem_halves_large_images_until_cells_can_bear_them(
    size: tuple[int, int], halvings: int, map_size: tuple[int, int]
) -> None:
    skeleton = CellSpace(channels=4, cells=1, shape=Shape(*size)).skeleton
    assert skeleton.halvings == halvings
    first = next(skeleton.blocks())
    assert (first.height, first.width) == map_size


def test_halvings_that_are_set_are_kept() -> None:
    large, small = Shape(224, 224), Shape(32, 32)
    assert CellSpace(halvings=0, shape=large).skeleton == Skeleton(height=224, width=224)
    assert [step.stride for step in CellSpace(halvings=0, shape=large).skeleton.stem()] == [1]
    steps = list(CellSpace(halvings=2, shape=small).skeleton.stem())
    assert [(step.name, step.channels_in, step.stride, step.height) for step in steps] == [
        ("stem", 3, 2, 16),
        ("stem1", 16, 2, 8),
    ]


def test_halving_makes_large_images_cost_about_what_small_ones_do() -> None:
    small, large = (CellSpace(shape=Shape(size, size)).cost(CONVOLUTIONS_ONLY) for size in (32, 224))
    assert large.multiply_adds < 1.2 * small.multiply_adds
    assert large.parameters == small.parameters + 2 * (9 * 16 * 16 + 2 * 16)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"halvings": -2}, "halvings = -2 is out of range"),
        ({"halvings": 9}, "halvings = 9 is out of range"),
        ({"channels": 0}, "channels = 0 is out of range"),
        ({"cells": 0}, "cells = 0 is out of range"),
        ({"nodes": 1}, "nodes = 1 is out of range"),
        ({"nodes": 9}, "nodes = 9 is out of range"),
        ({"operations": ()}, "a cell needs some that exist"),
        ({"operations": ("none",)}, "a cell needs some that exist"),
        ({"operations": ("none", "nor_conv_9x9")}, "nor_conv_9x9.*a cell needs some that exist"),
    ],
)
def test_senseless_cells_are_refused_by_name(wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        CellSpace(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"height": 3}, "images have height 3; it must be at least 4"),
        ({"width": 3}, "images have width 3; it must be at least 4"),
        ({"channels": 0}, "images have channels 0; it must be at least 1"),
        ({"classes": 1}, "classes = 1 is out of range"),
    ],
)
def test_senseless_images_are_refused_by_name(wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        CellSpace(shape=Shape(**wrong))
