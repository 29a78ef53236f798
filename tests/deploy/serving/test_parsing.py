"""What a body becomes is weighed before it is read, and what is too much is refused in one line."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_serving import DIGITS, png

from uraenas.deploy.serving import Limits
from uraenas.deploy.serving.limits import Refused
from uraenas.deploy.serving.parsing import ROOM, parsed, rows_in_csv

MANY = 1_000_000
BALLOONS = {
    "empty lists": b"[" + b"[]," * MANY + b"0]",
    "empty tables": b"[" + b"{}," * MANY + b"0]",
    "small tables": b"[" + b'{"a":0},' * MANY + b"0]",
    "small numbers": b"[" + b"0," * 4 * MANY + b"0]",
    "small texts": b"[" + b'"ab",' * 3 * MANY + b"0]",
    "many keys": b"{" + b",".join(b'"%x":0' % one for one in range(MANY)) + b"}",
    "nesting": b"[" * 2 * MANY,
    "nested tables": b'{"a":' * MANY,
}


def peak(read: Callable[[], object]) -> int:
    """The most bytes that it takes at once."""
    tracemalloc.start()
    try:
        with pytest.raises(Refused) as refused:
            read()
        assert (refused.value.status, "once they are read" in refused.value.why) == (413, True)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BALLOONS)
def test_json_that_would_take_far_more_memory_than_its_bytes_is_not_read(name: str) -> None:
    assert peak(lambda: parsed(BALLOONS[name], 0)) < 1_000_000 + len(BALLOONS[name])


@pytest.mark.parametrize(
    "body",
    [b"a,b\n" + b",\n" * MANY, b"a" + b",a" * 4 * MANY + b"\n1", b"a\n" + b"\n" * MANY, b'a\n"\\",' + b",,," * MANY],
    ids=["rows", "columns", "blank lines", "after a backslash"],
)  # fmt: skip
def test_neither_is_such_csv(body: bytes) -> None:
    assert peak(lambda: rows_in_csv(body, 0)) < 1_000_000 + len(body)


def test_marks_within_texts_count_for_nothing() -> None:
    """Nor do escaped quotes end a text."""
    text = '{"[:,\\"' * (ROOM // 1000)
    assert parsed(json.dumps({"a": [text, "\\", text]}).encode(), 0) == {"a": [text, "\\", text]}
    rows = rows_in_csv(b'a,b\n"' + b",;" * (ROOM // 1000) + b'",2\n', 0)
    assert (len(rows), rows[0]["b"]) == (1, "2")
    for wrong in (b'"' + b'{\\"' * MANY, b'"' + b"[" * 2 * MANY + b"\\"):
        with pytest.raises(Refused, match="not JSON"):
            parsed(wrong, 0)


def test_a_model_has_room_for_the_largest_request_that_it_allows(client: Any) -> None:
    numbers = [[[[0.123456789] for _ in range(8)] for _ in range(8)] for _ in range(12)]
    assert parsed(json.dumps(numbers).encode(), 2 * ROOM) == numbers
    assert len(parsed(BALLOONS["small numbers"], 128 * MANY + 64)) == 4 * MANY + 1


@pytest.mark.parametrize("path", ["/api/predict", "/v2/models/uraenas/infer"])
def test_a_server_says_so_in_one_line(serve: Callable[..., Any], finished_run: Path, path: str) -> None:
    with serve(finished_run, Limits()) as client:
        for body in (BALLOONS["empty lists"], BALLOONS["nesting"]):
            status, found = client("POST", path, body, content_type="application/json")
            assert (status, list(found)) == (413, ["error"])
            assert found["error"] == "the values in the body would take more than 64 MB once they are read"
        status, found = client("POST", path, b"[" * 5000, content_type="application/json")
        assert (status, found) == (400, {"error": "the body is not JSON"})


@pytest.mark.parametrize("path", ["/api/predict", "/v2/models/uraenas/infer"])
def test_compressed_bodies_are_refused(client: Any, path: str) -> None:
    for encoding in ("gzip", "br", "gzip, identity"):
        status, found = client("POST", path, gzip.compress(png(DIGITS[0])), content_encoding=encoding)
        assert (status, list(found)) == (415, ["error"])
        assert "without Content-Encoding" in found["error"]
    assert client("POST", "/api/predict", png(DIGITS[0]), content_encoding="identity")[0] == 200
