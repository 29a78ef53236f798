"""The bench times real work on both sides, and its roofline counts what a network must do."""

import pytest

from uraenas.base.errors import UraenasError
from uraenas.bench import Size, measure, roofline
from uraenas.bench.kinds import KINDS
from uraenas.data.augment import AUGMENTATIONS
from uraenas.engine import Engine, EngineSettings
from uraenas.spaces import CellSpace, Genotype, Shape
from uraenas.weights import WEIGHTS


def test_every_case_gives_a_row() -> None:
    engine = Engine(EngineSettings(device="cpu"))
    space = CellSpace(channels=4, cells=1, shape=Shape(8, 8, classes=3))
    rows = list(measure(engine, Size(space, batch=8, search_batch=8, members=2, images=40), rounds=1))
    tasks = ["search step", "member training", "prediction", "corruption"]
    tasks += [f"training with {name}" for name in AUGMENTATIONS if name != "none"]
    tasks += [f"training {name}" for name in KINDS]
    assert [row["task"] for row in rows] == tasks
    for row in rows:
        assert row["ratio"] == pytest.approx(row["engine"] / row["plain"])
        assert row["peak_memory_gb"] > 0
    for row in rows[:3]:
        assert row["share_of_roofline"] > 0


def test_chosen_tasks_alone_are_timed() -> None:
    engine = Engine(EngineSettings(device="cpu"))
    size = Size(CellSpace(channels=4, cells=1, shape=Shape(8, 8)), 8, 8, members=1, images=40)
    rows = list(measure(engine, size, rounds=1, only=["training mimo", "corruption"]))
    assert [row["task"] for row in rows] == ["training mimo", "corruption"]
    with pytest.raises(UraenasError, match="training dropout"):
        next(measure(engine, size, rounds=1, only=["training dropuot"]))


def test_every_kind_that_changes_a_step_is_also_written_plainly() -> None:
    kinds = {name: row.make() for name, row in WEIGHTS.items()}
    own = {name for name, kind in kinds.items() if kind.forward or kind.objective}
    assert own - set(KINDS) == {"laplace", "sebays"}  # which train as `point` and as `ssig` do


def test_the_work_of_six_convolutions() -> None:
    work = roofline.of_member(
        Genotype(("nor_conv_3x3",) * 6), CellSpace().skeleton, images=2, transfers=5, passes=3
    )
    assert work.multiply_adds / 6 == pytest.approx(220.12e6, rel=1e-4)  # the benchmark's figure for one image
    stage = 32 * 32 * 16
    cells, reductions = 5 * 9 * (stage + stage // 2 + stage // 4), 5 * (stage // 2 + stage // 4)
    assert work.moved == 2 * 5 * (2 * stage + cells + reductions)
