"""A file format of others: histories as TensorBoard event files, without TensorBoard.

An event file is a row of records: length, its checksum, content, its checksum, all little-endian. A content is the
protocol buffer Event {1: wall_time, 2: step, 3: file_version, 5: {1: {1: tag, 2: value}, …}}.
"""

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uraenas.base.regular_files import append_to_regular
from uraenas.base.whole_files import whole_file, writing
from uraenas.run.directory.files import RunFiles
from uraenas.spaces import Decision

FILE = "events.out.tfevents.0.uraenas"  # the reader looks for `tfevents` in the name

# Is shown a history by its name, whenever it has grown.
Watch = Callable[[str, Sequence[Mapping[str, Any]]], None]


def watch_of(run: RunFiles, decisions: Sequence[Decision], wanted: bool) -> Watch:
    """Who brings a run's event files up to date, where they are wanted."""
    if not wanted:
        return lambda name, history: None
    events = EventFiles(run.path / "tensorboard", decisions)

    def watch(name: str, history: Sequence[Mapping[str, Any]]) -> None:
        run.require_here()
        events.update(name, history, time.time())

    return watch


class EventFiles:
    """One event file for each history under a folder, brought up to date row by row."""

    def __init__(self, folder: Path, decisions: Sequence[Decision]) -> None:
        self.folder, self.decisions = folder, decisions
        self._written: dict[str, list[Mapping[str, Any]]] = {}  # name → rows in its file

    def update(self, name: str, history: Sequence[Mapping[str, Any]], seconds: float) -> None:
        """Add the rows that are new.

        The file is written afresh by the first call, for what a killed process left is in the history, and where a
        chain has begun again.
        """
        path = self.folder / name / FILE
        written = self._written.get(name)
        goes_on = written is not None and list(history[: len(written)]) == written
        new = b"".join(
            _event(seconds, row, self.decisions) for row in history[len(written or ()) if goes_on else 0 :]
        )
        if goes_on:
            with writing(path), append_to_regular(path) as file:
                file.write(new)
        else:
            with whole_file(path) as file:
                file.write(_record(_double(1, seconds) + _bytes(3, b"brain.Event:2")) + new)
        self._written[name] = list(history)


def scalars(row: Mapping[str, Any], decisions: Sequence[Decision]) -> Iterator[tuple[str, float]]:
    """The numbers of one row of a history, each with its tag; those of a table by decision and option."""
    for key, value in row.items():
        if isinstance(value, list):
            for decision, values in zip(decisions, value, strict=True):
                name = decision.name.replace(" → ", "-")
                for option, number in zip(decision.options, values, strict=False):
                    yield f"{key} {name}/{option}", number
        elif isinstance(value, int | float) and key != "epoch":
            yield key, value


def _event(seconds: float, row: Mapping[str, Any], decisions: Sequence[Decision]) -> bytes:
    numbers = scalars(row, decisions)
    values = (_bytes(1, tag.encode()) + b"\x15" + struct.pack("<f", value) for tag, value in numbers)
    summary = b"".join(_bytes(1, value) for value in values)
    return _record(_double(1, seconds) + b"\x10" + _varint(row["epoch"] + 1) + _bytes(5, summary))


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _double(field: int, value: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _crc32c_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC32C = [_crc32c_of_byte(byte) for byte in range(256)]


def crc32c(content: bytes) -> int:
    """The Castagnoli checksum."""
    rest = 0xFFFFFFFF
    for byte in content:
        rest = rest >> 8 ^ CRC32C[(rest ^ byte) & 0xFF]
    return rest ^ 0xFFFFFFFF


def _checksum(content: bytes) -> bytes:
    """The format rotates and shifts its checksums, so that a checksum of checksums is no trivial one."""
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
