"""How many images a server answers, and how long each waits, with many clients at once on one machine.

    uraenas serve cifar10 --port 8080 &
    python benchmarks/serving.py --port 8080 [--clients 200] [--seconds 600] [--pid PID]

Each client sends one random PNG after another over its own connection, once the server says that it is ready. A client
that got an error waits a second before it connects again. Each kind of error is printed with its count and when it came
first and last. With `--pid` the server's memory is read too.
"""

import argparse
import errno
import http.client
import io
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image


def png(seed: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "png")
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--pid", type=int, help="the server's")
    options = parser.parse_args()
    wait_for(options.port)
    begun = time.perf_counter()
    load = Load(options.port, begun, begun + options.seconds)
    threads = [threading.Thread(target=load.ask, args=(png(n),)) for n in range(options.clients)]
    for thread in threads:
        thread.start()
    marks = []
    while options.pid and time.perf_counter() < load.until:
        marks.append(memory(options.pid))
        time.sleep(options.seconds / 10)
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
    if marks:
        print("memory in MB, in tenths of the time: " + ", ".join(f"{mark:.0f}" for mark in marks))


if __name__ == "__main__":
    main()
