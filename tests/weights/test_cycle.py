"""The cosine cycle is the paper's, and says which epochs give samples."""

import math

import pytest

from uraenas.base.errors import UraenasError
from uraenas.weights import Cycle


@pytest.mark.parametrize(("epochs", "steps", "cycles"), [(8, 5, 4), (6, 1, 1), (9, 7, 3)])
def test_step_sizes_and_stages_are_those_of_algorithm_1(epochs: int, steps: int, cycles: int) -> None:
    cycle = Cycle(epochs, steps, step_size=0.3, cycles=cycles, exploration=0.8)
    total, alpha_0, r = epochs * steps, 0.3, 0.8
    assert cycle.steps == total
    for k in range(1, total + 1):  # the paper counts from 1
        length = math.ceil(total / cycles)
        alpha_k = alpha_0 / 2 * (math.cos(math.pi * ((k - 1) % length) / length) + 1)
        assert cycle.step_size_at(k - 1) == pytest.approx(alpha_k, rel=1e-12)
        assert cycle.samples_at(k - 1) == (not ((k - 1) % length) / length < r)


def test_a_floor_lifts_the_end_of_the_cosine_and_keeps_its_start() -> None:
    cycle = Cycle(10, 100, step_size=0.025, floor=0.001)
    assert cycle.step_size_at(0) == pytest.approx(0.025)
    assert cycle.step_size_at(500) == pytest.approx(0.013)
    assert 0.001 < cycle.step_size_at(999) < 0.0011


def test_every_cycle_starts_anew() -> None:
    cycle = Cycle(12, 3, step_size=0.1, cycles=4, exploration=0.5)
    first = [(cycle.step_size_at(k), cycle.samples_at(k)) for k in range(9)]
    for number in range(1, 4):
        assert [
            (cycle.step_size_at(k), cycle.samples_at(k)) for k in range(9 * number, 9 * number + 9)
        ] == first


def test_exploration_of_one_never_samples_and_of_none_always_does() -> None:
    assert not any(Cycle(4, 5, 0.1, 2, exploration=1.0).samples_at(k) for k in range(20))
    assert all(Cycle(4, 5, 0.1, 2, exploration=0.0).samples_at(k) for k in range(20))


def test_the_last_epochs_of_each_cycle_give_one_sample_each() -> None:
    cycle = Cycle(12, 5, 0.1, cycles=3, samples_per_cycle=2)
    assert [epoch for epoch in range(12) if cycle.collects_after(epoch)] == [2, 3, 6, 7, 10, 11]
    assert [epoch for epoch in range(5) if Cycle(5, 2, 0.1).collects_after(epoch)] == [4]


def test_a_sampling_stage_of_short_cosines() -> None:
    cycle = Cycle(40, 5, 0.4, cycles=2, exploration=0.7, samples_per_cycle=3, peak=0.25)
    plain, short = Cycle(40, 5, 0.4, cycles=2, exploration=0.7), Cycle(2, 5, 0.1)
    for step in range(cycle.steps):
        epoch = step // 5 % 20
        assert cycle.samples_at(step) == (epoch >= 14)
        inside = step % 100 - 70
        one = short.step_size_at(inside % 10) if inside >= 0 else plain.step_size_at(step)
        assert cycle.step_size_at(step) == one
    assert [e for e in range(40) if cycle.collects_after(e)] == [15, 17, 19, 35, 37, 39]
    assert [cycle.number(epoch) for epoch in (0, 19, 20, 39)] == [0, 0, 1, 1]


def test_short_cosines_differ_by_an_epoch_where_they_cannot_be_equal() -> None:
    cycle = Cycle(20, 3, 0.1, exploration=0.5, samples_per_cycle=4, peak=0.5)
    assert [e for e in range(20) if cycle.collects_after(e)] == [11, 14, 16, 19]
    starts = [k // 3 for k in range(60) if cycle.samples_at(k) and cycle.step_size_at(k) == 0.05]
    assert starts == [10, 12, 15, 17]
    for samples in range(1, 11):
        uneven = Cycle(20, 1, 0.1, exploration=0.5, samples_per_cycle=samples, peak=0.5)
        assert sum(uneven.collects_after(e) for e in range(20)) == samples
        assert uneven.collects_after(19)


def test_a_sampling_stage_may_be_the_whole_cycle() -> None:
    cycle = Cycle(4, 2, 0.1, exploration=0.0, samples_per_cycle=2, peak=0.5)
    assert all(cycle.samples_at(k) for k in range(8))
    assert [cycle.step_size_at(k) for k in (0, 4)] == [0.05, 0.05]


def test_short_cosines_begin_at_a_whole_epoch() -> None:
    cycle = Cycle(7, 3, 0.1, exploration=0.8, samples_per_cycle=2, peak=0.5)  # 5.6 epochs explore
    assert [cycle.samples_at(k) for k in (14, 15)] == [False, True]
    assert cycle.step_size_at(15) == cycle.step_size_at(18) == 0.05
    assert Cycle(100, 1, 0.1, exploration=0.29).explored == 29  # 0.29 · 100 is less than 29 in floating point


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epochs": 10, "cycles": 3}, "epochs = 10 must be a multiple of cycles = 3"),
        ({"epochs": 0}, "epochs = 0"),
        ({"cycles": 0}, "cycles = 0"),
        ({"exploration": 1.1}, "exploration = 1.1 is out of range"),
        ({"exploration": -0.1}, "exploration = -0.1 is out of range"),
        ({"exploration": math.nan}, "exploration = nan is out of range"),
        ({"samples_per_cycle": 0}, "samples = 0 is out of range"),
        ({"samples_per_cycle": 7}, "a cycle of 6 epochs gives 1 … 6"),
        ({"peak": -0.1}, "peak = -0.1 is out of range"),
        ({"peak": 1.1}, "peak = 1.1 is out of range"),
        ({"peak": math.nan}, "peak = nan is out of range"),
        ({"peak": 0.5}, "leaves 0 for its 1 samples, of which each needs one; change exploration"),
        (
            {"peak": 0.5, "exploration": 0.5, "samples_per_cycle": 4},
            "leaves 3 for its 4 samples, of which each needs one; take 14 epochs or more",
        ),
        (
            {"level": 0.1, "exploration": 0.5, "cycles": 12},
            "with a level, exploration = 0.5 of a cycle of 1 epochs is less than one epoch",
        ),
        (
            {"peak": 0.5, "exploration": 0.5, "cycles": 12},
            "exploration = 0.5 of a cycle of 1 epochs is less than one epoch",
        ),
    ],
)
def test_impossible_cycles_are_refused(wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        Cycle(**{"epochs": 12, "steps_per_epoch": 5, "step_size": 0.1, "cycles": 2, **wrong})
