"""Every corruption agrees with a plain one written from the recipe, given the same draws."""

import numpy as np
import plain_corruptions
import pytest

from uraenas.shifts import SHIFTS, corrupt
from uraenas.shifts.draws import Draws

# Float32 sums inside OpenCV, or in another order here: one grey level of freedom, and seldom used.
WITHIN_ONE = {"snow", "spatter", "elastic_transform", "waves", "side_light", "vignette", "ghost", "hue"}


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", SHIFTS)
def test_agrees_with_the_plain_implementation(name, severity, images):
    batch, draws = images[:2], Draws(3, name, severity, first_index=7)
    plain = getattr(plain_corruptions, name)
    expected = np.stack([plain(image, severity, draws.for_image(n)) for n, image in enumerate(batch)])
    given = corrupt(batch, name, severity, seed=3, first_index=7)
    difference = np.abs(given.astype(int) - expected)
    assert difference.max() <= (1 if name in WITHIN_ONE else 0)
    assert (difference > 0).mean() < 0.001


def test_zoom_is_scipys_for_other_sizes():
    from uraenas.shifts.blur import zoomed

    for height, width in ((8, 8), (17, 40), (28, 28), (64, 64), (1, 3)):
        planes = np.random.default_rng(0).random((height, width, 2)).astype(np.float32)
        for zoom in (1.0, 1.01, 1.13, 1.25, 1.75, 2.25):
            assert np.array_equal(zoomed(planes, zoom), plain_corruptions.zoomed(planes, zoom))


def test_black_and_white_and_flat_images_stay_finite(images):
    extremes = np.concatenate([np.zeros_like(images[:1]), np.full_like(images[:1], 255)])
    for name in SHIFTS:
        corrupt(extremes, name, 5, seed=0)  # warnings, as of a division by zero, are errors


def test_the_noises_have_the_stated_moments():
    grey = np.full((200, 32, 32, 3), 102, np.uint8)  # 0.4
    noise = corrupt(grey, "gaussian_noise", 5, 0) / 255 - 0.4
    assert noise.std() == pytest.approx(0.10, rel=0.01)
    assert noise.mean() == pytest.approx(-0.5 / 255, abs=0.0005)  # truncation takes half a level
    speckle = corrupt(grey, "speckle_noise", 5, 0) / 255 - 0.4
    assert speckle.std() == pytest.approx(0.2 * 0.4, rel=0.01)
    shot = corrupt(grey, "shot_noise", 5, 0) / 255
    assert shot.var() == pytest.approx(0.4 / 50, rel=0.02)
    impulse = corrupt(grey, "impulse_noise", 5, 0)
    assert (impulse == 0).mean() == pytest.approx(0.035, rel=0.05)
    assert (impulse == 255).mean() == pytest.approx(0.035, rel=0.05)


def test_glass_moves_pixels_up_and_left_only():
    image = np.zeros((1, 32, 32, 1), np.uint8)
    image[0, 10, 10] = 255
    moved = np.concatenate([corrupt(image, "glass_blur", 1, seed) for seed in range(40)])
    lit = {tuple(place) for place in np.argwhere(moved[..., 0] > 0)[:, 1:]}
    assert lit == {(10, 10), (10, 11), (11, 10), (11, 11)}
