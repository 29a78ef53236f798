"""Columns that moved are found, and those that did not are left alone as often as promised."""

import math

import numpy as np
import pytest
from scipy import stats

from uraenas.data.tables.columns import Category, Columns, Number, columns_of
from uraenas.evaluation.drift import moved

COLUMNS = Columns(
    (
        Number("same", 0.0, 0.0, 1.0, False, 0.0),
        Number("mean", 0.0, 0.0, 1.0, False, 0.0),
        Number("spread", 0.0, 0.0, 1.0, False, 0.0),
        Number("gaps", 0.0, 0.0, 1.0, True, 0.1),
        Category("town", ("a", "b", "c"), (0.5, 0.3, 0.2)),
        Category("kind", ("x", "y"), (0.5, 0.5)),
        Category("unknown", ("x", "y")),  # of a run that did not keep its shares
    )
)
TRAINING = 800


def rows(draw: np.random.Generator, n: int, shifted: bool) -> np.ndarray:
    by = 1.0 if shifted else 0.0
    same, mean, spread, gaps = draw.standard_normal((4, n))
    missing = draw.random(n) < 0.1 + 0.3 * by
    town = np.eye(3)[draw.choice(3, n, p=[0.5, 0.3 - 0.2 * by, 0.2 + 0.2 * by])]
    kind, unknown = (np.eye(2)[draw.integers(0, 2, n)] for _ in range(2))
    numbers = [same, mean + 0.5 * by, spread * (1 + 0.5 * by), np.where(missing, 0.0, gaps), missing]
    return np.concatenate([np.stack(numbers, axis=1), town, kind, unknown], axis=1)


def test_columns_that_moved_are_found_and_sized() -> None:
    found = {one.name: one for one in moved(COLUMNS, rows(np.random.default_rng(0), 400, True), TRAINING)}
    assert {name for name, one in found.items() if one.p_value < 0.05} == {"mean", "spread", "gaps", "town"}
    assert found["mean"].shift == pytest.approx(0.5, abs=0.15)
    assert found["spread"].spread == pytest.approx(1.5, abs=0.15)
    assert found["town"].shift == pytest.approx(0.2, abs=0.07)
    assert "unknown" not in found


def test_chance_alone_is_called_drift_as_rarely_as_promised() -> None:
    """At most one table in twenty (Holm), and sizes by chance are those that are told."""
    alarms, sizes, told = 0, [], []
    for seed in range(300):
        draw = np.random.default_rng(seed)
        training, new = rows(draw, TRAINING, False), rows(draw, 100, False)
        learned = Columns(
            (
                Number("same", 0.0, 0.0, 1.0, False, 0.0),
                Category("town", ("a", "b", "c"), tuple(training[:, 5:8].mean(axis=0))),
            )
        )
        units = (new[:, :1] - training[:, 0].mean()) / training[:, 0].std()
        found = moved(learned, np.concatenate([units, new[:, 5:8]], axis=1), TRAINING)
        alarms += found[0].p_value < 0.05
        for one in found:
            if one.name == "town":
                sizes.append(one.shift)
                told.append(one.by_chance)
    assert alarms <= stats.binom.ppf(0.9999, 300, 0.06)  # normal and chi-squared hold nearly
    assert np.mean(sizes) == pytest.approx(np.mean(told), rel=0.1)


def test_p_values_of_categories_are_those_of_the_standard_test() -> None:
    columns = Columns((Category("town", ("a", "b"), (0.25, 0.75)),))
    new = np.eye(2)[[0] * 40 + [1] * 60]
    (one,) = moved(columns, new, 200)
    expected = stats.chi2_contingency([[40, 60], [50, 150]], correction=False).pvalue
    assert one.p_value == pytest.approx(expected)
    assert one.shift == pytest.approx(0.15)
    assert math.isclose(one.by_chance, math.sqrt(2 / math.pi * 0.25 * 0.75 * (1 / 100 + 1 / 200)))


def test_the_error_of_a_mean_is_that_of_new_and_of_training_rows() -> None:
    (one,) = moved(Columns(COLUMNS.parts[:1]), np.array([[1.0], [-1.0], [1.5], [0.5]]), 9)
    spread = np.std([1.0, -1.0, 1.5, 0.5])
    error = math.sqrt((4 * spread**2 + 9) / 13 * (1 / 4 + 1 / 9))
    assert (one.shift, one.spread) == (0.5, pytest.approx(spread))
    assert one.by_chance == pytest.approx(math.sqrt(2 / math.pi) * error)


@pytest.mark.parametrize("training", [20_000, 400])
def test_a_rare_flag_that_no_new_row_has_is_no_drift(training: int) -> None:
    """One row in two hundred has it, so of a hundred new rows often none does."""
    columns, alarms = Columns((Number("flag", 0.0, 0.0, 1.0, False, 0.0),)), 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        old, new = ((draw.random(n) < 0.005).astype(float) for n in (training, 100))
        units = ((new - old.mean()) / (old.std() or 1.0)).astype(np.float32)[:, None]
        alarms += moved(columns, units, training)[0].p_value < 0.05
    assert alarms / 200 <= 0.09


def test_of_a_column_with_one_value_in_training_nothing_is_said() -> None:
    columns = columns_of({"year": np.full(40, 2024.0), "x": np.arange(40.0)})
    rows = columns.encode({"year": np.full(40, 2030.0), "x": np.arange(40.0)})[0].reshape(40, -1)
    assert [one.name for one in moved(columns, rows, 40)] == ["x"]


@pytest.mark.parametrize("count", [2, 5, 10, 20])
def test_few_rows_are_called_drift_no_more_often(count: int) -> None:
    columns, alarms = Columns((Number("age", 0.0, 0.0, 1.0, False, 0.0),)), 0
    for seed in range(300):
        draw = np.random.default_rng(seed)
        old, new = draw.standard_normal(400), draw.standard_normal(count)
        units = ((new - old.mean()) / old.std())[:, None]
        alarms += moved(columns, units, 400)[0].p_value < 0.05
    assert alarms / 300 <= 0.1


def test_skewed_columns_are_called_drift_little_more_often_than_others() -> None:
    columns, alarms = Columns((Number("age", 0.0, 0.0, 1.0, False, 0.0),)), 0
    for seed in range(300):
        draw = np.random.default_rng(seed)
        old, new = draw.exponential(size=400), draw.exponential(size=100)
        units = ((new - old.mean()) / old.std())[:, None]
        alarms += moved(columns, units, 400)[0].p_value < 0.05
    assert alarms / 300 <= 0.08


def test_one_value_in_all_rows_is_drift_where_few_training_rows_can_have_it() -> None:
    """No more than 1 / (1 + x²) of rows with mean 0 and deviation 1 have the value x."""
    for value, p_value in ((0.3, 1.09**-100), (0.0, 1.0), (-0.07, 1.0049**-100)):
        rows = np.full((100, 1), value)
        (found,) = moved(Columns((Number("stuck", 0.0, 0.0, 1.0, False, 0.0),)), rows, 10_000)
        assert found.p_value == pytest.approx(p_value, rel=1e-6)
