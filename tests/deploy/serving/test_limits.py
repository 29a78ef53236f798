"""What the server allows: sizes, alone and together, times, a rate and a token."""

import base64
import http.client
import json
import select
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from browsing import became
from test_serving import DIGITS, png

from uraenas.deploy.serving import Limits, app
from uraenas.deploy.serving.bodies import Bodies
from uraenas.deploy.serving.connection import Connection
from uraenas.deploy.serving.limits import Rate, Refused


def test_who_still_sends_what_is_too_large_is_told_so(serve: Callable, finished_run: Path) -> None:
    with serve(finished_run, Limits(megabytes=1)) as client:
        status, answer = client("POST", "/api/predict", b"x" * 18_000_000, connection="close")
    assert (status, answer["error"]) == (413, "a request has at most 1 MB")


def test_all_bodies_together_are_limited(
    serve: Callable, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one client sends, another one that would fill the memory is told to come later; and then it may."""
    body = png(DIGITS[0]) + bytes(900_000)  # what follows an image is not read
    head = f"POST /api/predict HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    limits = Limits(megabytes=1, megabytes_at_once=1.5, seconds=1000)
    held = Bodies(limits)
    monkeypatch.setattr(app, "Bodies", lambda limits: held)
    with serve(finished_run, limits) as client:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", client.port), timeout=1800) as slow:
                slow.sendall(head + body[:-5])
                assert became(lambda: held.held == len(body) - 5)  # else it may be the one that is refused
                status, answer = client("POST", "/api/predict", body)
                assert (status, client.headers["retry-after"], "later" in answer["error"]) == (503, "2", True)
                slow.sendall(body[-5:])
                assert slow.recv(100).startswith(b"HTTP/1.1 200")
            assert became(lambda: held.held == 0)
            assert client("POST", "/api/predict", body)[0] == 200


def test_errors_repeat_little_of_what_was_sent(client: Any) -> None:
    tensor = {"name": "x" * 100_000, "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": [0] * 64}
    status, found = client("POST", "/v2/models/uraenas/infer", json.dumps({"inputs": [tensor]}).encode())
    assert (status, len(found["error"]) < 100) == (400, True)
    long = Refused(400, f"column area holds {'x' * 100_000!r}, and had numbers in training").why
    assert long.startswith("column area holds 'xx")
    assert long.endswith("xx', and had numbers in training")
    assert len(long) < 400


def test_a_slow_request_is_given_up(client: Any) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=1800) as line:
        line.sendall(b"POST /api/predict HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\nhalf")
        assert line.recv(100).startswith(b"HTTP/1.1 408")


SLOW = {
    "nothing at all": (b"", b""),
    "headers that never end": (b"GET /healthz HTTP/1.1\r\nHost: here\r\n", b"X-More: 1\r\n"),
    "headers of the next request": (
        b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\nGET /healthz HTTP/1.1\r\n",
        b"X-More: 1\r\n",
    ),
    "a body that nobody waits for": (b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: 9999\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_connection_without_a_request_is_given_up(
    client: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a little more of it arrives; there is time for some thirty pieces in the allowed second."""
    monkeypatch.setattr(Connection, "patience", 1.0)
    begin, more = SLOW[name]
    with socket.create_connection(("127.0.0.1", client.port)) as line:
        line.sendall(begin)
        line.settimeout(0.03)
        assert became(lambda: is_closed(line, more))


def is_closed(line: socket.socket, more: bytes) -> bool:
    """Whether the server has closed it, which gets a little more if it has not."""
    try:
        while line.recv(65536):
            pass
    except TimeoutError:
        with suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(more)
        return False
    except ConnectionResetError:
        pass
    return True


def unread(port: int, request: bytes) -> socket.socket:
    """A client with little room for an answer, which sends a request and reads nothing."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    line.connect(("127.0.0.1", port))
    line.sendall(request)
    return line


def is_reset(line: socket.socket) -> bool:
    found = select.poll()
    found.register(line, select.POLLERR)
    return bool(found.poll(0))


def test_clients_that_never_read_are_given_up_and_others_are_answered(
    serve: Callable[..., Any], finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the fifty is right to ask, and asks for more than the kernel holds; nobody has to wait for them."""
    monkeypatch.setattr(Connection, "to_read", 1.0)
    body, images = png(DIGITS[0]), json.dumps({"images": [base64.b64encode(png(DIGITS[0])).decode()] * 8})
    head = "POST /api/predict HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length:"
    predict = f"{head} {len(images)}\r\n\r\n{images}".encode()
    asked = predict + b"GET /openapi.json HTTP/1.1\r\nHost: here\r\n\r\n" * 5
    with serve(finished_run, Limits(), unsent=4096) as client, ExitStack() as open_lines:
        lines = [open_lines.enter_context(closing(unread(client.port, asked))) for _ in range(50)]
        while not all(map(is_reset, lines)):
            assert client("POST", "/api/predict", body)[0] == 200
        assert "uraenas_waiting_images 0.0" in client("GET", "/metrics")[1]


def test_who_takes_enough_of_an_answer_has_all_the_time_it_needs() -> None:
    """As much in each interval as is asked of it, and not the whole in one."""
    timers: list[tuple[Any, ...]] = []
    left = iter([500_000, 400_000, 300_000, 200_001])
    connection = Connection.__new__(Connection)
    connection.loop = SimpleNamespace(call_later=lambda *timer: timers.append(timer))
    ended: list[str] = []
    connection.transport = SimpleNamespace(
        get_write_buffer_size=lambda: next(left),
        get_extra_info=lambda name: SimpleNamespace(setsockopt=lambda *option: ended.append(name)),
        abort=lambda: ended.append("aborted"),
    )
    connection._await_reader()
    while timers:
        assert not ended
        seconds, judge, *before = timers.pop()
        assert seconds == connection.to_read
        judge(*before)
    assert (ended, list(left)) == (["socket", "aborted"], [])


def test_a_connection_may_wait_for_its_answer_and_between_requests(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The allowed time is that of the headers, not of the connection."""
    monkeypatch.setattr(Connection, "patience", 1.0)
    body, line = png(DIGITS[0]), http.client.HTTPConnection("127.0.0.1", client.port, timeout=1800)
    with closing(line):
        for _ in range(3):
            line.putrequest("POST", "/api/predict")
            line.putheader("Content-Length", str(len(body)))
            line.endheaders(body[:5])
            time.sleep(0.7)
            line.send(body[5:])
            answer = line.getresponse()
            assert (answer.status, len(json.load(answer)["predictions"])) == (200, 1)


def test_a_token_and_a_rate(serve: Callable[..., Any], finished_run: Path) -> None:
    with serve(finished_run, Limits(token="secret", rate=5)) as client:
        assert client("GET", "/healthz")[0] == 200
        status, found = client("GET", "/api/model")
        assert (status, client.headers["www-authenticate"]) == (401, "Bearer")
        assert "secret" not in found["error"]
        assert client("GET", "/api/model", authorization="Bearer secret")[0] == 200
        assert {client("GET", "/healthz")[0] for _ in range(20)} == {200, 429}
        assert became(lambda: client("GET", "/healthz")[0] == 429)
        assert client.headers["retry-after"] == "2"


def test_a_rate_is_kept_by_address() -> None:
    rate = Rate(2)
    for _ in range(2):
        rate.take("a", now=0)
    with pytest.raises(Refused, match="more than 2 requests a second"):
        rate.take("a", now=0)
    rate.take("b", now=0)
    rate.take("a", now=0.5)
