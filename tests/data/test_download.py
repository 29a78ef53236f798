"""A download is whole or not there, and goes on where it broke off."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from uraenas.base.errors import UraenasError
from uraenas.data.download import RemoteFile, download, matches

CONTENT = bytes(range(256)) * 4096  # 1 MiB


class Server(HTTPServer):
    """Serves CONTENT on loopback, as well or as badly as it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.break_after: list[int] = []  # bytes sent before the line breaks, one entry per request
        self.statuses: list[int] = []  # answers other than the file, one entry per request
        self.ranges = True
        self.extra = b""
        self.asked: list[str | None] = []

    @property
    def remote(self) -> RemoteFile:
        checksum = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
        return RemoteFile(f"http://127.0.0.1:{self.server_port}/file.bin", checksum, len(CONTENT))


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.server.statuses:
            self.send_error(self.server.statuses.pop(0))
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        body = CONTENT[start:] + self.server.extra
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        sent = self.server.break_after.pop(0) if self.server.break_after else len(body)
        self.wfile.write(body[:sent])

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def running(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with running(Server()) as started:
        yield started


def test_a_download_is_whole_reported_and_not_repeated(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    target = tmp_path / "new" / "file.bin"
    download(server.remote, target, lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    download(server.remote, target)
    assert len(server.asked) == 1
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


def test_a_broken_transfer_goes_on_where_it_broke_off(server: Server, tmp_path: Path) -> None:
    server.break_after = [300_000, 200_000]
    download(server.remote, tmp_path / "file.bin", pause=0)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=500000-"]


def test_a_later_call_goes_on_where_the_last_one_gave_up(server: Server, tmp_path: Path) -> None:
    server.break_after = [300_000, 0]
    with pytest.raises(UraenasError, match="Run the same command again to go on"):
        download(server.remote, tmp_path / "file.bin", attempts=1, pause=0)
    assert not (tmp_path / "file.bin").exists()
    download(server.remote, tmp_path / "file.bin", pause=0)
    assert server.asked[-1] == "bytes=300000-"
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.break_after, server.ranges = [300_000], False
    download(server.remote, tmp_path / "file.bin", pause=0)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    wrong = RemoteFile(server.remote.url, f"sha256:{'0' * 64}", len(CONTENT))
    with pytest.raises(UraenasError, match="wrong checksum"):
        download(wrong, tmp_path / "file.bin")
    assert list(tmp_path.iterdir()) == []


def test_an_endless_answer_is_cut_off(server: Server, tmp_path: Path) -> None:
    server.extra = b"more"
    with pytest.raises(UraenasError, match="sends more than the 1048576 bytes"):
        download(server.remote, tmp_path / "file.bin")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0


def test_a_busy_server_is_asked_again_and_a_refusal_believed(server: Server, tmp_path: Path) -> None:
    server.statuses = [503, 503]
    download(server.remote, tmp_path / "file.bin", pause=0)
    server.statuses = [404] * 5
    with pytest.raises(UraenasError, match=r"cannot download .*Not Found"):
        download(server.remote, tmp_path / "other.bin", pause=0)
    assert len(server.statuses) == 4


def test_no_server_at_all_is_one_line(tmp_path: Path) -> None:
    with running(Server()) as gone:
        remote = gone.remote
    with pytest.raises(UraenasError, match=r"cannot download .*--from PATH"):
        download(remote, tmp_path / "file.bin", attempts=2, pause=0)


def test_only_web_addresses_and_known_checksums_are_allowed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    with pytest.raises(UraenasError, match="not a web address"):
        download(RemoteFile(secret.as_uri(), "md5:0", 1), tmp_path / "copy")
    with pytest.raises(UraenasError, match="allowed: md5"):
        matches(secret, "crc:0")
