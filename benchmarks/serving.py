"""How many images a server answers, and how long each waits, with many clients at once on one machine.

    uraenas serve cifar10 --port 8080 &
    python benchmarks/serving.py --port 8080 [--clients 200] [--seconds 600] [--pid PID]

Each client sends one random PNG after another over its own connection. With `--pid` the server's memory is read too.
"""

import argparse
import http.client
import io
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image


def png(seed: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def ask(port: int, body: bytes, until: float, spent: list[float], wrong: list[str]) -> None:
    """One client."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    while time.perf_counter() < until:
        begun = time.perf_counter()
        try:
            line.request("POST", "/api/predict", body)
            answer = line.getresponse()
            answer.read()
            if answer.status != 200:
                wrong.append(str(answer.status))
            spent.append(time.perf_counter() - begun)
        except OSError as error:
            wrong.append(f"{type(error).__name__}: {error}")
            line.close()


def memory(pid: int) -> float:
    """Resident, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--pid", type=int, help="the server's")
    options = parser.parse_args()
    spent: list[float] = []
    wrong: list[str] = []
    begun = time.perf_counter()
    until = begun + options.seconds
    threads = [
        threading.Thread(target=ask, args=(options.port, png(n), until, spent, wrong))
        for n in range(options.clients)
    ]
    for thread in threads:
        thread.start()
    marks = []
    while options.pid and time.perf_counter() < until:
        marks.append(memory(options.pid))
        time.sleep(options.seconds / 10)
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - begun
    middle, late = np.quantile(spent, (0.5, 0.99))
    print(f"{len(spent):,} answers in {taken:.0f} s: {len(spent) / taken:.1f} a second, {len(wrong)} errors")
    for why, count in Counter(wrong).most_common(5):
        print(f"{count:,} times: {why}")
    print(f"p50 {middle:.2f} s, p99 {late:.2f} s")
    if marks:
        print("memory in MB, in tenths of the time: " + ", ".join(f"{mark:.0f}" for mark in marks))


if __name__ == "__main__":
    main()
