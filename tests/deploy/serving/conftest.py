import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "report"))  # it knows how to start a browser

from browsing import start_chromium

from uraenas import Run
from uraenas.deploy.serving import Limits
from uraenas.deploy.serving.running import application, bound, configuration
from uraenas.ensemble.asked import Asked


@dataclass
class Client:
    """A plain HTTP client of a server in this process."""

    port: int
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(self, verb: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(verb, path, body, named)
            answer = connection.getresponse()
            content = answer.read()
            self.headers = dict(answer.getheaders())
        finally:
            connection.close()
        kind = answer.headers.get("content-type", "")
        if "json" in kind:
            return answer.status, json.loads(content)
        return answer.status, content if "octet-stream" in kind else content.decode()


def serving(run: Path, limits: Limits, unsent: int = 0, **rule: float) -> AbstractContextManager[Client]:
    return answering(application(Run(run), "", limits, Asked(**rule)), unsent)


@contextmanager
def answering(app: Any, unsent: int = 0) -> Iterator[Client]:
    """A server whose kernel takes so many bytes of an answer that is not read; 0: its usual megabytes."""
    import uvicorn

    server, listening = uvicorn.Server(configuration(app)), bound("127.0.0.1", 0)
    if unsent:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, unsent)
    port = listening.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        yield Client(port)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def serve() -> Callable[..., Any]:
    return serving


@pytest.fixture(scope="session")
def answer() -> Callable[..., Any]:
    return answering


@pytest.fixture(scope="module")
def client(finished_run: Path) -> Iterator[Client]:
    with serving(finished_run, Limits(megabytes=0.2, images=12, seconds=1), risk=0.2) as found:
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    driver = start_chromium(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()
