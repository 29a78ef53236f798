"""A suite on disk: the release's layout, restarts, and what a damaged folder is told."""

import json
import re

import numpy as np
import pytest
from picture_book import picture_book

from uraenas.base.errors import UraenasError
from uraenas.shifts import SHIFTS, corrupt, writing
from uraenas.shifts.suite import check_suite, open_suite, write_suite

SEVERITIES = (1, 2, 3, 4, 5)
TWO = ("contrast", "gaussian_noise")


@pytest.fixture
def small():
    return picture_book(7, 8, 8, 1), np.arange(7) % 3


def write(small, out, **settings):
    return write_suite(*small, out, **{"only": TWO, "workers": 1, **settings})


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_layout_is_the_releases(small, tmp_path):
    images, labels = small
    checksums = write(small, tmp_path, seed=4)
    assert files_of(tmp_path) == {"labels.npy", "contrast.npy", "gaussian_noise.npy", "manifest.json"}
    assert set(checksums) == files_of(tmp_path) - {"manifest.json"}
    assert not (tmp_path / "parts").exists()
    repeated = np.load(tmp_path / "labels.npy")
    assert repeated.dtype == np.uint8
    assert np.array_equal(repeated, np.tile(labels, 5))
    expected = np.concatenate([corrupt(images, "gaussian_noise", s, seed=4) for s in SEVERITIES])
    np.save(tmp_path / "expected.npy", expected)
    assert (tmp_path / "gaussian_noise.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["seed"] == 4
    assert manifest["files"]["contrast.npy"]["libraries"]["numpy"] == np.__version__


def test_workers_and_blocks_do_not_matter(small, tmp_path, monkeypatch):
    one = write(small, tmp_path / "one")
    two = write(small, tmp_path / "two", workers=2)
    monkeypatch.setattr(writing, "PART_BLOCK", 2)
    blocks = write(small, tmp_path / "blocks")
    assert one == two == blocks
    assert one != write(small, tmp_path / "seed", seed=1)


def test_goes_on_where_it_was_stopped(small, tmp_path):
    class Killed(Exception):
        pass

    def kill(what, done, total):
        if what == "gaussian_noise 2":
            raise Killed

    with pytest.raises(Killed):
        write(small, tmp_path, progress=kill)
    assert "gaussian_noise.npy" not in files_of(tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    assert {path.stem for path in kept} == {"labels", "contrast", "gaussian_noise-1", "gaussian_noise-2"}
    seen = []
    again = write(small, tmp_path, progress=lambda *step: seen.append(step))
    assert seen == [(f"gaussian_noise {s}", 5 + s, 10) for s in (3, 4, 5)]
    assert (tmp_path / "contrast.npy").stat().st_mtime_ns == kept[tmp_path / "contrast.npy"]
    assert again == write(small, tmp_path / "fresh")


def test_a_kill_before_the_parts_are_removed_is_mended(small, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing.SuiteWriter, "_remove_parts", killed)
        with pytest.raises(KeyboardInterrupt):
            write(small, tmp_path)
    (tmp_path / ".fog.npy.1234.tmp").write_bytes(b"half")
    assert {"contrast.npy", "parts/contrast-5.npy"} <= files_of(tmp_path)
    assert write(small, tmp_path) == write(small, tmp_path / "fresh")
    assert files_of(tmp_path / "fresh") == {path for path in files_of(tmp_path) if "/" not in path}
    assert not (tmp_path / "parts").exists()


def test_a_failure_while_writing_leaves_no_file(small, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "write_array", full)
    with pytest.raises(UraenasError, match=r"cannot write .*labels.npy: No space left"):
        write(small, tmp_path)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_some_severities_stay_parts_until_the_others_come(small, tmp_path):
    write(small, tmp_path, severities=(2, 4))
    assert not {"contrast.npy", "gaussian_noise.npy"} & files_of(tmp_path)
    assert [(name, s) for name, s, _ in open_suite(tmp_path)] == [
        ("gaussian_noise", 2),
        ("gaussian_noise", 4),
        ("contrast", 2),
        ("contrast", 4),
    ]
    assert set(check_suite(tmp_path).values()) == {"regenerated"}
    assert write(small, tmp_path, severities=(1, 3, 5)) == write(small, tmp_path / "fresh")
    assert not (tmp_path / "parts").exists()


def test_parts_of_other_libraries_are_made_again(small, tmp_path, monkeypatch):
    write(small, tmp_path, severities=(1,))
    monkeypatch.setattr(writing, "library_versions", lambda: {"numpy": "other"})
    seen = []
    write(small, tmp_path, progress=lambda *step: seen.append(step))
    assert len(seen) == 10


def test_streams_what_was_written(small, tmp_path):
    images, labels = small
    write(small, tmp_path)
    suite = open_suite(tmp_path)
    assert len(suite) == 10
    assert suite.labels.dtype == np.int64
    assert np.array_equal(suite.labels, labels)
    for name, severity, mapped in suite:
        assert not isinstance(mapped, np.memmap)  # a file that is cut short would end the process
        assert np.array_equal(mapped, corrupt(images, name, severity, seed=0))


def test_another_seed_or_dataset_or_owner_is_refused(small, tmp_path):
    images, labels = small
    write(small, tmp_path)
    with pytest.raises(UraenasError, match="choose another folder"):
        write(small, tmp_path, seed=1)
    with pytest.raises(UraenasError, match="choose another folder"):
        write((images[::-1], labels), tmp_path)
    with pytest.raises(UraenasError, match="other labels"):
        write((images, labels[::-1]), tmp_path)
    np.save(tmp_path / "fog.npy", np.zeros(3))
    with pytest.raises(UraenasError, match=r"fog.npy is there but was not made here"):
        write(small, tmp_path, only=["fog"])
    assert len(np.load(tmp_path / "fog.npy")) == 3


def test_check_says_file_by_file(small, tmp_path):
    write(small, tmp_path)
    np.save(tmp_path / "fog.npy", np.zeros((35, 8, 8, 1), np.uint8))
    assert check_suite(tmp_path) == {
        "labels.npy": "regenerated",
        "gaussian_noise.npy": "regenerated",
        "contrast.npy": "regenerated",
        "fog.npy": "unknown",
    }


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_file_is_one_clear_line(keep, small, tmp_path):
    write(small, tmp_path)
    path = tmp_path / "contrast.npy"
    path.write_bytes(path.read_bytes()[:keep])
    told = (
        rf"contrast.npy is truncated or no array; .*uraenas corrupt DATASET --out {re.escape(str(tmp_path))}"
    )
    for reader in (check_suite, open_suite):
        with pytest.raises(UraenasError, match=told + " --only contrast"):
            reader(tmp_path)


def test_wrong_checksum_is_one_clear_line_and_mended_as_told(small, tmp_path):
    before = write(small, tmp_path)
    path = tmp_path / "contrast.npy"
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(UraenasError, match="another checksum"):
        check_suite(tmp_path)
    with pytest.raises(UraenasError, match="another checksum"):
        write(small, tmp_path)
    path.unlink()
    assert write(small, tmp_path) == before


def test_pickles_are_never_loaded(small, tmp_path):
    write(small, tmp_path)
    np.save(tmp_path / "contrast.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(UraenasError, match="no array"):
        open_suite(tmp_path)


@pytest.mark.parametrize(
    "wrong", [np.zeros((35, 8, 8, 1)), np.zeros((34, 8, 8, 1), np.uint8), np.zeros((35, 8, 8), np.uint8)]
)
def test_wrong_shape_or_type_is_refused(wrong, small, tmp_path):
    write(small, tmp_path)
    np.save(tmp_path / "contrast.npy", wrong)
    with pytest.raises(UraenasError, match=r"contrast.npy must be uint8 35×H×W×C"):
        open_suite(tmp_path)


def test_labels_must_repeat(small, tmp_path):
    write(small, tmp_path)
    for wrong in (np.arange(35), np.zeros(34, np.uint8), np.zeros(35), np.zeros((5, 7), np.uint8)):
        np.save(tmp_path / "labels.npy", wrong)
        with pytest.raises(UraenasError, match="five times over"):
            open_suite(tmp_path)


def test_many_classes_do_not_fit_in_bytes(small, tmp_path):
    write((small[0], np.arange(7) * 100), tmp_path)
    assert open_suite(tmp_path).labels.tolist() == [0, 100, 200, 300, 400, 500, 600]


def test_empty_folder_and_damaged_manifest(small, tmp_path):
    for reader in (check_suite, open_suite):
        with pytest.raises(UraenasError, match="uraenas corrupt DATASET --out"):
            reader(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(UraenasError, match=r"manifest\.json cannot be read"):
        write(small, tmp_path)


def test_wrong_calls_write_nothing(small, tmp_path):
    images, labels = small
    out = tmp_path / "out"
    for settings in ({"only": ["fogg"]}, {"severities": (0,)}, {"severities": ()}, {"only": list(SHIFTS)}):
        with pytest.raises(UraenasError):  # the last for saturate, which grey images do not have
            write(small, out, **settings)
    with pytest.raises(UraenasError, match="one label each"):
        write((images, labels[:3]), out)
    assert not out.exists()
