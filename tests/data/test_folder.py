"""A folder of images becomes a dataset; nothing in it is dropped silently."""

import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data import load_folder, pictures, read_image
from uraenas.data.pictures import read_picture


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


@pytest.mark.parametrize("parts", [("Train", "Test"), ("training", "validation"), ("test", "val")])
def test_parts_by_another_name_are_not_taken_for_classes(tmp_path: Path, parts: tuple[str, str]) -> None:
    for part in parts:
        for name in ("cat", "dog"):
            for number in range(5):
                picture(tmp_path / part / name / f"{number}.png")
    with pytest.raises(UraenasError, match="which are parts and not classes; call them train, test, val"):
        load_folder(tmp_path)


def test_classes_may_be_called_like_parts(tmp_path: Path) -> None:
    for place in ("Train/steam", "Test/paper", "val"):
        for number in range(5):
            picture(tmp_path / place / f"{number}.png")
    assert load_folder(tmp_path).classes == ("Test", "Train", "val")


def test_what_lies_beside_the_classes_is_noted(tmp_path: Path) -> None:
    """Loose images, and a class whose name begins with a dot."""
    for name in ("java", "c", ".net"):
        for number in range(5):
            picture(tmp_path / name / f"{number}.png")
    picture(tmp_path / "loose.png")
    (tmp_path / ".git").mkdir()
    dataset = load_folder(tmp_path)
    assert dataset.classes == ("c", "java")
    assert "not used: 1 image(s) in no class's folder, such as loose.png" in dataset.notes
    assert "not used, with names that begin with a dot: .net" in dataset.notes


def test_a_class_without_test_images_is_noted(tmp_path: Path) -> None:
    for place in ("train/a", "train/b", "test/a"):
        for number in range(5):
            picture(tmp_path / place / f"{number}.png")
    assert "test/ has no images of b" in load_folder(tmp_path).notes


def test_unreadable_images_are_named_together(tmp_path: Path) -> None:
    whole = picture(tmp_path / "a" / "whole.png", size=(64, 64)).read_bytes()
    (tmp_path / "a" / "cut.png").write_bytes(whole[:-30])
    for number in range(6):
        (tmp_path / "a" / f"text{number}.jpg").write_text("not an image")
    with pytest.raises(UraenasError, match=r"7 of 8 images cannot be read: .*cut\.png.* and 2 more"):
        load_folder(tmp_path)
    (tmp_path / "a" / "0.jpg").write_bytes(b"")
    with pytest.raises(UraenasError, match=r"0\.jpg \(it is empty\)"):
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


