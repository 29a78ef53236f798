"""Arrays are told apart or refused, never guessed."""

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.data import as_images


def ramp(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 251).astype(np.uint8).reshape(shape)


def test_the_three_shapes_become_one() -> None:
    colour = ramp(5, 8, 9, 3)
    np.testing.assert_array_equal(as_images(colour), colour)
    np.testing.assert_array_equal(as_images(np.moveaxis(colour, 3, 1)), colour)
    np.testing.assert_array_equal(as_images(colour[..., 0]), colour[..., :1])
    assert as_images(np.moveaxis(colour, 3, 1)).flags.c_contiguous


def test_an_ambiguous_order_of_channels_must_be_stated() -> None:
    narrow = ramp(5, 3, 8, 4)
    with pytest.raises(UraenasError, match='channels="first" or channels="last"'):
        as_images(narrow)
    assert as_images(narrow, channels="last").shape == (5, 3, 8, 4)
    assert as_images(narrow, channels="first").shape == (5, 8, 4, 3)
    with pytest.raises(UraenasError, match="makes 8 channels"):
        as_images(ramp(5, 8, 8, 3), channels="first")
    with pytest.raises(UraenasError, match="Did you mean 'last'"):
        as_images(narrow, channels="lost")


def test_ranges_are_kept_mapped_or_demanded() -> None:
    unit = np.linspace(0, 1, 2 * 8 * 8).reshape(2, 8, 8)
    assert as_images(unit).dtype == np.float32
    np.testing.assert_allclose(as_images(unit)[..., 0], unit, rtol=1e-6)
    np.testing.assert_allclose(as_images(unit * 255, (0, 255)), as_images(unit), atol=1e-6)
    np.testing.assert_allclose(as_images(unit * 2 - 1, (-1, 1)), as_images(unit), atol=1e-6)
    with pytest.raises(UraenasError, match="value_range"):
        as_images(unit * 255)
    with pytest.raises(UraenasError, match="value_range"):
        as_images(np.ones((2, 8, 8), np.int64))
    with pytest.raises(UraenasError, match="do not lie within"):
        as_images(unit * 300, (0, 255))


def test_integers_keep_their_grey_levels() -> None:
    levels = ramp(2, 8, 8).astype(np.int64)
    np.testing.assert_array_equal(as_images(levels, (0, 255))[..., 0], levels)
    assert as_images(levels, (0, 255)).dtype == np.uint8
    sixteen = (levels % 17).astype(np.uint8)
    np.testing.assert_allclose(as_images(sixteen, (0, 16))[..., 0], sixteen / 16, rtol=1e-6)
    assert as_images(levels > 100).max() == 1


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros((0, 8, 8), np.uint8), "there are no images"),
        (np.zeros((4, 0, 8, 3), np.uint8), "there are no images"),
        (np.zeros((4, 64)), r"give image_shape; rows of a table: use UraeNASClassifier\)"),
        (np.zeros((4, 8, 8, 8), np.uint8), "neither axis 1 nor axis 3"),
        (np.zeros((8, 8, 3), np.uint8), r"image\[None\]"),
        (np.full((2, 8, 8), np.nan), "NaN or infinite values; replace these"),
        (np.full((2, 8, 8), np.inf), "NaN or infinite values; replace these"),
        (np.ma.masked_equal(np.zeros((2, 8, 8), np.uint8), 0), "masked values"),
        (np.zeros((2, 8, 8), complex), "type complex128"),
        (np.array([["a"]]), "type <U1"),
        (np.array([None]), "type object"),
        ([[[1, 2], [3]]], "different sizes"),
        (5, "N×H×W, N×H×W×C or N×C×H×W$"),
    ],
)
def test_what_is_no_batch_of_images_is_refused_with_the_reason(array: object, why: str) -> None:
    with pytest.raises(UraenasError, match=why):
        as_images(array)


@pytest.mark.parametrize("value_range", [(1, 0), (0, np.inf), (0,), "ab", (0, 0), 3])
def test_a_senseless_range_is_refused(value_range: tuple[float, float]) -> None:
    with pytest.raises(UraenasError, match="value_range"):
        as_images(np.zeros((2, 8, 8)), value_range)
