"""Event files: the format, what is in them, and that they go on after a kill."""

import math
import struct
import warnings
from pathlib import Path

import pytest
from short_runs import FEW

from uraenas.run.checkpoints import read_chain
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline
from uraenas.run.tensorboard import FILE, EventFiles, crc32c
from uraenas.spaces import CellSpace

DECISIONS = CellSpace().decisions
Scalars = dict[str, list[tuple[int, float]]]  # tag → (step, value)


def records(path: Path) -> list[bytes]:
    """The contents, after every length and checksum was looked at."""
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        content = data[12 : 12 + length]
        for checked, stored in ((data[:8], data[8:12]), (content, data[12 + length : 16 + length])):
            crc = crc32c(checked)
            rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
            assert struct.unpack("<I", stored)[0] == (rotated + 0xA282EAD8) % 2**32
        found.append(content)
        data = data[16 + length :]
    return found


def fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """A protocol buffer taken apart: (field number, varint or bytes)."""
    found: list[tuple[int, int | bytes]] = []
    while message:
        number, kind = message[0] >> 3, message[0] & 7
        message = message[1:]
        if kind in (1, 5):
            size = 8 if kind == 1 else 4
            found.append((number, message[:size]))
            message = message[size:]
            continue
        value = shift = 0
        while True:
            byte, message = message[0], message[1:]
            value, shift = value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        if kind == 2:
            found.append((number, message[:value]))
            message = message[value:]
        else:
            found.append((number, value))
    return found


def read(path: Path) -> Scalars:
    first, *events = [dict(fields(record)) for record in records(path)]
    assert first[3] == b"brain.Event:2"
    scalars: Scalars = {}
    for event in events:
        for _, value in fields(event[5]):
            parts = dict(fields(value))
            (number,) = struct.unpack("<f", parts[2])
            scalars.setdefault(parts[1].decode(), []).append((event[2], number))
    return scalars


def test_checksums_are_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # from RFC 3720, B.4


def test_rows_are_added_and_what_a_kill_left_is_written_again(tmp_path: Path) -> None:
    history = [{"epoch": epoch, "loss": 2.0 / (epoch + 1), "genotype": "x"} for epoch in range(300)]
    files = EventFiles(tmp_path, DECISIONS)
    for done in (1, 2, 2, 200):
        files.update("search", history[:done], 5.0)
    path = tmp_path / "search" / FILE
    expected = [(row["epoch"] + 1, pytest.approx(row["loss"])) for row in history]
    assert read(path) == {"loss": expected[:200]}
    with path.open("ab") as file:
        file.write(b"torn")
    again = EventFiles(tmp_path, DECISIONS)
    again.update("search", history[:150], 6.0)  # from an older checkpoint
    again.update("search", history, 6.0)
    assert read(path) == {"loss": expected}


def test_a_chain_that_begins_again_begins_its_file_again(tmp_path: Path) -> None:
    files = EventFiles(tmp_path, DECISIONS)
    diverging = [{"epoch": 0, "loss": 2.0}, {"epoch": 1, "loss": math.nan}]
    for history in (diverging[:1], diverging, [{"epoch": 0, "loss": 2.5}], [{"epoch": 0, "loss": 2.5}]):
        files.update("chain", history, 0.0)
    assert read(tmp_path / "chain" / FILE) == {"loss": [(1, 2.5)]}


def test_a_value_that_is_not_finite_is_kept(tmp_path: Path) -> None:
    EventFiles(tmp_path, DECISIONS).update("chain", [{"epoch": 0, "loss": math.nan}], 0.0)
    ((step, value),) = read(tmp_path / "chain" / FILE)["loss"]
    assert step == 1
    assert math.isnan(value)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Searched without event files; they are asked for when it is trained."""
    path, few = tmp_path_factory.mktemp("tensorboard") / "run", {**FEW, "methods": "uraenas"}
    Pipeline.start(path, preset("tiny", few)).search()
    assert not (path / "tensorboard").exists()
    pipeline = Pipeline.start(path, preset("tiny", {**few, "tensorboard": True}))
    pipeline.train(pipeline.search())
    return pipeline


def test_a_run_writes_its_histories(run: Pipeline) -> None:
    folder = run.run.path / "tensorboard"
    names = {str(path.parent.relative_to(folder)) for path in folder.rglob(FILE)}
    assert names == {"search", "chains/sampled-sghmc-00", "chains/sampled-sghmc-01"}
    searched = run.run.searched()
    assert searched is not None
    rows = searched.history
    found = read(folder / "search" / FILE)
    for tag in ("entropy", "validation_loss", "train_loss", "step_size"):
        assert found[tag] == [(row["epoch"] + 1, pytest.approx(row[tag], rel=1e-6)) for row in rows]
    assert found["concentration 0-1/skip_connect"][-1][1] == pytest.approx(rows[-1]["concentration"][0][1])
    assert sum(tag.startswith("concentration") for tag in found) == 30
    history = read_chain(run.run, "sampled-sghmc-00").history
    losses = [(row["epoch"] + 1, pytest.approx(row["loss"], rel=1e-6)) for row in history]
    assert read(folder / "chains/sampled-sghmc-00" / FILE)["loss"] == losses


def test_tensorboard_itself_reads_them(run: Pipeline) -> None:
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )
    folder = run.run.path / "tensorboard" / "search"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        events = reader.EventAccumulator(str(folder)).Reload()
        read_back = {
            tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]
        }
    assert read_back == read(folder / FILE)
