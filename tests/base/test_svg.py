"""Escaped elements, round ticks, scales that meet their ends."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uraenas.base.svg import Scale, decimals, element, log_ticks, padded, path, round_ticks


def test_text_and_attributes_are_escaped() -> None:
    drawn = element("text", '<b> & "c"', data_tip='a"b<c>', x=1.5, y=None)
    assert drawn == '<text data-tip="a&#34;b&lt;c&gt;" x="1.5">&lt;b&gt; &amp; &#34;c&#34;</text>'
    assert element("g", drawn) == f"<g>{drawn}</g>"


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_in_the_range_and_are_few(low: float, width: float) -> None:
    high = low + width
    ticks = round_ticks(low, high)
    slack = 1e-6 * max(1.0, abs(low), width)
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    assert len(ticks) <= 12


def test_ticks_are_round() -> None:
    assert round_ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert round_ticks(3, 3) == [3]
    assert log_ticks(8, 300) == [10, 20, 50, 100, 200]
    assert decimals([0, 0.25, 0.5]) == 2
    assert decimals([10, 20]) == 0


def test_scale_meets_its_ends() -> None:
    assert Scale(1, 100, 0, 10, log=True)(10) == pytest.approx(5)
    assert Scale(0, 4, 100, 0)(1) == 75
    assert Scale(2, 2, 0, 10)(2) == 5


def test_padding_never_collapses() -> None:
    for values in ([0.0], [5.0, 5.0], [1.0, 2.0]):
        low, high = padded(values)
        assert low < min(values) <= max(values) < high


def test_shares_are_padded_little_above_one() -> None:
    for values in ([0.9875], [0.2, 0.99], [1.0], [0.9, 1.0]):
        low, high = padded(values, shares=True)
        assert low < min(values) <= max(values) < high < 1.02
    assert padded([0.2, 0.4], shares=True) == padded([0.2, 0.4])


def test_a_missing_value_breaks_the_line() -> None:
    assert path([(0, 0), (1, 1), (2, math.nan), (3, 3)], "line").count("M") == 2
