"""Which networks own kernels take, and what is said of the others."""

import pytest

pytest.importorskip("triton")

from uraenas.engine.kernels import kernels_for
from uraenas.engine.kernels.cells import why_not
from uraenas.spaces import CellSpace, Shape


@pytest.mark.parametrize("channels", [16, 32])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shape": Shape(8, 12, 1, 2)},
        {"halvings": 0, "shape": Shape(64, 64, 4, 100)},
        {"nodes": 5, "operations": ("none", "skip_connect", "nor_conv_3x3", "avg_pool_3x3")},
    ],
    ids=["paper", "small and oblong", "four image channels", "five nodes"],
)
def test_sixteen_and_thirty_two_channels_fit(channels: int, changes: dict) -> None:
    space = CellSpace(channels, **changes)
    assert why_not(space) == ""
    assert kernels_for(space)[0] is not None


@pytest.mark.parametrize("channels", [1, 8, 24, 48, 64, 128])
def test_other_channels_do_not(channels: int) -> None:
    assert why_not(CellSpace(channels)) == f"they take 16 or 32 channels, not {channels}"


@pytest.mark.parametrize(("height", "width"), [(31, 32), (32, 30), (7, 7), (4, 8)])
def test_odd_and_small_sides_do_not(height: int, width: int) -> None:
    said = why_not(CellSpace(shape=Shape(height, width)))
    assert said == f"they take sides that are multiples of 4 from 8 up, not {height} × {width}"


def test_a_stem_that_halves_images_does_not() -> None:
    said = "their stem does not halve images, and images of 64 × 64 are halved"
    assert why_not(CellSpace(shape=Shape(64, 64))) == said
    assert kernels_for(CellSpace(shape=Shape(64, 64))) == (None, said)
    assert why_not(CellSpace(halvings=1)) == said.replace("64", "32")


def test_five_image_channels_do_not() -> None:
    assert why_not(CellSpace(shape=Shape(channels=5))) == "they take at most 4 image channels, not 5"
    assert kernels_for(CellSpace(shape=Shape(channels=5)))[0] is None


def test_another_space_has_none() -> None:
    class Other:
        name = "other"

    assert kernels_for(Other()) == (None, "there are none for other")
