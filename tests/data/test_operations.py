"""Operations on many images at once are those on one: Pillow's own, and affine maps by scipy."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from scipy import ndimage
from torch import Tensor

from uraenas.data.augment.operations import (
    OPERATIONS,
    Ranges,
    affine,
    equalized,
    look_up,
    operate,
    posterized,
    rotation,
    solarized,
    stretched,
    warp,
)

# Each operation by itself: images and its parameter, if it has one → images
ALONE: dict[str, Callable[..., Tensor]] = {
    "autocontrast": lambda x: look_up(x, stretched(x)),
    "equalize": lambda x: look_up(x, equalized(x)),
    "posterize": lambda x, bits: look_up(x, posterized(x, bits)),
    "solarize": lambda x, threshold: look_up(x, solarized(x, threshold)),
    "rotate": lambda x, degrees: warp(x, rotation(degrees, x.shape[-2:])),
    "shear_x": lambda x, slope: warp(x, affine(right_y=slope)),
    "shear_y": lambda x, slope: warp(x, affine(down_x=slope)),
    "translate_x": lambda x, pixels: warp(x, affine(right=pixels)),
    "translate_y": lambda x, pixels: warp(x, affine(down=pixels)),
}


def pictures(count: int, height: int, width: int, channels: int) -> np.ndarray:
    """Smooth ones, noise, one of a single colour, one of two, a dark one."""
    rng = np.random.default_rng(height * channels)
    images = rng.integers(0, 256, (count, height, width, channels))
    slope = np.linspace(20, 180, width)[:, None] + np.arange(channels) * 9
    images[0::3] = slope + rng.integers(0, 12, images[0::3].shape)
    images[1], images[2] = 77, np.where(images[2] > 200, 200, 13)
    images[3] = images[3] // 9
    return images.astype(np.uint8)


SHAPES = [(12, 32, 32, 3), (7, 8, 8, 1), (7, 9, 14, 3)]


def planes(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images).movedim(-1, 1).float().contiguous()


def by_pillow(change: Callable[[Image.Image], Image.Image], image: np.ndarray) -> np.ndarray:
    grey = image.shape[2] == 1
    changed = np.asarray(change(Image.fromarray(image[..., 0] if grey else image)))
    return changed[..., None] if grey else changed


@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_those_of_pillow(shape: tuple[int, int, int, int]) -> None:
    images = pictures(*shape)
    x = planes(images)
    bits = torch.arange(len(x)) % 8 + 1
    threshold = torch.linspace(0, 256, len(x)).round()
    cases = {
        "autocontrast": ((), lambda n: ImageOps.autocontrast),
        "equalize": ((), lambda n: ImageOps.equalize),
        "posterize": ((bits,), lambda n: lambda image: ImageOps.posterize(image, int(bits[n]))),
        "solarize": ((threshold,), lambda n: lambda image: ImageOps.solarize(image, int(threshold[n]))),
    }
    for name, (parameters, of) in cases.items():
        changed = ALONE[name](x, *parameters)
        expected = np.stack([by_pillow(of(n), image) for n, image in enumerate(images)])
        np.testing.assert_array_equal(changed.movedim(1, -1).numpy(), expected, err_msg=name)


def test_stretched_and_flattened_values_are_those_of_pillow_whatever_their_range() -> None:
    rng = np.random.default_rng(0)
    low = rng.integers(0, 255, 600)
    high = rng.integers(low + 1, 256)
    images = rng.integers(low, high + 1, (24, 24, 600)).transpose(2, 0, 1)[..., None].astype(np.uint8)
    for name, theirs in (("autocontrast", ImageOps.autocontrast), ("equalize", ImageOps.equalize)):
        expected = np.stack([by_pillow(theirs, image) for image in images])
        np.testing.assert_array_equal(ALONE[name](planes(images)).movedim(1, -1).numpy(), expected)


def moved(image: np.ndarray, source: Callable[[np.ndarray, np.ndarray], tuple]) -> np.ndarray:
    """A pixel's value is found at source(x, y), in pixels from the upper left corner; black is all around."""
    y, x = np.mgrid[: image.shape[0], : image.shape[1]] + 0.5
    right, down = source(x, y)
    layers = [
        ndimage.map_coordinates(plane.astype(float), [down - 0.5, right - 0.5], order=1, mode="grid-constant")
        for plane in np.moveaxis(image, -1, 0)
    ]
    return np.stack(layers)


