"""All there is of the network: downloads that go on where they broke off, and are kept if their checksum is right."""

import hashlib
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from uraenas.base.errors import UraenasError
from uraenas.base.whole_files import flush_to_disk, rename_for_good, writing

CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
NETWORK_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
)

Progress = Callable[[int, int], None]  # bytes here, bytes in all


@dataclass(frozen=True)
class RemoteFile:
    """A file on an official host, and how to know it."""

    url: str
    checksum: str  # "md5:…" or "sha256:…", whichever the host has published
    size: int  # in bytes; a server that sends more is not believed

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rsplit("/", 1)[-1]


def download(
    remote: RemoteFile,
    target: Path,
    progress: Progress | None = None,
    attempts: int = 5,
    pause: float = 2.0,
) -> Path:
    """Brings the file to `target`, which exists afterwards only if it is whole and right.

    Bytes arrive in `target.part`, which a later attempt, in this call or the next, continues. `attempts`
    counts failures in a row that brought nothing new.
    """
    if not remote.url.startswith(("https://", "http://")):
        raise UraenasError(f"{remote.url} is not a web address")
    if target.exists() and matches(target, remote.checksum):
        return target
    part = target.with_name(target.name + ".part")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _bring(remote, part, progress or _no_progress, attempts, pause)
    if not matches(part, remote.checksum):
        part.unlink()
        raise UraenasError(
            f"{remote.url} arrived with a wrong checksum (not {remote.checksum}) and was deleted. "
            "Run the same command again, or give a file you have with --from PATH"
        )
    rename_for_good(part, target)
    return target


def _bring(remote: RemoteFile, part: Path, progress: Progress, attempts: int, pause: float) -> None:
    """Connects until all bytes are here, or nothing new has come so many times in a row."""
    failures = 0
    while (have := _size(part)) < remote.size:
        try:
            _continue(remote, part, progress)
            if _size(part) < remote.size:
                raise ConnectionError(f"the connection ended after {_size(part)} of {remote.size} bytes")
        except NETWORK_ERRORS as error:
            failures = failures + 1 if _size(part) <= have else 0
            if failures == attempts or _is_final(error):
                raise UraenasError(
                    f"cannot download {remote.url}: {getattr(error, 'reason', error)}. "
                    "Run the same command again to go on, or give a file you have with --from PATH"
                ) from error
            time.sleep(pause * failures)


def matches(path: Path, checksum: str) -> bool:
    """Whether the file has this checksum."""
    algorithm, _, digest = checksum.partition(":")
    if algorithm not in ("md5", "sha256"):
        raise UraenasError(f"checksum {checksum!r} is not allowed; allowed: md5:… or sha256:…")
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return found.hexdigest() == digest


def _no_progress(done: int, total: int) -> None:
    pass


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_final(error: Exception) -> bool:
    """A refusal will be repeated; a busy server or a broken line may not."""
    return (
        isinstance(error, urllib.error.HTTPError) and 400 <= error.code < 500 and error.code not in (408, 429)
    )


def _continue(remote: RemoteFile, part: Path, progress: Progress) -> None:
    """One connection: asks for what is missing and appends what comes."""
    have = _size(part)
    headers = {"User-Agent": "uraenas", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(remote.url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        continued = response.status == 206 and _begins_at(response.headers.get("Content-Range", ""), have)
        with open(part, "ab" if continued else "wb") as file:
            _receive(response, file, have if continued else 0, remote, progress)


def _begins_at(content_range: str, offset: int) -> bool:
    return content_range.startswith(f"bytes {offset}-")


def _receive(
    response: http.client.HTTPResponse, file: BinaryIO, done: int, remote: RemoteFile, progress: Progress
) -> None:
    try:
        while data := response.read1(CHUNK):
            if done + len(data) > remote.size:
                file.truncate(0)
                raise UraenasError(
                    f"{remote.url} sends more than the {remote.size} bytes of the official file"
                )
            file.write(data)
            done += len(data)
            progress(done, remote.size)
    finally:
        flush_to_disk(file)
