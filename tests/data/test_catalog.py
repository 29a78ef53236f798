"""One door to all datasets, and one line where there is none."""

import gzip
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data import (
    OFFICIAL,
    Dataset,
    DataSettings,
    data_root,
    digits,
    fetch_dataset,
    load_dataset,
    load_from_settings,
    save_npz,
)
from uraenas.data.dataset import LabelledImages
from uraenas.data.download import RemoteFile


def test_an_unknown_name_gets_the_nearest_match() -> None:
    with pytest.raises(UraenasError, match="Did you mean 'cifar100'"):
        load_dataset("cifar-100")
    with pytest.raises(UraenasError, match="Did you mean 'mnist'"):
        fetch_dataset("minst")


@pytest.mark.parametrize("name", OFFICIAL)
def test_missing_data_name_the_command_that_fetches_them(name: str, tmp_path: Path) -> None:
    with pytest.raises(UraenasError, match=f"Get it with: uraenas data {name}"):
        load_dataset(name, tmp_path)


def test_paths_are_recognised(tmp_path: Path) -> None:
    save_npz(tmp_path / "mine.npz", digits())
    assert load_dataset(str(tmp_path / "mine.npz")).name == "mine"
    for kind in ("a", "b"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for number in range(2):
            Image.new("L", (9, 9), number).save(tmp_path / "photos" / kind / f"{number}.png")
    assert load_dataset(tmp_path / "photos", image_size=8).train.images.shape[1:] == (8, 8, 1)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UraenasError, match="not a dataset"):
        load_dataset(tmp_path / "notes.txt")
    with pytest.raises(UraenasError, match="does not exist"):
        load_dataset(tmp_path / "absent" / "photos")


def test_the_root_is_given_or_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("URAENAS_DATA", raising=False)
    assert data_root() == Path("datasets")
    monkeypatch.setenv("URAENAS_DATA", "elsewhere")
    assert data_root() == Path("elsewhere")
    assert data_root("given") == Path("given")


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes())


