"""Numbers as words."""

import pytest

from uraenas.base.words import as_precise, csv_cell, listed, names_in, three_decimals


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("rmse", 0.0, "0.000"),
        ("rmse", 8.71e-07, "8.71e-07"),
        ("rmse", 1.1e-06, "1.10e-06"),
        ("price.crps", 0.01234, "0.0123"),
        ("width90", 12.3456, "12.346"),
        ("mae", 1.23456e9, "1.23e+09"),
        ("nll", 0.00012, "0.000"),
        ("ece", 0.01234, "0.012"),
    ],
)
def test_what_is_in_the_unit_of_a_target_is_not_all_zeros(metric: str, value: float, words: str) -> None:
    assert three_decimals(metric, value) == words


def test_a_difference_has_its_sign() -> None:
    assert three_decimals("rmse", 1.18e-08, "+") == "+1.18e-08"
    assert three_decimals("nll", 0.5, "+") == "+0.500"


@pytest.mark.parametrize(
    ("value", "deviation", "words"),
    [
        (20001.2149, 1.35, "20001.21"),
        (1234567.8, 12345.0, "1234568"),
        (0.36552, 1.139, "0.37"),
        (0.36552, 0.02, "0.3655"),
        (1.285e-07, 1.3e-06, "1.285e-07"),
        (3.0, 0.0, "3"),
        (float("-inf"), 1.0, "-inf"),
    ],
)
def test_a_number_has_the_decimals_of_its_deviation(value: float, deviation: float, words: str) -> None:
    assert as_precise(value, deviation) == words


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("-1", "-1"),
        ("+2.5e3", "+2.5e3"),
        (["-1", "1"], "-1 | 1"),
        (["-1", "=1"], "'-1 | =1"),
        ("+", "+"),
        (["+", "-"], "+ | -"),
        (["+", "-A1"], "'+ | -A1"),
        ("-1+1", "'-1+1"),
        ("-inf", "'-inf"),
        ("@a", "'@a"),
        ("a", "a"),
        ([], ""),
        (-1.5, -1.5),
    ],
)
def test_a_cell_is_quoted_where_it_could_be_a_formula_and_is_no_number(value: object, cell: object) -> None:
    assert csv_cell(value) == cell


def test_a_name_with_a_comma_is_not_two() -> None:
    assert listed(["cat", "dog, wet", "ü ß"]) == 'cat, "dog, wet", ü ß'


@pytest.mark.parametrize("names", [(), ("cat",), ("cat", "dog, wet", "ü ß"), ("a,b", 'c"d', "e")])
def test_names_in_a_row_are_read_back(names: tuple[str, ...]) -> None:
    assert names_in(listed(names)) == names
    assert names_in(f" {listed(names)} ,, ") == names
