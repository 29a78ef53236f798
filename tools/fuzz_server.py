"""Send malformed requests to a server that runs. Each must get a status of 4xx and one line, within a time.

    uraenas serve RUN --port 8080 2> server.log &
    python tools/fuzz_server.py --port 8080 [--requests 10000] [--clients 8] [--seed 0]

What gets another answer is printed, and the exit code is 1. Afterwards the server must still answer, and its log must
hold no traceback: give `--log server.log`.
"""

import argparse
import base64
import gzip
import io
import json
import math
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SECONDS = 60.0  # for an answer, on a busy machine


def png(chance: random.Random) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(chance.getrandbits(32)).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def request(
    verb: str, path: str, body: bytes = b"", kind: str = "", length: str = "", more: str = ""
) -> bytes:
    lines = [f"{verb} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [more] if more else []
    lines.append(f"Content-Length: {length or len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def no_image(chance: random.Random) -> bytes:
    return request("POST", "/api/predict", chance.randbytes(chance.randrange(0, 2000)))


def cut_image(chance: random.Random) -> bytes:
    whole = png(chance)
    return request("POST", "/api/predict", whole[: chance.randrange(1, len(whole) - 20)])


def spoiled_image(chance: random.Random) -> bytes:
    """Its header is not that of an image any more."""
    whole = bytearray(png(chance))
    whole[chance.randrange(0, 8)] ^= 1 << chance.randrange(8)
    return request("POST", "/api/predict", bytes(whole))


def no_json(chance: random.Random) -> bytes:
    texts = [b"{", b"[" * 5000, b'{"images": ', b"\xff\xfe", b'{"images": [nul]}', chance.randbytes(30)]
    return request("POST", "/api/predict", chance.choice(texts), "application/json")


def other_json(chance: random.Random) -> bytes:
    good = base64.b64encode(png(chance)).decode()
    values: list[Any] = [
        None, 3, [], "images", {"images": 3}, {"images": []}, {"images": [3]}, {"images": [None]}, {"picture": [good]},
        {"images": ["!!"]}, {"images": [good[:-9]]}, {"images": [good] * 65}, {"images": [[good]]}, {"images": good},
    ]  # fmt: skip
    return request("POST", "/api/predict", json.dumps(chance.choice(values)).encode(), "application/json")


def tensor(model: str, image: list[int]) -> Callable[[random.Random], bytes]:
    """An input of the Open Inference Protocol of which one thing is wrong."""
    size = math.prod(image)

    def make(chance: random.Random) -> bytes:
        good: dict[str, Any] = {
            "name": "images",
            "shape": [1, *image],
            "datatype": "UINT8",
            "data": [0] * size,
        }
        wrong: dict[str, list[Any]] = {
            "name": ["", None, 3, "picture"],
            "shape": [None, [], [1], *([many, *image] for many in (0, -1, 10**12, 1.5, "1", None)), 7],
            "datatype": [None, "COMPLEX", 8, [], "uint8"],
            "data": [
                None,
                "abc",
                [None],
                [1e400],
                [[[]]],
                {"a": 1},
                [256] * size,
                [0.5] * size,
                [0] * 10_000,
            ],
        }
        key = chance.choice(list(wrong))
        given = {**good, key: chance.choice(wrong[key])}
        whole: Any = chance.choice(
            [{"inputs": [given]}, {"inputs": given}, {"inputs": []}, [given], {"inputs": [given, good]}]
        )
        return request("POST", f"/v2/models/{model}/infer", json.dumps(whole).encode(), "application/json")

    return make


def binary(model: str, image: list[int]) -> Callable[[random.Random], bytes]:
    """A tensor as bytes behind the JSON, of whose sizes one is wrong."""
    size = math.prod(image)

    def make(chance: random.Random) -> bytes:
        given: dict[str, Any] = {"name": "images", "shape": [1, *image], "datatype": "UINT8"}
        wrong = chance.choice([None, -1, size + 1, size - 1, 1.5, "1", [size], 10**12])
        given["parameters"] = {"binary_data_size": size if (is_header := chance.random() < 0.5) else wrong}
        told = json.dumps({"inputs": [given]}).encode()
        length = (
            chance.choice(["-1", "x", "", "9" * 30, str(len(told) + size + 1), "3"])
            if is_header
            else len(told)
        )
        line = f"Inference-Header-Content-Length: {length}"
        return request("POST", f"/v2/models/{model}/infer", told + bytes(size), more=line)

    return make


def balloon(chance: random.Random) -> bytes:
    """Two megabytes that would be a hundred when they are read, or nested too deep to be."""
    pieces = [b"[],", b"{},", b'{"a":0},', b"[", b'{"a":', b'"ab",', b"0,"]
    piece = chance.choice(pieces)
    body = chance.choice([b"[", b'{"images":[', b'{"inputs":[']) + piece * (2_000_000 // len(piece)) + b"0]}"
    return request("POST", "/api/predict", body, "application/json")


def compressed(chance: random.Random) -> bytes:
    line = f"Content-Encoding: {chance.choice(['gzip', 'br', 'deflate', 'zstd', 'gzip, gzip', 'x'])}"
    return request("POST", "/api/predict", gzip.compress(png(chance)), more=line)


def elsewhere(chance: random.Random) -> bytes:
    paths = [
        "/nothing",
        "/api",
        "/v2/models/none",
        "/v2/models/none/infer",
        "/v2/models/none/ready",
        "/v2/models//ready",
        "/../etc/passwd",
        "/%00",
        "/api/predict/x",
    ]
    return request(chance.choice(["GET", "POST"]), chance.choice(paths))


def other_verb(chance: random.Random) -> bytes:
    pairs = [
        ("GET", "/api/predict"),
        ("PUT", "/api/predict"),
        ("DELETE", "/"),
        ("POST", "/healthz"),
        ("PATCH", "/v2"),
    ]
    return request(*chance.choice(pairs))


def too_large(chance: random.Random) -> bytes:
    """More than a request may have; so much is said, and not sent."""
    return request("POST", "/api/predict", b"x" * 100, length=str(chance.randrange(10**8, 10**12)))


def no_http(chance: random.Random) -> bytes:
    texts = [
        b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"POST /api/predict HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ]  # fmt: skip
    return chance.choice(texts)


def sent(port: int, data: bytes) -> tuple[int, bytes]:
    """Status and body of the answer; status 0 where the line was closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as line:
        answer = b""
        try:
            line.sendall(data)
            while part := line.recv(65536):
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            pass  # what it said before counts
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0), body


def judged(kind: str, status: int, body: bytes) -> str:
    """What is wrong with an answer, if anything."""
    if kind == "no_http":  # the HTTP library itself answers, or closes the line
        return "" if status in (0, 400) else f"status {status}"
    if not 400 <= status < 500:
        return f"status {status}"
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return f"no error in JSON: {body[:80]!r}"
    return "" if isinstance(error, str) and error and "\n" not in error else f"error {error!r}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8, help="at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="what the server has written to standard error")
    options = parser.parse_args()
    _, metadata = sent(options.port, request("GET", "/api/model"))
    kinds: dict[str, Callable[[random.Random], bytes]] = {
        one.__name__: one
        for one in (
            no_image,
            cut_image,
            spoiled_image,
            no_json,
            other_json,
            balloon,
            compressed,
            elsewhere,
            other_verb,
            too_large,
            no_http,
        )
    }
    facts = json.loads(metadata)
    kinds["tensor"] = tensor(facts["model"], facts["image"])
    kinds["binary"] = binary(facts["model"], facts["image"])
    found, wrong = Counter[str](), []
    begun = time.perf_counter()

    def one(number: int) -> tuple[str, str]:
        kind = list(kinds)[number % len(kinds)]
        data = kinds[kind](random.Random(f"{options.seed}-{number}"))
        try:
            status, body = sent(options.port, data)
            why = judged(kind, status, body)
        except TimeoutError:
            status, why = 0, f"no answer in {SECONDS:g} s"
        return f"{kind} {status}", why and f"{kind}: {why}: {data[:200]!r}"

    with ThreadPoolExecutor(options.clients) as clients:
        for what, why in clients.map(one, range(options.requests)):
            found[what] += 1
            wrong += [why] if why else []
    taken = time.perf_counter() - begun
    healthy = sent(options.port, request("GET", "/healthz"))[0] == 200
    traces = options.log.read_text().count("Traceback") if options.log else 0
    print(
        f"{options.requests:,} requests in {taken:.0f} s, {len(wrong)} answered wrongly, {traces} tracebacks"
    )
    print(", ".join(f"{name}: {count}" for name, count in sorted(found.items())))
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong) or bool(traces) or not healthy)


if __name__ == "__main__":
    main()
