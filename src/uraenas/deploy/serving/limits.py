"""What a request may ask for: size, number of images, rate and token."""

import base64
import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass

from uraenas.base.errors import UraenasError, require_range

TOKEN_NEEDED = "a token is needed: Authorization: Bearer …"
# Answered without it.
OPEN = frozenset(("/", "/healthz", "/openapi.json", "/docs", "/v2/health/live", "/v2/health/ready"))
CLIENTS = 10_000  # whose rate is remembered
FIRST, LAST = 200, 100  # characters that are said of why a request is refused, which may repeat what it holds


@dataclass(frozen=True)
class Limits:
    """Of one server."""

    megabytes: float = 20.0  # of a request
    megabytes_at_once: float = 200.0  # of all requests that are read or answered; of one at least
    images: int = 64  # in a request
    rate: float = 0.0  # requests a second from one address; 0: no limit
    waiting: int = 512  # images that may wait for their batch
    batch: int = 32  # images that are predicted together at most
    seconds: float = 20.0  # that a client may take to send a request
    token: str = ""  # asked for, where there is one

    def __post_init__(self) -> None:
        require_range("megabytes", self.megabytes, 0.001, 1000)
        require_range("megabytes_at_once", self.megabytes_at_once, 0.001, 1_000_000)
        require_range("images", self.images, 1, 10_000)
        require_range("rate", self.rate, 0, 1_000_000)
        require_range("waiting", self.waiting, 1, 1_000_000)
        require_range("batch", self.batch, 1, 10_000)
        require_range("seconds", self.seconds, 0.1, 3600)
        if not self.token.isascii() or self.token != self.token.strip():
            raise UraenasError(
                "the token (URAENAS_TOKEN) must be of ASCII characters, without space around it"
            )

    @property
    def bytes(self) -> int:
        return int(self.megabytes * 1e6)

    @property
    def bytes_at_once(self) -> int:
        return max(self.bytes, int(self.megabytes_at_once * 1e6))

    def admits(self, header: str) -> bool:
        """Whether an Authorization header has the token, as such or as a browser's password.

        Compared in a time that does not tell how much is right.
        """
        scheme, _, given = header.partition(" ")
        given = _password(given) if scheme.lower() == "basic" else given.strip()
        right = hmac.compare_digest(given.encode(), self.token.encode())
        return not self.token or (scheme.lower() in ("basic", "bearer") and right)


def _password(given: str) -> str:
    """Of any name, from an Authorization header's `Basic` credentials."""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


class Refused(Exception):
    """A request that is answered with a status of 4xx or 503 and one line."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        self.why = why if len(why) <= FIRST + LAST else f"{why[:FIRST]}…{why[-LAST:]}"
        super().__init__(self.why)


class Rate:
    """A bucket for each address: it holds as many requests as arrive in a second at the allowed rate."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when

    def take(self, address: str, now: float | None = None) -> None:
        if not self.rate:
            return
        now = time.monotonic() if now is None else now
        most = max(1.0, self.rate)
        left, before = self.buckets.pop(address, (most, now))
        left = min(most, left + (now - before) * self.rate)
        self.buckets[address] = (left - 1 if left >= 1 else left, now)
        while len(self.buckets) > CLIENTS:
            self.buckets.popitem(last=False)
        if left < 1:
            raise Refused(429, f"more than {self.rate:g} requests a second")
