"""The skeleton's sizes, and what a network costs."""

import pytest

from uraenas.base.errors import UraenasError
from uraenas.networks import weight_layout
from uraenas.spaces import Cost, Genotype, Skeleton, all_genotypes, cost

CONVOLUTIONS_ONLY = Genotype(("nor_conv_3x3",) * 6)
TINY = Skeleton(channels=4, cells=1, height=8, width=8, image_channels=1, classes=3)


def test_six_convolutions_cost_what_the_benchmark_says() -> None:
    spent = cost(CONVOLUTIONS_ONLY, Skeleton())
    assert spent.parameters == 1_531_546
    assert round(spent.multiply_adds / 1e6, 2) == 220.12


def test_the_cheapest_network_costs_what_stands_outside_its_cells() -> None:
    c = 4
    stem = 9 * c + 2 * c
    reductions = sum(9 * a * 2 * a + 9 * (2 * a) ** 2 + a * 2 * a + 2 * 2 * 2 * a for a in (c, 2 * c))
    head = 2 * 4 * c + 4 * c * 3 + 3
    assert cost(Genotype(("none",) * 3 + ("skip_connect",) + ("none",) * 2), TINY).parameters == (
        stem + reductions + head
    )


@pytest.mark.parametrize(
    "skeleton", [TINY, Skeleton(channels=3, cells=2, height=9, width=6, image_channels=2, classes=7)]
)
def test_the_cost_in_parameters_is_the_size_of_the_weight_vector(skeleton: Skeleton) -> None:
    for genotype in list(all_genotypes())[5::97]:
        if genotype.connected:
            assert cost(genotype, skeleton).parameters == weight_layout(genotype, skeleton).size, genotype


def test_genotypes_of_one_form_cost_the_same() -> None:
    costs: dict[str, Cost] = {}
    for genotype in all_genotypes():
        spent = cost(genotype, TINY)
        assert costs.setdefault(genotype.canonical.text, spent) == spent, genotype


def test_blocks_halve_the_map_upwards_and_double_the_channels() -> None:
    blocks = list(Skeleton(channels=4, cells=2, height=9, width=6).blocks())
    assert [block.name for block in blocks] == [
        "cell0", "cell1", "reduce1", "cell2", "cell3", "reduce2", "cell4", "cell5",
    ]  # fmt: skip
    assert [(block.channels, block.height, block.width) for block in blocks[::3]] == [
        (4, 9, 6),
        (8, 5, 3),
        (16, 3, 2),
    ]
    assert Skeleton(channels=4).features == 16


@pytest.mark.parametrize(
    "wrong",
    [{"channels": 0}, {"cells": 0}, {"height": 3}, {"width": 3}, {"image_channels": 0}, {"classes": 1}],
)
def test_senseless_sizes_are_refused_by_name(wrong: dict[str, int]) -> None:
    ((name, given),) = wrong.items()
    with pytest.raises(UraenasError, match=f"{name} = {given} is out of range"):
        Skeleton(**wrong)