def about_the_centre(degrees: float, height: int, width: int) -> Callable:
    def source(x: np.ndarray, y: np.ndarray) -> tuple:
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        u, v = x - width / 2, y - height / 2
        return c * u - s * v + width / 2, s * u + c * v + height / 2

    return source


@pytest.mark.parametrize("shape", SHAPES)
def test_places_are_those_of_affine_maps(shape: tuple[int, int, int, int]) -> None:
    images = pictures(*shape)
    x, (height, width) = planes(images), shape[1:3]
    amount = torch.linspace(-1, 1, len(x))
    maps = {
        "rotate": (100 * amount, lambda a: about_the_centre(a, height, width)),
        "shear_x": (0.4 * amount, lambda a: lambda x, y: (x + a * y, y)),
        "shear_y": (0.4 * amount, lambda a: lambda x, y: (x, y + a * x)),
        "translate_x": (5.3 * amount, lambda a: lambda x, y: (x + a, y)),
        "translate_y": (5.3 * amount, lambda a: lambda x, y: (x, y + a)),
    }
    for name, (values, source) in maps.items():
        changed = ALONE[name](x, values)
        assert torch.equal(changed, changed.round())
        expected = np.stack([moved(image, source(float(values[n]))) for n, image in enumerate(images)])
        np.testing.assert_allclose(changed.numpy(), expected, atol=0.51, err_msg=name)


def test_directions_are_those_of_pillow() -> None:
    """Whose bilinear values end at the border and are cut off instead of rounded, so that the middle is compared."""
    smooth = (np.indices((32, 32)).sum(axis=0) * 3).astype(np.uint8)
    image, x = Image.fromarray(smooth), torch.from_numpy(smooth)[None, None].float()
    how = {"resample": Image.Resampling.BILINEAR}
    cases = [
        (ALONE["rotate"](x, torch.tensor([20.0])), image.rotate(20, **how)),
        (
            ALONE["shear_x"](x, torch.tensor([0.2])),
            image.transform((32, 32), Image.Transform.AFFINE, (1, 0.2, 0, 0, 1, 0), **how),
        ),
        (
            ALONE["translate_y"](x, torch.tensor([4.0])),
            image.transform((32, 32), Image.Transform.AFFINE, (1, 0, 0, 0, 1, 4), **how),
        ),
    ]
    for ours, theirs in cases:
        difference = ours[0, 0].numpy() - np.asarray(theirs, dtype=float)
        assert np.abs(difference[8:24, 8:24]).max() <= 1.01


def test_one_call_for_all_operations_is_each_by_itself() -> None:
    images = pictures(2 * len(OPERATIONS) + 2, 16, 16, 3)
    x = planes(images)
    which = torch.arange(len(x)) % (len(OPERATIONS) + 1)
    strength = torch.linspace(0.1, 0.9, len(x))
    sign = torch.where(torch.arange(len(x)) % 3 == 0, -1.0, 1.0)
    together = operate(x, which, strength, sign, Ranges((8, 2), 135, 0.5, 0.5))
    parameters = {
        "posterize": 8 - torch.floor(6 * strength),
        "solarize": 256 - torch.floor(256 * strength),
        "rotate": sign * 135 * strength,
        "shear_x": sign * 0.5 * strength,
        "shear_y": sign * 0.5 * strength,
        "translate_x": sign * torch.floor(8 * strength),
        "translate_y": sign * torch.floor(8 * strength),
    }
    for n, number in enumerate(which.tolist()):
        if number == len(OPERATIONS):
            assert torch.equal(together[n], x[n])
            continue
        name = OPERATIONS[number]
        own = (parameters[name][n : n + 1],) if name in parameters else ()
        assert torch.equal(together[n : n + 1], ALONE[name](x[n : n + 1], *own)), name
