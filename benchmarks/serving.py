"""How many images a server answers, and how long each waits, with many clients at once on one machine.

    python benchmarks/serving.py [RUN] [--clients 200] [--seconds 600]

Starts a server of the run, which is cifar10 unless told. Each client sends one random PNG after another over its own
connection, once the server says that it is ready. A client that got an error waits a second before it connects again.
Each kind of error is printed with its count and when it came first and last, and the server's memory at eleven times.
After that the server is ended, and bare `predict_proba` is timed on the same images: one at a time, and 32.
"""

import argparse
import errno
import http.client
import io
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from uraenas import Run
from uraenas.deploy import accelerated


def pixels(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def png(seed: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels(seed)).save(file, "png")
    return file.getvalue()


PAUSE = 1.0  # seconds after an error: a client that tries again at once counts one cause a thousand times


@dataclass(frozen=True)
class Failure:
    """A request without a prediction: at which step, why, and how many seconds after the beginning."""

    step: str
    why: str
    after: float


@dataclass
class Load:
    """What all clients share."""

    port: int
    begun: float
    until: float
    spent: list[float] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)

    def ask(self, body: bytes) -> None:
        """One client."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        while (begun := time.perf_counter()) < self.until:
            step = "connect" if line.sock is None else "send on a kept connection"
            try:
                if line.sock is None:
                    line.connect()
                    step = "send"
                line.request("POST", "/api/predict", body)
                step = f"wait after {step}"
                answer = line.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                number = getattr(error, "errno", None)
                self._failed(step, f"{errno.errorcode.get(number or 0, type(error).__name__)}: {error}")
                line.close()
                continue
            if answer.status == 200:
                self.spent.append(time.perf_counter() - begun)
            else:
                self._failed("answer", f"{answer.status} {content[:80].decode(errors='replace')}")

    def _failed(self, step: str, why: str) -> None:
        self.failed.append(Failure(step, why, time.perf_counter() - self.begun))
        time.sleep(PAUSE)


def wait_for(port: int, seconds: float = 300) -> None:
    """Until the server answers: it makes its members ready before it listens."""
    until = time.perf_counter() + seconds
    while True:
        try:
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            line.request("GET", "/healthz")
            if line.getresponse().status == 200:
                return
        except OSError:
            if time.perf_counter() > until:
                raise
        finally:
            line.close()
        time.sleep(0.5)


def memory(pid: int) -> float:
    """Resident, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def bare(run: str) -> None:
    """`predict_proba` as the server has it, without a server."""
    fast = accelerated(Run.find(run).ensemble(), looks=True)
    height, width, channels = fast.space.shape.height, fast.space.shape.width, fast.space.shape.channels
    for count, rounds in ((1, 100), (32, 5)):
        images = np.stack([pixels(n)[:height, :width, :channels] for n in range(count)])
        fast.look(images)
        times = []
        for _ in range(rounds):
            begun = time.perf_counter()
            fast.look(images)
            times.append(time.perf_counter() - begun)
        middle, late = np.quantile(times, (0.5, 0.99))
        print(f"bare, {count:2} at once: {count / middle:.1f} a second, p50 {middle:.3f} s, p99 {late:.3f} s")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", default="cifar10")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    port = free_port()
    command = [sys.executable, "-m", "uraenas", "serve", options.run, "--port", str(port)]
    with subprocess.Popen(command) as server:
        try:
            press(port, server.pid, options.clients, options.seconds)
        finally:
            server.terminate()
    bare(options.run)


def press(port: int, pid: int, clients: int, seconds: float) -> None:
    """Have the clients ask for so long, and tell what became of it."""
    wait_for(port)
    begun = time.perf_counter()
    load = Load(port, begun, begun + seconds)
    threads = [threading.Thread(target=load.ask, args=(png(n),)) for n in range(clients)]
    for thread in threads:
        thread.start()
    marks = []
    while time.perf_counter() < load.until:
        marks.append(memory(pid))
        time.sleep(seconds / 10)
    for thread in threads:
        thread.join()
    taken, answers = time.perf_counter() - begun, len(load.spent)
    print(
        f"{answers:,} answers in {taken:.0f} s: {answers / taken:.1f} a second, {len(load.failed):,} errors"
    )
    kinds: dict[tuple[str, str], list[float]] = {}
    for one in load.failed:
        kinds.setdefault((one.step, one.why), []).append(one.after)
    for (step, why), times in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        print(f"{len(times):,} times, from {min(times):.0f} s to {max(times):.0f} s: {step}: {why}")
    if load.spent:
        middle, late = np.quantile(load.spent, (0.5, 0.99))
        print(f"p50 {middle:.2f} s, p99 {late:.2f} s")
    print(
        "memory in MB, in tenths of the time: " + ", ".join(f"{mark:.0f}" for mark in [*marks, memory(pid)])
    )


if __name__ == "__main__":
    main()
