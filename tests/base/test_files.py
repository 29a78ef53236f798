"""Files are whole or not there, and damage is noticed."""

import os
import resource
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from uraenas.base.errors import UraenasError
from uraenas.base.files import (
    FORMAT,
    append_line,
    read_json,
    read_tensors,
    require_format,
    write_bytes,
    write_json,
    write_tensors,
)

TENSORS = {
    "weights": torch.linspace(-1, 1, 6).view(2, 3),
    "steps": torch.tensor([3, -4]),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "mask": torch.tensor([True, False]),
    "brain": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "half": torch.tensor([1.5], dtype=torch.float16),
    "empty": torch.zeros(0),
    "one of many": torch.arange(12.0).view(1, 12)[:, 4],  # contiguous, with a stride
}
HEADER = {"genotype": "|none~0|", "ε": "0.1"}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "er" / "file.safetensors"
    write_tensors(path, TENSORS, HEADER)
    return path


def test_tensors_and_header_come_back_as_they_were(stored: Path) -> None:
    tensors, header = read_tensors(stored)
    assert header == HEADER
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_views_that_share_memory_can_be_written(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(3, 4)
    write_tensors(tmp_path / "f", {"a": whole.T, "b": whole[1], "c": whole.requires_grad_()}, {})
    tensors, _ = read_tensors(tmp_path / "f")
    assert torch.equal(tensors["a"], whole.detach().T)
    assert torch.equal(tensors["b"], whole.detach()[1])


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, path = [], tmp_path / "file"
    rename = os.replace

    def renamed(source: Path, target: Path) -> None:
        told.append("renamed")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", lambda handle: told.append(os.fstat(handle).st_ino))
    monkeypatch.setattr(os, "replace", renamed)
    write_bytes(path, b"content")
    assert told == [path.stat().st_ino, "renamed", tmp_path.stat().st_ino]


def test_nothing_but_the_file_is_left_behind(stored: Path) -> None:
    write_tensors(stored, TENSORS, {})
    assert [path.name for path in stored.parent.iterdir()] == [stored.name]


def test_every_single_flipped_bit_is_noticed(stored: Path) -> None:
    """All of them: length, header, padding and data."""
    write_tensors(stored, {"mask": TENSORS["mask"]}, {"a": "b"})
    whole = stored.read_bytes()
    unnoticed = []
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        stored.write_bytes(damaged)
        try:
            read_tensors(stored)
            unnoticed.append(bit)
        except UraenasError:
            pass
    assert unnoticed == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rubbish_in_the_middle_is_noticed(stored: Path, data: st.DataObject) -> None:
    write_tensors(stored, TENSORS, HEADER)
    whole = stored.read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    rubbish = data.draw(st.binary(min_size=1, max_size=40))
    damaged = whole[:start] + rubbish + whole[start + len(rubbish) :]
    if damaged == whole:
        return
    stored.write_bytes(damaged)
    with pytest.raises(UraenasError, match="damaged"):
        read_tensors(stored)


def test_every_truncation_is_noticed(stored: Path) -> None:
    whole = stored.read_bytes()
    for length in range(0, len(whole), 7):
        stored.write_bytes(whole[:length])
        with pytest.raises(UraenasError, match="is damaged"):
            read_tensors(stored)


def test_a_file_of_another_writer_is_refused(tmp_path: Path) -> None:
    import safetensors.torch

    (tmp_path / "f").write_bytes(safetensors.torch.save({"a": torch.ones(2)}))
    with pytest.raises(UraenasError, match="damaged"):
        read_tensors(tmp_path / "f")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    for read in (read_tensors, read_json):
        with pytest.raises(UraenasError, match=r"cannot read .*nowhere"):
            read(tmp_path / "nowhere")
        with pytest.raises(UraenasError, match=str(tmp_path)):
            read(tmp_path)


def test_json_comes_back_as_it_was(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, "ü"], "b": {"c": True}}
    write_json(tmp_path / "f.json", value)
    assert read_json(tmp_path / "f.json") == value


def test_json_changed_by_hand_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    write_json(path, {"accuracy": 0.91})
    path.write_text(path.read_text().replace("0.91", "0.99"))
    with pytest.raises(UraenasError, match=r"f\.json is damaged, or was changed by hand"):
        read_json(path)


@pytest.mark.parametrize(
    ("facts", "found"), [({}, "1"), ({"format": FORMAT + 1}, str(FORMAT + 1)), ([], "None")]
)
def test_what_another_version_wrote_is_refused_in_one_line(facts: object, found: str) -> None:
    require_format(Path("config.json"), {"format": FORMAT})
    with pytest.raises(
        UraenasError, match=rf"config\.json was written by another .*\(format {found}, this"
    ) as said:
        require_format(Path("config.json"), facts)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"a": 1', b"\xff\xfe\x00", b"[" * 100_000, b'{"a": 1} rest']
)
def test_damaged_json_is_noticed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(UraenasError, match=r"f\.json is damaged"):
        read_json(tmp_path / "f.json")


def test_values_that_json_does_not_know_are_not_written(tmp_path: Path) -> None:
    write_json(tmp_path / "f.json", {"old": 1})
    for value in (float("nan"), float("inf"), object()):
        with pytest.raises((ValueError, TypeError)):
            write_json(tmp_path / "f.json", {"new": value})
        assert read_json(tmp_path / "f.json") == {"old": 1}


def test_a_write_that_fails_half_way_leaves_the_old_file_whole(tmp_path: Path) -> None:
    """The system refuses to let the file grow, as a full disk would."""
    path = tmp_path / "f"
    write_bytes(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(UraenasError, match=f"cannot write {path}"):
            write_bytes(path, b"new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "below", tmp_path / "folder"):
        with pytest.raises(UraenasError, match=f"cannot write {path}"):
            write_bytes(path, b"x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]
    with pytest.raises(UraenasError, match="cannot write"):
        append_line(tmp_path / "folder", {})


def test_lines_are_appended(tmp_path: Path) -> None:
    for number in range(3):
        append_line(tmp_path / "logs" / "log.jsonl", {"number": number})
    assert (tmp_path / "logs" / "log.jsonl").read_text() == '{"number": 0}\n{"number": 1}\n{"number": 2}\n'
