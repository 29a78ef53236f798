"""CIFAR is read alike from both layouts, from folders and archives, and nothing else is touched."""

import gzip
import io
import os
import pickle
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uraenas.base.errors import UraenasError
from uraenas.data import CIFAR10, CIFAR100, load_cifar
from uraenas.data.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES, Cifar, read_binary, read_python
from uraenas.data.files import blaming

IMAGES_PER_FILE = 4


def small(kind: Cifar) -> Cifar:
    return replace(kind, images_per_train_file=IMAGES_PER_FILE, images_per_test_file=IMAGES_PER_FILE)


KINDS = [small(CIFAR10), small(CIFAR100)]


def file_content(kind: Cifar, number: int, binary: bool, protocol: int = 2) -> bytes:
    generator = np.random.default_rng(number)
    pixels = generator.integers(0, 256, (IMAGES_PER_FILE, 3072), dtype=np.uint8)
    labels = generator.integers(0, len(kind.classes), IMAGES_PER_FILE)
    if not binary:
        return pickle.dumps({"data": pixels, kind.label_key: labels.tolist(), "filenames": ["a"]}, protocol)
    other_labels = np.zeros((IMAGES_PER_FILE, kind.label_bytes - 1), np.uint8)
    return np.hstack([other_labels, labels[:, None].astype(np.uint8), pixels]).tobytes()


def files(kind: Cifar, binary: bool, protocol: int = 2) -> dict[str, bytes]:
    layout = kind.layouts[binary]
    return {
        f"{layout.folder}/{name}": file_content(kind, number, binary, protocol)
        for number, name in enumerate(layout.files)
    }


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def folder(path: Path, members: dict[str, bytes]) -> Path:
    for name, content in members.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_layout_gives_the_same_dataset(tmp_path: Path, kind: Cifar) -> None:
    python, binary = files(kind, binary=False, protocol=5), files(kind, binary=True)
    places = [
        archive(tmp_path / "python.tar.gz", files(kind, binary=False)),
        archive(tmp_path / "binary.tar.gz", binary),
        folder(tmp_path / "one", python),
        folder(tmp_path / "two", binary),
        tmp_path / "two" / kind.layouts[1].folder,
    ]
    datasets = [load_cifar(place, kind) for place in places]
    first = datasets[0]
    assert first.train.images.shape == (IMAGES_PER_FILE * len(kind.layouts[0].train), 32, 32, 3)
    assert first.flip
    assert first.padding == 4
    for other in datasets[1:]:
        np.testing.assert_array_equal(first.train.images, other.train.images)
        np.testing.assert_array_equal(first.train.labels, other.train.labels)
        np.testing.assert_array_equal(first.test.images, other.test.images)


def test_pixels_lie_row_by_row_plane_by_plane() -> None:
    record = bytes([7]) + bytes([1] * 1024) + bytes([2] * 1024) + bytes([3] * 1023) + bytes([9])
    images, labels = read_binary(record, CIFAR10)
    assert labels.tolist() == [7]
    assert images[0, 0, 0].tolist() == [1, 2, 3]
    assert images[0, 31, 31].tolist() == [1, 2, 9]


def test_the_class_names_are_complete() -> None:
    assert len(set(CIFAR10_CLASSES)) == 10
    assert len(set(CIFAR100_CLASSES)) == 100
    assert list(CIFAR100_CLASSES) == sorted(CIFAR100_CLASSES)


def test_a_missing_a_short_and_a_truncated_file_are_named_with_the_mend(tmp_path: Path) -> None:
    kind, members = KINDS[0], files(KINDS[0], binary=True)
    path = folder(tmp_path / "data", members)
    target = path / "cifar-10-batches-bin" / "data_batch_3.bin"
    whole = target.read_bytes()
    for content, message in [
        (whole[:-1], "truncated"),
        (whole[:3073], "1 images instead of 4"),
        (b"", "truncated"),
    ]:
        target.write_bytes(content)
        with pytest.raises(UraenasError, match=rf"data_batch_3\.bin.*{message}.*uraenas data cifar10 --from"):
            load_cifar(path, kind)
    target.unlink()
    with pytest.raises(UraenasError, match=r"lacks data_batch_3\.bin.*uraenas data cifar10"):
        load_cifar(path, kind)
    with pytest.raises(UraenasError, match="does not exist"):
        load_cifar(tmp_path / "nowhere.tar.gz", kind)


def test_a_truncated_archive_is_named_with_the_mend(tmp_path: Path) -> None:
    path = archive(tmp_path / "cifar.tar.gz", files(KINDS[0], binary=False))
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(UraenasError, match=r"cifar\.tar\.gz .*uraenas data cifar10 --from"):
        load_cifar(path, KINDS[0])


