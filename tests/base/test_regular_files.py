"""Nothing waits for a FIFO, follows a link out of a run, or replaces what is no file."""

import os
from pathlib import Path

import pytest
import torch

from uraenas.base.errors import UraenasError
from uraenas.base.files import append_line, checksum_of, read_json, read_tensors, write_json, write_tensors
from uraenas.base.lock import hold


def kinds(folder: Path) -> dict[str, Path]:
    """One of each kind of file that is no regular one, and files that are too large to be true."""
    made = {name: folder / name for name in ("fifo", "folder", "sparse", "link to a FIFO")}
    os.mkfifo(made["fifo"])
    made["folder"].mkdir()
    with made["sparse"].open("wb") as file:
        file.truncate(1 << 40)
    made["link to a FIFO"].symlink_to(made["fifo"])
    return {**made, "device": Path("/dev/zero"), "terminal": Path("/dev/tty")}


def test_nothing_is_read_but_regular_files_of_a_possible_size(tmp_path: Path) -> None:
    for name, path in kinds(tmp_path).items():
        for read in (read_json, read_tensors):
            with pytest.raises(UraenasError) as said:
                read(path)
            assert str(path) in str(said.value), name


def test_a_header_that_promises_more_than_the_file_has_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_tensors(path, {"a": torch.zeros(4)}, {})
    whole = path.read_bytes()
    for length in (0, 1, 2**63 - 1, 2**64 - 1, len(whole)):
        path.write_bytes(length.to_bytes(8, "little") + whole[8:])
        with pytest.raises(UraenasError, match="damaged"):
            read_tensors(path)
    path.write_bytes(whole)
    with path.open("r+b") as file:
        file.truncate(1 << 33)  # a long tail of zeros, none of which is read
    with pytest.raises(UraenasError, match="longer than its header says"):
        read_tensors(path)


def test_logs_and_locks_do_not_follow_links(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    run = tmp_path / "run"
    run.mkdir()
    for name in ("lock", "log.jsonl"):
        (run / name).symlink_to(target)
    with pytest.raises(UraenasError, match="it is a link"):
        append_line(run / "log.jsonl", {})
    with pytest.raises(UraenasError, match="it is a link"), hold(run):
        pass
    (run / "lock").unlink()
    (run / "lock").write_text("somebody's own words")
    with pytest.raises(UraenasError, match="of another kind"), hold(run):
        pass
    assert (run / "lock").read_text() == "somebody's own words"
    assert target.read_text() == "precious"


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "f.json"
    {"fifo": os.mkfifo, "link": lambda p: p.symlink_to(tmp_path / "x"), "folder": os.mkdir}[kind](path)
    before = path.lstat()
    with pytest.raises(UraenasError, match=f"cannot write {path}: it is a"):
        write_json(path, {})
    assert path.lstat() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.json"]


def test_a_file_that_is_rewritten_after_it_was_read_does_no_harm(tmp_path: Path) -> None:
    """A mapped one would end the process with SIGBUS."""
    path = tmp_path / "f"
    write_tensors(path, {"a": torch.arange(100_000.0)}, {})
    tensors, _ = read_tensors(path, checksum_of(path))
    with path.open("r+b") as file:
        file.truncate(10)
    assert float(tensors["a"].sum()) == pytest.approx(4999950000, rel=1e-6)


def test_names_of_any_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250 + ".json")
    write_json(path, {"a": 1})
    assert read_json(path) == {"a": 1}


def test_no_key_twice_and_no_number_that_is_none(tmp_path: Path) -> None:
    for text in ('{"a": 1, "a": 2}', '{"a": NaN}', '{"a": -Infinity}', '{"a": {"b": 1, "b": 1}}'):
        (tmp_path / "f").write_text(text)
        with pytest.raises(UraenasError, match="damaged"):
            read_json(tmp_path / "f")
