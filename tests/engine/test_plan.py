"""The plan covers every live convolution once, and maps never clash."""

import pytest

pytest.importorskip("triton")

from uraenas.engine.kernels.cells.plan import make_plan
from uraenas.engine.kernels.cells.rows import NORMED, Plan
from uraenas.engine.kernels.cells.wiring import wiring_of, wiring_of_supernet
from uraenas.spaces import CellSpace

FOUR = CellSpace(cells=2)
FIVE = CellSpace(
    channels=32, cells=2, nodes=5, operations=("none", "skip_connect", "nor_conv_3x3", "avg_pool_3x3")
)
MEMBERS = {
    FOUR: [(3, 2, 3, 1, 4, 3), (2, 0, 3, 3, 2, 1), (1, 1, 4, 0, 3, 2), (0, 0, 0, 3, 0, 0), (3,) * 6],
    FIVE: [
        (2, 1, 2, 3, 2, 0, 1, 2, 3, 2),
        (2,) * 10,
        (0, 2, 1, 0, 0, 3, 2, 2, 2, 0),
        (0,) * 6 + (1, 0, 0, 0),
    ],
}


def plans(space: CellSpace) -> list[Plan]:
    """Of a stack, and of the supernet."""
    members = [wiring_of(space.architecture(indices), space.skeleton) for indices in MEMBERS[space]]
    supernet = [wiring_of_supernet(space.cell, space.skeleton)]
    return [make_plan(wirings, space.skeleton, [1, 1, 1]) for wirings in (members, supernet)]


EVERY = pytest.mark.parametrize(
    "plan", [*plans(FOUR), *plans(FIVE)], ids=["stack", "supernet", "stack of five nodes", "supernet of five"]
)


def joined(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(start, end) of pieces that do not overlap, those that touch put together."""
    whole: list[tuple[int, int]] = []
    for start, end in sorted(pieces):
        if whole and start <= whole[-1][1]:
            assert start == whole[-1][1], "two pieces overlap"
            start = whole.pop()[0]
        whole.append((start, end))
    return whole


@pytest.mark.parametrize("space", [FOUR, FIVE], ids=["four nodes", "five nodes"])
def test_packs_cover_the_weights_of_all_convolutions(space: CellSpace) -> None:
    members = [space.weight_layout(space.architecture(indices)) for indices in MEMBERS[space]]
    for plan, layouts in zip(plans(space), (members, [space.supernet_layout()]), strict=True):
        expected, position = [], 0
        for layout in layouts:
            for entry in layout.entries:
                if len(entry.shape) == 4:
                    expected.append((position, position + entry.size))
                position += entry.size
        sizes = [pack.outputs * pack.inputs * (1 if pack.pooled else pack.taps) for pack in plan.packs]
        covered = [(pack.weight, pack.weight + size) for pack, size in zip(plan.packs, sizes, strict=True)]
        assert joined(covered) == joined(expected)


@EVERY
def test_every_map_is_written_once(plan: Plan) -> None:
    for stage in plan.stages:
        written = [edge.output for edge in stage.edges] + [total.output for total in stage.sums]
        assert len(written) == len(set(written))
        assert max(written) < stage.maps


@EVERY
def test_every_normed_edge_arrives_once_and_gets_its_gradient_once(plan: Plan) -> None:
    for stage in plan.stages:
        normed = [e for e, edge in enumerate(stage.edges) if edge.scale >= 0]
        arriving = [number for total in stage.sums for kind, number, _ in total.terms if kind == NORMED]
        assert sorted(arriving) == normed
        assert sorted(stage.order) == normed


@EVERY
def test_sums_read_only_maps_written_before(plan: Plan) -> None:
    for stage in plan.stages:
        written = {edge.output for edge in stage.edges}
        for total in stage.sums:
            assert all(number in written for _, number, _ in total.terms)
            written.add(total.output)
