"""idx files are read plain and gzipped, whole or not at all; images become as large as other networks take them."""

import gzip
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data import fit_images, load_dataset, load_idx, read_image
from uraenas.data.idx import parse_idx


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


IMAGES = np.random.default_rng(0).integers(0, 256, (6, 28, 28), dtype=np.uint8)
LABELS = np.array([0, 9, 1, 2, 3, 4], np.uint8)


def write(folder: Path, packed: bool, labels: np.ndarray = LABELS) -> Path:
    folder.mkdir(parents=True)
    for part in ("train", "t10k"):
        for name, array in ((f"{part}-images-idx3-ubyte", IMAGES), (f"{part}-labels-idx1-ubyte", labels)):
            content = idx(array)
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_the_four_files_are_a_dataset(tmp_path: Path, packed: bool) -> None:
    write(tmp_path / "fashion-mnist", packed)
    by_path = load_idx(tmp_path / "fashion-mnist")
    by_name = load_dataset("fashion-mnist", tmp_path)
    for dataset in (by_path, by_name, load_dataset(tmp_path / "fashion-mnist")):
        np.testing.assert_array_equal(dataset.train.images[..., 0], IMAGES)
        np.testing.assert_array_equal(dataset.test.labels, LABELS)
    assert by_name.flip
    assert by_name.classes[9] == "Ankle boot"


def test_missing_mismatched_and_truncated_files_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "mnist", packed=False, labels=LABELS[:3])
    with pytest.raises(UraenasError, match=r"6 images.* 3 labels.*uraenas data mnist"):
        load_idx(folder)
    (folder / "train-images-idx3-ubyte").write_bytes(idx(IMAGES)[:-1])
    with pytest.raises(
        UraenasError, match=r"train-images-idx3-ubyte .*4703 values follow.*uraenas data mnist"
    ):
        load_idx(folder)
    (folder / "train-images-idx3-ubyte").unlink()
    with pytest.raises(UraenasError, match="lacks train-images-idx3-ubyte"):
        load_idx(folder)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_gives_our_error_or_the_promised_shape(data: st.DataObject) -> None:
    whole = idx(IMAGES[:1, :4, :4])
    junk = bytearray(data.draw(st.sampled_from([whole, whole[: data.draw(st.integers(0, len(whole)))]])))
    for _ in range(data.draw(st.integers(0, 3)) if junk else 0):
        junk[data.draw(st.integers(0, len(junk) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(UraenasError):
        assert parse_idx(bytes(junk), 3).shape == struct.unpack(">3I", junk[4:16])


@settings(max_examples=100, deadline=None)
@given(junk=st.binary(max_size=64), axes=st.sampled_from([1, 3]))
def test_junk_gives_our_error_or_an_array(junk: bytes, axes: int) -> None:
    with suppress(UraenasError):
        assert parse_idx(junk, axes).ndim == axes


@pytest.mark.parametrize("size", [(32, 32), (20, 40), (8, 9)])
def test_images_of_another_size_become_what_their_files_would(tmp_path: Path, size: tuple[int, int]) -> None:
    colours = np.random.default_rng(0).integers(0, 256, (3, 28, 24, 3), dtype=np.uint8)
    for number, image in enumerate(colours):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    read = [read_image(tmp_path / f"{number}.png", size, 3) for number in range(3)]
    np.testing.assert_array_equal(fit_images(colours, *size, 3), read)
    as_floats = fit_images((colours / 255).astype(np.float32), *size, 3)
    np.testing.assert_allclose(as_floats * 255, read, atol=1.01)
    grey = fit_images(colours, *size, 1)
    assert grey.dtype == np.uint8
    by_file = [read_image(tmp_path / f"{number}.png", size, 1) for number in range(3)]
    np.testing.assert_allclose(grey, by_file, atol=1)
    np.testing.assert_array_equal(fit_images(grey, *size, 3), grey.repeat(3, axis=3))


def test_what_cannot_fit_is_refused() -> None:
    with pytest.raises(UraenasError, match="2 channels cannot become 3"):
        fit_images(np.zeros((1, 8, 8, 2), np.uint8), 8, 8, 3)