@pytest.fixture
def mnist_files(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(np.full((10, 28, 28), 7, np.uint8)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(np.arange(10, dtype=np.uint8)))
    return folder


def test_files_at_hand_are_taken_in(tmp_path: Path, mnist_files: Path) -> None:
    path = fetch_dataset("fashion-mnist", tmp_path / "root", mnist_files)
    assert path == tmp_path / "root" / "fashion-mnist.npz"
    dataset = load_dataset("fashion-mnist", tmp_path / "root")
    assert dataset.flip
    assert dataset.classes[0] == "T-shirt/top"
    assert dataset.train.images.shape == (10, 28, 28, 1)


def test_a_bad_source_does_not_harm_what_is_there(tmp_path: Path, mnist_files: Path) -> None:
    path = fetch_dataset("mnist", tmp_path / "root", mnist_files)
    before = path.read_bytes()
    (mnist_files / "train-images-idx3-ubyte.gz").write_bytes(b"junk")
    with pytest.raises(UraenasError, match="uraenas data mnist --from"):
        fetch_dataset("mnist", tmp_path / "root", mnist_files)
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["mnist.npz"]


def test_a_download_becomes_one_file(
    tmp_path: Path, mnist_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def copy(remote: RemoteFile, target: Path, progress: object) -> Path:
        fetched.append(remote.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(mnist_files / remote.name, target))

    monkeypatch.setattr("uraenas.data.catalog.download", copy)
    for _ in range(2):  # the second time it is there
        assert fetch_dataset("mnist", tmp_path / "root") == tmp_path / "root" / "mnist.npz"
    assert len(fetched) == 4
    assert [path.name for path in (tmp_path / "root").rglob("*") if path.is_file()] == ["mnist.npz"]
    assert len(load_dataset("mnist", tmp_path / "root").train) == 10


def test_settings_have_their_say_on_augmentation() -> None:
    dataset = load_from_settings(DataSettings(flip="on", padding=3))
    assert dataset.flip
    assert dataset.padding == 3
    assert not load_from_settings(DataSettings()).flip


def test_what_was_set_without_effect_is_noted(tmp_path: Path) -> None:
    every = {"image_size": 8, "channels": "last", "weight": "w"}
    np.savez(tmp_path / "own.npz", images=np.zeros((20, 8, 8, 3), np.uint8), labels=np.arange(20) % 2)
    for name, idle in ((str(tmp_path / "own.npz"), {"image_size", "weight"}), ("digits", set(every))):
        notes = load_from_settings(DataSettings(name=name, **every)).notes
        found = {note.partition(": data.")[2] for note in notes if note.startswith("without effect on")}
        assert found == idle
    assert load_from_settings(DataSettings()).notes == ()


def test_own_images_are_cropped_and_not_mirrored_unless_told(tmp_path: Path) -> None:
    """What the estimator does with arrays, folders and .npz files get on the command line."""
    images = np.zeros((20, 40, 24, 3), np.uint8)
    np.savez(tmp_path / "mine.npz", X=images, y=np.arange(20) % 2)
    for number, image in enumerate(images):
        path = tmp_path / "photos" / str(number % 2) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    of_arrays = load_from_settings(DataSettings(str(tmp_path / "mine.npz")))
    of_folder = load_from_settings(DataSettings(str(tmp_path / "photos"), image_size=64))
    assert (of_arrays.padding, of_folder.padding) == (24 // 8, 64 // 8)
    assert not of_arrays.flip
    assert not of_folder.flip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", ""),
        ("name", 3),
        ("root", None),
        ("image_size", 0),
        ("image_size", 32.0),
        ("image_size", True),
        ("held_out", 0.0),
        ("held_out", 0.95),
        ("held_out", "a"),
        ("held_out", float("nan")),
        ("flip", "yes"),
        ("flip", ["on"]),
        ("padding", -2),
        ("channels", "middle"),
        ("value_range", "255"),
        ("value_range", "1,0"),
        ("value_range", 255),
    ],
)
def test_a_setting_out_of_range_says_key_given_and_allowed(key: str, value: Any) -> None:
    with pytest.raises(UraenasError, match=rf"^{key} = .* is not allowed; allowed: "):
        DataSettings(**{key: value})


def test_stated_ranges_are_understood() -> None:
    assert DataSettings(value_range="0,255").value_limits() == (0.0, 255.0)
    assert DataSettings().value_limits() is None


GOOD = LabelledImages(np.zeros((2, 4, 4, 1), np.uint8), np.array([0, 1]))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"images": np.zeros((2, 4, 4), np.uint8)}, "must be N×H×W×C"),
        ({"images": np.zeros((0, 4, 4, 1), np.uint8)}, "there are no images"),
        ({"images": np.full((2, 4, 4, 1), np.nan, np.float32)}, "NaN or infinite"),
        ({"labels": np.array([0])}, "2 images need 2 int64 labels"),
        ({"weights": np.ones(3, np.float32)}, "2 images need 2 float32 weights"),
        ({"weights": np.array([1, -1], np.float32)}, "not negative"),
    ],
)
def test_labelled_images_that_contradict_themselves_are_refused(wrong: dict, why: str) -> None:
    with pytest.raises(UraenasError, match=why):
        replace(GOOD, **wrong)


def test_a_dataset_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(UraenasError, match="nothing to tell apart"):
        Dataset("d", GOOD, GOOD, ("only",), flip=False, padding=0)
    larger = replace(GOOD, images=np.zeros((2, 5, 4, 1), np.uint8))
    with pytest.raises(UraenasError, match="they must agree"):
        Dataset("d", GOOD, larger, ("a", "b"), flip=False, padding=0)


def test_a_damaged_dataset_names_the_command_that_fetches_it_again(tmp_path: Path, mnist_files: Path) -> None:
    path = fetch_dataset("mnist", tmp_path, mnist_files)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UraenasError, match=r"mnist\.npz is damaged .*uraenas data mnist"):
        load_dataset("mnist", tmp_path)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, mnist_files: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UraenasError, match="cannot write"):
        fetch_dataset("mnist", tmp_path / "file" / "root", mnist_files)
