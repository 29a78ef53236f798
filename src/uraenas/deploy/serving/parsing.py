"""JSON and CSV from strangers: weighed before they are read, since a few bytes can become a hundred times as many."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.data.tables.reading import DELIMITERS, frame_in_text
from uraenas.deploy.serving.limits import Refused

# Bytes of memory that one takes at most.
VALUE, TEXT, LIST, KEY, TABLE, ROW = 32, 64, 64, 160, 192, 400
ROOM = 64_000_000  # for any request, whatever its model
FIELD = KEY + VALUE + 2 * TEXT  # in a table: its name and its value
MARKS = {b",": VALUE, b"[": LIST, b":": KEY, b"{": TABLE}
# A text that does not end goes to the end.
IN_JSON = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
IN_CSV = re.compile(rb'"[^"]*+(?:"|\Z)')


def parsed(body: bytes, room: int) -> Any:
    """JSON whose values take so many bytes at most, or `ROOM`."""
    _require(_weight_of_json, IN_JSON, body, room)
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the body is not JSON") from error


def rows_in_csv(body: bytes, room: int) -> list[dict[str, str]]:
    """The rows of a table with a line of names, which take so many bytes at most, or `ROOM`."""
    _require(_weight_of_csv, IN_CSV, body, room)
    try:
        frame = frame_in_text(body)
    except (UraenasError, csv.Error) as error:
        raise Refused(400, f"this is no table: {error}") from error
    return [dict(zip(frame, row, strict=True)) for row in zip(*frame.values(), strict=True)]


def _weight_of_json(text: bytes) -> int:
    return sum(text.count(mark) * weight for mark, weight in MARKS.items())


def _weight_of_csv(text: bytes) -> int:
    cells = max(text.count(one.encode()) for one in DELIMITERS)
    return cells * TEXT + max(map(text.count, (b"\n", b"\r"))) * ROW


def _require(weigh: Callable[[bytes], int], texts: re.Pattern[bytes], body: bytes, room: int) -> None:
    """Where it would be too much, what stands within quotes is left out, which is slower."""
    most = max(room, ROOM)
    if weigh(body) <= most:
        return
    weights = accumulate(weigh(part) + TEXT for part in _between(texts, body))
    if any(weight > most for weight in weights):
        raise Refused(
            413, f"the values in the body would take more than {most / 1e6:,.0f} MB once they are read"
        )


def _between(texts: re.Pattern[bytes], body: bytes) -> Iterator[bytes]:
    place = 0
    for text in texts.finditer(body):
        yield body[place : text.start()]
        place = text.end()
    yield body[place:]
