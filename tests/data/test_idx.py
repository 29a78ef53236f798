"""idx files are read plain and gzipped, whole or not at all; images fit other frames by the plain rule."""

import gzip
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uraenas.base.errors import UraenasError
from uraenas.data import fit_images, load_dataset, load_idx
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


def test_a_smaller_image_is_framed_in_black() -> None:
    fitted = fit_images(IMAGES[..., None], 32, 32, 3)
    assert fitted.shape == (6, 32, 32, 3)
    np.testing.assert_array_equal(fitted[:, 2:-2, 2:-2, 1], IMAGES)
    assert fitted[:, :2].max() == fitted[:, -2:].max() == fitted[:, :, :2].max() == 0


def test_a_much_smaller_image_is_enlarged_by_a_whole_factor() -> None:
    fitted = fit_images(IMAGES[:, :8, :8, None], 33, 32, 1)
    np.testing.assert_array_equal(fitted[:, :32:4, ::4, 0], IMAGES[:, :8, :8])


def test_a_larger_image_is_shrunk_whole() -> None:
    flat = np.full((2, 40, 80, 3), 77, np.uint8)
    fitted = fit_images(flat, 32, 32, 1)
    assert fitted.dtype == np.uint8
    assert (fitted[:, 8:-8] == 77).all()
    assert fitted[:, :8].max() == 0
    halves = fit_images((flat / 255).astype(np.float32), 20, 40, 3)
    np.testing.assert_allclose(halves, 77 / 255, rtol=1e-5)


def test_what_cannot_fit_is_refused() -> None:
    with pytest.raises(UraenasError, match="2 channels cannot become 3"):
        fit_images(np.zeros((1, 8, 8, 2), np.uint8), 8, 8, 3)
