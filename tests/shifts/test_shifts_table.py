"""What holds for every shift of the table, and what a wrong call is told."""

import hashlib
import importlib.util
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_book import picture_book

from uraenas.base.errors import UraenasError
from uraenas.shifts import SHIFTS, SUITES, corrupt, requires, weather
from uraenas.shifts.draws import Draws

# sha256 of the five severities of 100 images. Not pinned: JPEG, whose bytes depend on Pillow's libjpeg, and the
# two that go through OpenCV's float32 arithmetic, which differs between processors.
PINS = {
    "gaussian_noise": "7579dd29a4a5d756f8b080adc4e4ace006efc5d41802cfb9f66b965ba8e00bda",
    "shot_noise": "d80aea2261c54c11a39e9a2c08a061baa0ec9b8a95f79457da964d3cc7a2b89f",
    "impulse_noise": "5d6f96adcdbde7cb82b6c7aa750ee5bcf20343aee89905fe9caf92cf906cb128",
    "defocus_blur": "7ba14a68d0adb148c7724bd4ae3837d05ff7f4427e6d3aec485044976ed4311a",
    "glass_blur": "8ec7d3a37a162bfd7011aeed1d6f948e65daee5db4d74f389ff6ab3b0d2a411d",
    "motion_blur": "de37b749309dfebc380500c472fea42ded869df99beac7b75de77cdae4b0c0e9",
    "zoom_blur": "44c6e37b1dded412d4c41d431fdd91e6580b928567d969a338a22584b35aac0a",
    "snow": "bf56680e307edd1aa9fc76534720bc2df7110c9df49cbe57de5343b2430ac079",
    "frost": "a8f13adfb33b7ea850f65be2d352d850e95e3884e3ca5b1d504e9a183843974a",
    "fog": "4bdaa0d1b52e4883cd785b6dc7aeb79be9ba2b937a281503a72ab1a471b38be3",
    "brightness": "80b9287d28f678f2f4506919a0ac7b0bca1edb20b2564c7c8d99090b96cce6a9",
    "contrast": "925e7fe40bf8ca8dcc3034d4eaa8d47ae41ecca4cb066fd552df1f0040d36766",
    "pixelate": "12af459cb246bbec8a61ba7613c0190a588a8f2a941388bdc616f28195c0eb4e",
    "speckle_noise": "9d059c14bd6f1a3981b7b58a234448e23a92b030f7455fa0a655003157f7727a",
    "gaussian_blur": "8a9c3cb53fe40da8e4b5edf15d374e1bfdde7033faaf9b9353cadb4f131b5d3d",
    "saturate": "c29668d8bee0cfb5bde13a3df0247a6aec38f7495f4a8cae1d5887ebe5044f01",
}


@pytest.mark.parametrize("name", PINS)
def test_bytes_do_not_change(name, images):
    outputs = b"".join(corrupt(images, name, severity, seed=0).tobytes() for severity in range(1, 6))
    assert hashlib.sha256(outputs).hexdigest() == PINS[name]


def test_table_and_suites():
    assert all(name == shift.name for name, shift in SHIFTS.items())
    release = [SHIFTS[name] for name in SUITES["cifar10-c"]]
    assert len(release) == 19
    extra = {"speckle_noise", "gaussian_blur", "spatter", "saturate"}
    assert {shift.name for shift in release if shift.extra} == extra
    assert sum(shift.random for shift in release) == 11
    assert len(SUITES["cifar10-c-15"]) == 15
    assert set(SUITES["basic"]) <= set(SHIFTS)


@pytest.mark.parametrize("name", SHIFTS)
def test_draws_belong_to_images_not_to_batches(name, images):
    whole = corrupt(images[:6], name, 3, seed=5)
    pieces = [corrupt(images[a:b], name, 3, seed=5, first_index=a) for a, b in ((0, 1), (1, 4), (4, 6))]
    assert np.array_equal(whole, np.concatenate(pieces))
    assert np.array_equal(whole, corrupt(images[:6], name, 3, seed=5))


@pytest.mark.parametrize("name", SHIFTS)
def test_seed_matters_exactly_where_there_is_chance(name, images):
    one, other = corrupt(images[:2], name, 3, seed=1), corrupt(images[:2], name, 3, seed=2)
    assert np.array_equal(one, other) == (not SHIFTS[name].random)


