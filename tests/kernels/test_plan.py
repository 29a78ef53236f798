"""The plan covers every live convolution once, and maps never clash."""

import pytest

from uraenas.kernels.plan import NORMED, make_plan
from uraenas.kernels.wiring import wiring_of
from uraenas.networks.stack import weight_layout
from uraenas.spaces import Genotype, Skeleton

MIXED = [(3, 2, 3, 1, 4, 3), (2, 0, 3, 3, 2, 1), (1, 1, 4, 0, 3, 2), (0, 0, 0, 3, 0, 0), (3, 3, 3, 3, 3, 3)]
SKELETON = Skeleton(cells=2)


@pytest.fixture
def plan():
    genotypes = [Genotype.from_indices(indices) for indices in MIXED]
    return make_plan([wiring_of(g, SKELETON) for g in genotypes], SKELETON, [1, 1, 1])


def test_packs_cover_the_weights_of_all_convolutions(plan):
    layouts = [weight_layout(Genotype.from_indices(indices), SKELETON) for indices in MIXED]
    expected, position = set(), 0
    for layout in layouts:
        for entry in layout.entries:
            if len(entry.shape) == 4:
                expected |= set(range(position, position + entry.size))
            position += entry.size
    covered = []
    for pack in plan.packs:
        stored = 1 if pack.pooled else pack.taps
        covered += range(pack.weight, pack.weight + pack.outputs * pack.inputs * stored)
    assert len(covered) == len(set(covered))
    assert set(covered) == expected


def test_every_map_is_written_once(plan):
    for stage in plan.stages:
        written = [edge.output for edge in stage.edges] + [total.output for total in stage.sums]
        assert len(written) == len(set(written))
        assert max(written) < stage.maps


def test_every_normed_edge_arrives_once_and_gets_its_gradient_once(plan):
    for stage in plan.stages:
        normed = [e for e, edge in enumerate(stage.edges) if edge.scale >= 0]
        arriving = [number for total in stage.sums for kind, number, _ in total.terms if kind == NORMED]
        assert sorted(arriving) == normed
        assert sorted(stage.order) == normed


def test_sums_read_only_maps_written_before(plan):
    for stage in plan.stages:
        written = {edge.output for edge in stage.edges}
        for total in stage.sums:
            assert all(number in written for _, number, _ in total.terms)
            written.add(total.output)
