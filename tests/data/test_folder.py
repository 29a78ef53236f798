"""A folder of images becomes a dataset; nothing in it is dropped silently."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data import load_folder, read_image


def picture(
    path: Path, colour: tuple[int, int, int] | int = (200, 10, 10), size: tuple[int, int] = (20, 20)
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB" if isinstance(colour, tuple) else "L", size, colour).save(path)
    return path


def test_sub_folders_are_classes_and_a_test_part_is_made(tmp_path: Path) -> None:
    for number in range(10):
        picture(tmp_path / "red" / f"{number}.png", (250, 0, 0))
        picture(tmp_path / "blue" / f"{number}.png", (0, 0, 250), size=(40, 20))
    (tmp_path / "red" / "Thumbs.db").write_bytes(b"x")
    (tmp_path / "red" / ".hidden.png").write_bytes(b"x")
    dataset = load_folder(tmp_path, 16)
    assert dataset.classes == ("blue", "red")
    assert dataset.train.images.shape == (16, 16, 16, 3)
    assert np.bincount(dataset.test.labels).tolist() == [2, 2]
    assert (dataset.train.images[dataset.train.labels == 1] == [250, 0, 0]).all()
    assert any("10 of 20 images are not square" in note for note in dataset.notes)
    assert any("1 file without" in note for note in dataset.notes)


def test_train_and_test_parts_are_kept(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("test", 2)):
        for number in range(count):
            picture(tmp_path / part / "a" / "deeper" / f"{number}.png", 10)
            picture(tmp_path / part / "b" / f"{number}.jpg", 240)
    dataset = load_folder(tmp_path)
    assert len(dataset.train) == 6
    assert len(dataset.test) == 4
    assert dataset.train.images.shape[1:] == (32, 32, 1)  # all are grey
    picture(tmp_path / "test" / "c" / "0.png")
    with pytest.raises(UraenasError, match="c is a class that the training part lacks"):
        load_folder(tmp_path)


def test_unreadable_images_are_named_together(tmp_path: Path) -> None:
    whole = picture(tmp_path / "a" / "whole.png", size=(64, 64)).read_bytes()
    (tmp_path / "a" / "cut.png").write_bytes(whole[:-30])
    for number in range(6):
        (tmp_path / "a" / f"text{number}.jpg").write_text("not an image")
    with pytest.raises(UraenasError, match=r"7 of 8 images cannot be read: .*cut\.png.* and 2 more"):
        load_folder(tmp_path)


def test_folders_without_classes_or_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UraenasError, match="no sub-folders"):
        load_folder(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.txt").write_text("x")
    with pytest.raises(UraenasError, match=r"such as notes\.txt, but no image"):
        load_folder(tmp_path)
    with pytest.raises(UraenasError, match="not a folder"):
        load_folder(tmp_path / "absent")
    picture(tmp_path / "train" / "a" / "0.png")
    with pytest.raises(UraenasError, match="no test part"):
        load_folder(tmp_path)


def test_links_are_followed_and_circles_end(tmp_path: Path) -> None:
    for number in range(3):
        picture(tmp_path / "elsewhere" / f"{number}.png", number)
        picture(tmp_path / "root" / "b" / f"{number}.png", number)
    (tmp_path / "root" / "a").mkdir()
    (tmp_path / "root" / "a" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "a" / "circle").symlink_to(tmp_path / "root" / "a")
    (tmp_path / "root" / "c").symlink_to(tmp_path / "elsewhere")
    dataset = load_folder(tmp_path / "root")
    assert len(dataset.train) + len(dataset.test) == 9


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.float32])
def test_grey_of_more_than_eight_bits_is_refused(tmp_path: Path, kind: type) -> None:
    """Nothing in the file says which value is white."""
    levels = np.linspace(0, 4095, 8 * 8).astype(kind).reshape(8, 8)
    Image.fromarray(levels).save(tmp_path / "deep.tif")
    with pytest.raises(UraenasError, match=r"deep\.tif .*no stated range; save it with 8 bits"):
        read_image(tmp_path / "deep.tif", 8, 1)


def test_transparency_palettes_and_orientation_are_seen_to(tmp_path: Path) -> None:
    Image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (read_image(tmp_path / "clear.png", 8, 3) == 255).all()
    Image.new("RGB", (8, 8), (0, 255, 0)).convert("P").save(tmp_path / "palette.gif")
    assert read_image(tmp_path / "palette.gif", 8, 3)[0, 0].tolist() == [0, 255, 0]
    turned = Image.new("RGB", (8, 8), "black")
    turned.putpixel((0, 0), (255, 255, 255))
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    turned.save(tmp_path / "turned.png", exif=exif)
    assert read_image(tmp_path / "turned.png", 8, 1)[7, 7, 0] == 255


def test_any_size_in_the_models_size_out(tmp_path: Path) -> None:
    picture(tmp_path / "large.jpg", (0, 120, 0), size=(900, 700))
    assert read_image(tmp_path / "large.jpg", 32, 3).shape == (32, 32, 3)
    assert read_image(tmp_path / "large.jpg", (24, 32), 1).shape == (24, 32, 1)
    with pytest.raises(UraenasError, match=r"1 \(grey\) or 3"):
        read_image(tmp_path / "large.jpg", 32, 4)
    with pytest.raises(UraenasError, match=r"absent\.png cannot be read"):
        read_image(tmp_path / "absent.png", 32, 3)


@pytest.mark.parametrize("factor", [1, 2.5])
def test_decompression_bombs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    picture(tmp_path / "bomb.png", size=(50, 50))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", int(2499 / factor))
    with pytest.raises(UraenasError, match="pixels"):
        read_image(tmp_path / "bomb.png", 32, 3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), ending=st.sampled_from(["png", "jpg", "gif", "bmp", "tif", "webp"]))
def test_damaged_images_give_pixels_or_our_error(tmp_path: Path, data: st.DataObject, ending: str) -> None:
    whole = picture(tmp_path / f"whole.{ending}").read_bytes()
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"damaged.{ending}"
    path.write_bytes(damaged)
    with suppress(UraenasError):
        assert read_image(path, 8, 3).shape == (8, 8, 3)