@pytest.mark.parametrize("name", SHIFTS)
def test_images_are_changed_but_not_in_place(name, images):
    before = images[:2].copy()
    for severity in range(1, 6):
        assert not np.array_equal(corrupt(images[:2], name, severity, seed=0), before)
    assert np.array_equal(images[:2], before)


@pytest.mark.parametrize("name", SHIFTS)
@settings(max_examples=8, deadline=None)
@given(
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    channels=st.sampled_from([1, 3]),
    severity=st.integers(1, 5),
)
def test_other_sizes_and_grey(name, height, width, channels, severity):
    if channels == 1 and not SHIFTS[name].grey:
        return
    batch = picture_book(2, height, width, channels)
    corrupted = corrupt(batch, name, severity, seed=0)
    assert corrupted.shape == batch.shape
    assert corrupted.dtype == np.uint8


def test_no_images_give_no_images(images):
    assert corrupt(images[:0], "snow", 1, seed=0).shape == (0, 32, 32, 3)


def test_every_image_has_draws_of_its_own():
    draws = [
        Draws(seed, name, severity, first).for_image(position).integers(2**63)
        for seed in (0, 1)
        for name in ("fog", "snow")
        for severity in (1, 2)
        for first, position in ((0, 0), (0, 1), (12, 0))
    ]
    assert len(set(draws)) == len(draws)
    assert Draws(0, "fog", 1, 3).for_image(4).random() == Draws(0, "fog", 1, 0).for_image(7).random()


def test_saturate_refuses_grey():
    with pytest.raises(UraenasError, match="saturate needs colour"):
        corrupt(picture_book(1, channels=1), "saturate", 1, seed=0)


def test_unknown_corruption_names_the_nearest(images):
    with pytest.raises(UraenasError, match="Did you mean 'gaussian_noise'"):
        corrupt(images, "gausian_noise", 1, seed=0)


@pytest.mark.parametrize("severity", [0, 6, -1])
def test_severity_out_of_range(severity, images):
    with pytest.raises(UraenasError, match="severity must be 1"):
        corrupt(images, "fog", severity, seed=0)


@pytest.mark.parametrize(
    "batch", [np.zeros((1, 8, 8, 3)), np.zeros((8, 8, 3), np.uint8), picture_book(1)[..., :2]]
)
def test_what_is_no_image_batch_is_refused(batch):
    with pytest.raises(UraenasError, match="need uint8 images"):
        corrupt(batch, "fog", 1, seed=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_basic_suite_needs_neither_opencv_nor_scikit_image(channels, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.setitem(sys.modules, "skimage", None)
    for name in SUITES["basic"]:
        corrupt(picture_book(3, 8, 8, channels), name, 5, seed=0)


@pytest.mark.parametrize("name", ["defocus_blur", "elastic_transform", "spatter"])
def test_missing_opencv_is_told_with_the_command(name, images, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UraenasError, match=f"{name} needs OpenCV: pip install opencv-python-headless"):
        corrupt(images[:1], name, 1, seed=0)


@pytest.fixture
def no_textures_remembered():
    weather._frost_textures.cache_clear()
    yield
    weather._frost_textures.cache_clear()


@pytest.mark.usefixtures("no_textures_remembered")
def test_missing_frost_package_is_told_with_the_command(images, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UraenasError, match=r"pip install --no-deps imagecorruptions==1\.1\.2"):
        corrupt(images[:1], "frost", 1, seed=0)


@pytest.mark.usefixtures("no_textures_remembered")
@pytest.mark.parametrize(("content", "told"), [(None, "is missing"), (b"no picture", "cannot be read")])
def test_missing_or_damaged_frost_texture(content, told, images, monkeypatch, tmp_path):
    package = importlib.util.find_spec("imagecorruptions")
    package.submodule_search_locations[:] = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: package)
    if content:
        (tmp_path / "frost").mkdir()
        for name in requires.FROST_TEXTURES:
            (tmp_path / "frost" / name).write_bytes(content)
    with pytest.raises(UraenasError, match=rf"frost1.png {told}: pip install .* --force-reinstall"):
        corrupt(images[:1], "frost", 1, seed=0)