@pytest.mark.parametrize("ending", ["png", "tif", "pgm"])
def test_grey_of_sixteen_bits_is_scaled_by_its_bit_depth(tmp_path: Path, ending: str) -> None:
    levels = np.linspace(0, 65535, 8 * 8).astype(np.uint16).reshape(8, 8)
    path = tmp_path / f"deep.{ending}"
    if ending == "pgm":
        path.write_bytes(b"P5 8 8 65535\n" + levels.astype(">u2").tobytes())
    else:
        Image.fromarray(levels).save(path)
    found = read_image(path, 8, 1)[..., 0]
    np.testing.assert_array_equal(found, np.rint(levels / 257))
    assert not read_picture(path, (8, 8)).dim


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_tiff_whose_zero_is_white_is_no_negative(tmp_path: Path, kind: type) -> None:
    """As radiographs have it; Pillow turns it round when it writes and reads 8 bits, and not with 16."""
    levels = np.linspace(0, np.iinfo(kind).max, 8 * 8).astype(kind).reshape(8, 8)
    stored = levels if kind == np.uint8 else np.iinfo(kind).max - levels
    Image.fromarray(stored).save(tmp_path / "grey.tif", tiffinfo={262: 0})
    found = read_image(tmp_path / "grey.tif", 8, 1)[..., 0]
    np.testing.assert_array_equal(found, np.rint(levels / (np.iinfo(kind).max // 255)))


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_grey_of_thirty_two_bits_is_refused(tmp_path: Path, kind: type) -> None:
    """Nothing in the file says which value is white."""
    levels = np.linspace(0, 4095, 8 * 8).astype(kind).reshape(8, 8)
    Image.fromarray(levels).save(tmp_path / "deep.tif")
    with pytest.raises(UraenasError, match=r"deep\.tif .*no stated range; save it with 8 or 16 bits"):
        read_image(tmp_path / "deep.tif", 8, 1)


def test_what_is_not_as_in_other_images_is_noted(tmp_path: Path) -> None:
    """Several frames, and a camera's 12 of 16 bits."""
    for name in ("a", "b"):
        for number in range(4):
            picture(tmp_path / name / f"{number}.png", 200)
    frames = [Image.new("L", (20, 20), level) for level in (10, 250)]
    frames[0].save(tmp_path / "a" / "film.gif", save_all=True, append_images=frames[1:])
    Image.fromarray(np.full((20, 20), 4000, np.uint16)).save(tmp_path / "a" / "camera.png")
    notes = load_folder(tmp_path).notes
    assert "1 of 10 images hold several frames, of which the first is used, such as a/film.gif" in notes
    assert "1 of 10 images use at most 12 of their 16 bits and come out dark, such as a/camera.png" in notes
    assert (read_image(tmp_path / "a" / "film.gif", 8, 1) == 10).all()


def test_images_of_phones_are_read_where_their_package_is(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    Image.new("RGB", (64, 48), (200, 30, 30)).save(tmp_path / "phone.heic")
    found = read_image(tmp_path / "phone.heic", 8, 3)
    (tmp_path / "renamed.jpg").write_bytes((tmp_path / "phone.heic").read_bytes())  # as some programs do
    np.testing.assert_array_equal(read_image(tmp_path / "renamed.jpg", 8, 3), found)
    assert np.abs(found.astype(int) - [200, 30, 30]).max() < 12


def test_images_of_phones_say_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "phone.HEIC").write_bytes(b"any")
    with pytest.raises(UraenasError, match=r"pip install 'uraenas\[heic\]'"):
        read_image(tmp_path / "phone.HEIC", 8, 3)


def test_unreadable_images_can_be_left_out(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for number in range(5):
            picture(tmp_path / name / f"{number}.png", 200)
    (tmp_path / "a" / "broken.png").write_text("not an image")
    with pytest.raises(UraenasError, match="--skip-unreadable"):
        load_folder(tmp_path)
    dataset = load_folder(tmp_path, skip_unreadable=True)
    assert len(dataset.train) + len(dataset.test) == 10
    note = next(note for note in dataset.notes if "left out" in note)
    assert note.startswith("1 of 11 images cannot be read and were left out: ")
    assert "broken.png" in note
    for number in range(5):
        (tmp_path / "b" / f"{number}.png").write_text("not an image")
    with pytest.raises(UraenasError, match="class 'b' has 0"):
        load_folder(tmp_path, skip_unreadable=True)


@pytest.mark.parametrize("tested", [False, True])
def test_a_validation_part_lies_beside_the_train_part(tmp_path: Path, tested: bool) -> None:
    for part, count in (("train", 5), ("val", 2), *([("test", 1)] if tested else [])):
        for number in range(count):
            picture(tmp_path / part / "a" / f"{number}.png", 10)
            picture(tmp_path / part / "b" / f"{number}.png", 240)
    (tmp_path / "valid" / "a").mkdir(parents=True)
    dataset = load_folder(tmp_path)
    assert dataset.validation is not None
    assert [len(part) for part in (dataset.train, dataset.test, dataset.validation)] == (
        [10, 2, 4] if tested else [8, 2, 4]
    )
    assert all(name.startswith("val/") for name in dataset.validation.names or ())
    assert any(note.startswith("not used, beside train/") and "valid" in note for note in dataset.notes)


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


@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
def test_the_size_of_a_turned_picture_is_that_of_the_upright_one(tmp_path: Path, ending: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    lying = tmp_path / f"lying.{ending}"
    Image.new("RGB", (20, 12), "red").save(lying, exif=exif)
    found = read_picture(lying, (12, 20))
    assert (found.note, found.stretched) == ("resized from 12×20", True)
    found = read_picture(lying, (20, 12))
    assert (found.note, found.stretched) == ("", False)


def test_any_size_in_the_models_size_out(tmp_path: Path) -> None:
    picture(tmp_path / "large.jpg", (0, 120, 0), size=(900, 700))
    assert read_image(tmp_path / "large.jpg", 32, 3).shape == (32, 32, 3)
    assert read_image(tmp_path / "large.jpg", (24, 32), 1).shape == (24, 32, 1)
    with pytest.raises(UraenasError, match=r"1 \(grey\) or 3"):
        read_image(tmp_path / "large.jpg", 32, 4)
    with pytest.raises(UraenasError, match=r"absent\.png cannot be read"):
        read_image(tmp_path / "absent.png", 32, 3)


def test_pictures_that_are_large_in_memory_are_decoded_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JPEG is made small while it is decoded, unless it comes in several scans."""
    taken: list[str] = []

    class Counting:
        def __enter__(self) -> None:
            taken.append("")

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(pictures, "LARGE", 200 * 200)
    monkeypatch.setattr(pictures, "ONE_LARGE", Counting())
    whole = Image.new("RGB", (400, 400), "red")
    for name, scans, alone in (("a.jpg", False, 0), ("b.jpg", True, 1), ("c.png", False, 1)):
        whole.save(tmp_path / name, progressive=scans)
        taken.clear()
        assert isinstance(read_picture(tmp_path / name, (16, 16)), pictures.Picture)
        assert len(taken) == alone


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
