"""An .npz file is read without pickle, within limits, or refused in one line."""

import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from uraenas.base.errors import UraenasError
from uraenas.data import Dataset, digits, load_npz, save_npz

IMAGES = np.arange(20 * 6 * 6, dtype=np.uint8).reshape(20, 6, 6)
LABELS = np.arange(20) % 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    buffer = BytesIO()
    np.savez_compressed(buffer, x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:4], y_test=LABELS[:4])
    return buffer.getvalue()


def saved(folder: Path, **arrays: object) -> Path:
    path = folder / "mine.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def same(one: Dataset, other: Dataset) -> bool:
    pairs = ((one.train, other.train), (one.test, other.test))
    return all(np.array_equal(a.images, b.images) and np.array_equal(a.labels, b.labels) for a, b in pairs)


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    dataset = digits()
    save_npz(tmp_path / "digits.npz", dataset)
    again = load_npz(tmp_path / "digits.npz")
    assert same(dataset, again)
    assert again.classes == dataset.classes
    assert [path.name for path in tmp_path.iterdir()] == ["digits.npz"]


def test_a_missing_test_part_is_made_and_noted(tmp_path: Path) -> None:
    dataset = load_npz(saved(tmp_path, images=IMAGES, labels=LABELS, comment=np.array("hello")))
    assert len(dataset.train) == 16
    assert np.bincount(dataset.test.labels).tolist() == [2, 2]
    assert any("no test part" in note for note in dataset.notes)
    assert any("comment" in note for note in dataset.notes)


@pytest.mark.parametrize(
    "keys", [("x_train", "y_train", "x_val", "y_val"), ("X", "y", "X_val", "y_val"), None]
)
def test_a_validation_part_is_kept(tmp_path: Path, keys: tuple[str, ...] | None) -> None:
    keys = keys or ("images", "labels", "val_images", "val_labels")
    arrays = dict(zip(keys, (IMAGES, LABELS, IMAGES[:6], LABELS[:6]), strict=True))
    dataset = load_npz(saved(tmp_path, **arrays))
    assert dataset.validation is not None
    assert np.array_equal(dataset.validation.images[..., 0], IMAGES[:6])
    assert np.array_equal(dataset.validation.labels, LABELS[:6])
    save_npz(tmp_path / "again.npz", dataset)
    again = load_npz(tmp_path / "again.npz")
    assert again.validation is not None
    assert np.array_equal(again.validation.images, dataset.validation.images)
    del arrays[keys[3]]
    with pytest.raises(UraenasError, match="both or not at all"):
        load_npz(saved(tmp_path, **arrays))


def test_labels_may_be_strings_columns_and_gappy_integers(tmp_path: Path) -> None:
    words = np.where(LABELS == 1, "dog", "cat")
    assert load_npz(saved(tmp_path, images=IMAGES, labels=words)).classes == ("cat", "dog")
    gappy = load_npz(saved(tmp_path, images=IMAGES, labels=LABELS[:, None] * 7))
    assert gappy.classes == ("0", "7")
    assert gappy.train.labels.max() == 1


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"foo": IMAGES}, "holds foo; needed: x_train"),
        ({"images": IMAGES, "labels": LABELS[:5]}, "20 images and 5 labels"),
        ({"images": IMAGES, "labels": np.eye(20)}, "one integer or string per image"),
        ({"images": IMAGES, "labels": LABELS, "test_images": IMAGES}, "both or not at all"),
        (
            {"x_train": IMAGES, "y_train": LABELS, "test_images": IMAGES, "test_labels": LABELS},
            "has test_images, test_labels beside x_train; a file keeps to one spelling: x_train, y_train, x_test",
        ),
        ({"images": IMAGES, "labels": LABELS, "x_val": IMAGES, "y_val": LABELS}, "has x_val, y_val beside"),
        (
            {"images": IMAGES, "labels": LABELS, "test_images": IMAGES, "test_labels": LABELS + 1},
            "label 2 is not among",
        ),
        ({"images": IMAGES, "labels": np.array([0] * 19 + [1])}, r"'1' has 1 example"),
        ({"images": IMAGES.astype(float), "labels": LABELS}, "value_range"),
        ({"images": IMAGES, "labels": np.array([{}] * 20)}, "numbers and, for labels, strings"),
        ({"images": IMAGES, "labels": LABELS, "classes": np.array(["a"])}, "label 1 is not among"),
        (
            {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:4] / 255, "y_test": LABELS[:4]},
            "training images are uint8 and test images float32, whose values mean other things",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:4] % 2, "y_test": LABELS[:4]},
            "uint8 images with values 0 and 1 alone are ambiguous",
        ),
    ],
)
def test_bad_content_gets_one_clear_line(tmp_path: Path, arrays: dict[str, object], message: str) -> None:
    with pytest.raises(UraenasError, match=message):
        load_npz(saved(tmp_path, **arrays))


def test_names_that_lead_elsewhere_are_never_paths(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    part = BytesIO()
    np.save(part, np.zeros((4, 5, 5, 1), np.uint8))
    with zipfile.ZipFile(inner / "data.npz", "w") as archive:
        for name in ("../x_train.npy", "/tmp/uraenas-escaped.npy", "x_train.npy"):
            archive.writestr(name, part.getvalue())
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UraenasError, match="needed: x_train and y_train"):
        load_npz(inner / "data.npz")
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/uraenas-escaped.npy").exists()


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uraenas.data.npz.SMALL_BYTES", 1 << 20)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", bytes(2 << 20))
    with pytest.raises(UraenasError, match="would grow"):
        load_npz(path)


def test_a_header_that_promises_too_much_allocates_nothing(tmp_path: Path) -> None:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000000, 100), }\n"
    path = tmp_path / "liar.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UraenasError, match="truncated"):
        load_npz(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UraenasError, match=r"absent\.npz does not exist"):
        load_npz(tmp_path / "absent.npz")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_noticed(tmp_path: Path, whole: bytes, data: st.DataObject) -> None:
    """Flipped bits and cut ends give our error or, where the bytes do not matter, the right dataset."""
    path = tmp_path / "whole.npz"
    path.write_bytes(whole)
    right = load_npz(path)
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    for _ in range(data.draw(st.integers(1, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(damaged)
    try:
        found = load_npz(path)
    except UraenasError:
        return
    assert same(found, right) or any("no test part" in note for note in found.notes)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=400))
def test_junk_is_refused(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "junk.npz"
    path.write_bytes(junk)
    with pytest.raises(UraenasError):
        load_npz(path)