class Harmful:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def test_a_harmful_pickle_in_the_place_of_a_batch_runs_nothing(tmp_path: Path) -> None:
    members = files(KINDS[0], binary=False)
    members["cifar-10-batches-py/data_batch_2"] = pickle.dumps(Harmful(f"touch {tmp_path / 'witness'}"))
    path = archive(tmp_path / "cifar.tar.gz", members)
    with pytest.raises(UraenasError, match=r"data_batch_2 .*system"):
        load_cifar(path, KINDS[0])
    assert not (tmp_path / "witness").exists()


def test_an_archive_writes_nothing_whatever_its_names(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    members = {"../escaped": b"x", "/tmp/uraenas-escaped": b"x", **files(KINDS[0], binary=False)}
    path = archive(inner / "cifar.tar.gz", members)
    with tarfile.open(inner / "links.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    before = sorted(tmp_path.rglob("*"))
    load_cifar(path, KINDS[0])
    with pytest.raises(UraenasError, match="lacks data_batch_1"):
        load_cifar(inner / "links.tar.gz", KINDS[0])
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/uraenas-escaped").exists()


def test_a_gzip_bomb_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uraenas.data.cifar.MOST_BYTES", 1 << 20)
    info = tarfile.TarInfo("filler")
    info.size = 8 << 20
    (tmp_path / "bomb.tar.gz").write_bytes(gzip.compress(info.tobuf() + bytes(info.size)))
    with pytest.raises(UraenasError, match="more bytes than any file"):
        load_cifar(tmp_path / "bomb.tar.gz", KINDS[0])


TWO = np.zeros((2, 3072), np.uint8)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({}, "its `data` is not"),
        ({"data": [1, 2], "labels": [1, 2]}, "its `data` is not"),
        ({"data": TWO[:, 1:], "labels": [1, 2]}, "its `data` is not"),
        ({"data": TWO.astype(np.int16), "labels": [1, 2]}, "its `data` is not"),
        ({"data": TWO, "labels": [1]}, "its `labels` are not 2 integers"),
        ({"data": TWO, "labels": [1, 10]}, "its labels reach from 1 to 10"),
        ({"data": TWO, "labels": [1, -1]}, "its `labels` are not 2 integers"),
        ({"data": TWO, "labels": [1, "2"]}, "its `labels` are not 2 integers"),
        ({"data": TWO, "labels": [1, 1 << 80]}, "its `labels` are not 2 integers"),
        ({"data": TWO, "labels": np.array([[1], [2]])}, "its `labels` are not 2 integers"),
        ({"data": TWO}, "its `labels` are not 2 integers"),
        ([], "not a dictionary"),
    ],
)
def test_a_pickle_with_other_content_is_refused_with_the_reason(content: object, why: str) -> None:
    with pytest.raises(UraenasError, match=why):
        read_python(pickle.dumps(content), CIFAR10)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), binary=st.booleans(), kind=st.sampled_from(KINDS))
def test_damaged_files_give_images_or_our_error(data: st.DataObject, binary: bool, kind: Cifar) -> None:
    whole = file_content(kind, 1, binary)
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, min(300, len(damaged) - 1)))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        with blaming("damaged", ""):
            images, labels = (read_binary if binary else read_python)(bytes(damaged), kind)
    except UraenasError:
        return
    assert images.shape == (len(labels), 32, 32, 3)
    assert labels.max(initial=0) < len(kind.classes)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_archives_give_the_dataset_or_our_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.tar.gz"
    damaged = bytearray(archive(path, files(KINDS[1], binary=True)).read_bytes())
    right = load_cifar(path, KINDS[1])
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(damaged[: data.draw(st.integers(position, len(damaged)))])
    with suppress(UraenasError):
        found = load_cifar(path, KINDS[1])
        np.testing.assert_array_equal(found.train.images, right.train.images)
        np.testing.assert_array_equal(found.test.labels, right.test.labels)


@pytest.mark.data
def test_the_real_files_are_read() -> None:
    """Needs URAENAS_DATA to point at a folder with CIFAR-10."""
    from uraenas.data import load_dataset

    dataset = load_dataset("cifar10")
    assert dataset.train.images.shape == (50_000, 32, 32, 3)
    assert (np.bincount(dataset.train.labels) == 5000).all()
    assert (np.bincount(dataset.test.labels) == 1000).all()
    assert dataset.train.labels[:5].tolist() == [6, 9, 9, 4, 1]  # frog, truck, truck, deer, automobile
    np.testing.assert_allclose(dataset.train.images.mean((0, 1, 2)), [125.307, 122.950, 113.865], atol=1e-3)
