"""A split keeps every image in one place, every class in every part, and says when it cannot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uraenas.base.errors import UraenasError
from uraenas.data import stratified_split
from uraenas.data.splits import folds_of


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(3, 40), min_size=1, max_size=8),
    fractions=st.lists(st.floats(0.02, 0.33), min_size=1, max_size=3),
    key=st.integers(0, 2**64),
)
def test_parts_are_disjoint_sorted_stratified_and_repeatable(
    counts: list[int], fractions: list[float], key: int
) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    parts = stratified_split(labels, fractions, key)
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    for part, fraction in zip(parts, fractions, strict=True):
        assert (np.diff(part) > 0).all()
        in_part = np.bincount(labels[part], minlength=len(counts))
        assert in_part.min() >= 1
        if all(fraction * count >= 2 for count in counts) and min(fractions) > 0.1:
            assert np.abs(in_part - fraction * np.array(counts)).max() <= 3
    for part, again in zip(parts, stratified_split(labels, fractions, key), strict=True):
        np.testing.assert_array_equal(part, again)


def test_balanced_classes_are_split_exactly() -> None:
    labels = np.tile(np.arange(10), 5000)
    held_out, rest = stratified_split(labels, [0.15, 0.85], key=1)
    assert (np.bincount(labels[held_out]) == 750).all()
    assert len(held_out) + len(rest) == len(labels)


def test_counts_are_kept_exactly() -> None:
    labels = np.repeat(np.arange(7), [3, 50, 21, 4, 90, 33, 12])
    parts = stratified_split(labels, [10, 100, 7], key=3)
    assert [len(part) for part in parts] == [10, 100, 7]
    assert all(len(np.unique(labels[part])) == 7 for part in parts)


def test_keys_give_different_splits() -> None:
    labels = np.tile(np.arange(2), 50)
    first, second = (stratified_split(labels, [0.5], key)[0] for key in (1, 2))
    assert not np.array_equal(first, second)


def test_the_split_is_pinned() -> None:
    """Runs of old versions are compared with new ones, so the draw must not drift."""
    labels = np.tile(np.arange(3), 6)
    assert stratified_split(labels, [0.5], key=2026)[0].tolist() == [0, 1, 2, 3, 5, 6, 10, 14, 16]


def test_a_class_with_too_few_examples_is_named() -> None:
    with pytest.raises(UraenasError, match=r"'dog' has 1 example\(s\).* needs at least 2"):
        stratified_split(np.array([0, 0, 0, 1]), [0.5, 0.5], key=0, classes=("cat", "dog"))
    with pytest.raises(UraenasError, match="'owl' has 0"):
        stratified_split(np.array([0, 0, 1, 1]), [0.5], key=0, classes=("cat", "dog", "owl"))


@pytest.mark.parametrize(
    ("labels", "parts", "key", "why"),
    [
        ([], [0.5], 0, "needs N integer labels"),
        ([0.0, 1.0], [0.5], 0, "needs N integer labels"),
        ([0, 0, 1, 1], [], 0, "at least one part"),
        ([0, 0, 1, 1], [0.5, 0.6], 0, "at most 1 in sum"),
        ([0, 0, 1, 1], [0.0], 0, "each above 0"),
        ([0, 0, 1, 1], [float("nan")], 0, "each above 0"),
        ([0, 0, 1, 1], [1], 0, "each at least 2"),
        ([0, 0, 1, 1], [5], 0, "at most 4 in sum"),
        ([0, 0, 1, 1], [0.5], -1, "split key -1"),
        ([0, 0, 1, 1], [0.5], True, "split key True"),
    ],
)
def test_senseless_requests_are_refused_with_the_reason(
    labels: list[float], parts: list[float], key: int, why: str
) -> None:
    with pytest.raises(UraenasError, match=why):
        stratified_split(np.array(labels), parts, key)


def test_folds_are_even_and_have_their_share_of_every_stratum() -> None:
    strata = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [31, 10, 7]))
    fold = folds_of(strata, 5, key=3)
    assert np.ptp(np.bincount(fold)) <= 1
    for stratum in range(3):
        assert np.ptp(np.bincount(fold[strata == stratum], minlength=5)) <= 1
    np.testing.assert_array_equal(fold, folds_of(strata, 5, key=3))
    assert (fold != folds_of(strata, 5, key=4)).any()
