"""The skeleton's sizes, and what a network costs."""

import itertools

import pytest

from uraenas.base.errors import UraenasError
from uraenas.spaces import CellSpace, Cost, Genotype, Shape

CONVOLUTIONS_ONLY = Genotype(("nor_conv_3x3",) * 6)
TINY = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 3))


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
    for genotype in itertools.islice(TINY.every(), 0, None, 5):
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
    ("wrong", "said"),
    [
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
        Shape(**wrong)
