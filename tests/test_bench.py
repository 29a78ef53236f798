"""The bench times real work on both sides, and its roofline counts what a network must do."""

import pytest

from uraenas.bench import Size, measure, roofline
from uraenas.engine import Engine, EngineSettings
from uraenas.spaces import EDGES, Genotype, Skeleton


def test_every_case_gives_a_row() -> None:
    engine = Engine(EngineSettings(device="cpu"))
    skeleton = Skeleton(channels=4, cells=1, height=8, width=8, classes=3)
    rows = list(measure(engine, Size(skeleton, batch=8, search_batch=8, members=2, images=40), rounds=2))
    assert [row["task"] for row in rows] == ["search step", "member training", "prediction", "corruption"]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["engine"] / row["plain"])
        assert row["peak_memory_gb"] > 0
    for row in rows[:3]:
        assert 0 < row["share_of_roofline"] < 1


def test_the_work_of_six_convolutions() -> None:
    genotype = Genotype(("nor_conv_3x3",) * len(EDGES))
    work = roofline.of_member(genotype, Skeleton(), images=2, transfers=5, passes=3)
    assert work.multiply_adds / 6 == pytest.approx(220.12e6, rel=1e-4)  # the benchmark's figure for one image
    stage = 32 * 32 * 16
    cells, reductions = 5 * 9 * (stage + stage // 2 + stage // 4), 5 * (stage // 2 + stage // 4)
    assert work.moved == 2 * 5 * (2 * stage + cells + reductions)


def test_a_search_step_does_both_convolutions_on_every_edge() -> None:
    skeleton = Skeleton()
    alone = [
        roofline.of_member(Genotype((name,) * len(EDGES)), skeleton, 1, 1, 1).multiply_adds
        for name in ("nor_conv_3x3", "nor_conv_1x1", "skip_connect")
    ]
    work = roofline.of_search_step(skeleton, images=64)
    assert work.multiply_adds == 64 * 5 * (alone[0] + alone[1] - alone[2])


def test_the_longer_of_memory_and_arithmetic_counts() -> None:
    peak = roofline.Peak(moved=100.0, multiply_adds=10.0)
    assert peak.least_seconds(roofline.Work(moved=50, multiply_adds=2)) == 0.5
    assert peak.least_seconds(roofline.Work(moved=50, multiply_adds=20)) == 2.0
