"""Processes of this machine: one thread each on a CPU, a GPU each where there are several."""

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from uraenas.base.cores import available_cores
from uraenas.base.errors import UraenasError
from uraenas.run.places.elsewhere import Elsewhere
from uraenas.run.places.own_parts import modules_of_own_parts
from uraenas.run.places.place import News, Order
from uraenas.run.work import Work

MOST = 1024
PATIENCE = 60.0  # seconds for workers to write down how far they are
# What workers need, and take seconds to load: once for all of them.
LOADED = ("uraenas.run.places.worker", "scipy.ndimage", "sklearn.ensemble", "sklearn.linear_model")


def processes(argument: str) -> Elsewhere:
    """The place `processes` or `processes:N`."""
    if argument and (not argument.isdecimal() or not 1 <= int(argument) <= MOST):
        raise UraenasError(f"--on processes:{argument} names no number of processes; allowed: 1 … {MOST:,}")
    return Elsewhere(Processes(int(argument or 0)))


class Processes:
    """So many; with 0 as many as there are GPUs to compute on, or cores."""

    def __init__(self, count: int) -> None:
        self.count = count

    def check(self) -> None:
        """They are started here; what they need is loaded from now on, while this process reads data and settings."""
        _ways_to_start()

    def hire(self, work: Work, most: int) -> "ProcessCrew":
        gpus = _gpus() if work.engine.device.type == "cuda" else []
        count = min(most, self.count or len(gpus) or available_cores())
        names = [f"worker-{number + 1}" for number in range(count)]
        devices = {name: gpus[n % len(gpus)] if gpus else None for n, name in enumerate(names)}
        return ProcessCrew(
            str(work.run.path.absolute()), work.config.as_json(), devices, modules_of_own_parts()
        )


class ProcessCrew:
    """Processes, each with a pipe for orders and news. Its end, or ours, is noticed by the end of the pipe."""

    def __init__(
        self,
        path: str,
        config: Mapping[str, Any],
        devices: Mapping[str, str | None],
        modules: Sequence[str] = (),
    ) -> None:
        self.path, self.config, self.devices, self.modules = path, config, devices, modules
        self.system = _ways_to_start()
        self.pipes: dict[str, Connection] = {}
        self.running: dict[str, Any] = {}
        for name in self.names:
            self._start(name)

    @property
    def names(self) -> Sequence[str]:
        return list(self.devices)

    def give(self, worker: str, order: Order) -> None:
        with suppress(OSError):  # it has died; that is news, and comes as such
            self.pipes[worker].send(order)

    def news(self, seconds: float) -> list[News]:
        found: list[News] = []
        for pipe in wait(list(self.pipes.values()), seconds):
            worker = next(name for name, own in self.pipes.items() if own is pipe)
            said, ended = self._said(worker)
            found += said
            if ended:
                self.running[worker].join()
                self.pipes[worker].close()
                if not any(one.kind == "died" for one in said):  # or it knew why
                    found.append(News(worker, "died", {"why": _why(self.running[worker].exitcode)}))
                self._start(worker)
        return found

    def leave(self) -> list[News]:
        for pipe in self.pipes.values():
            with suppress(OSError):  # it is gone already
                pipe.send(None)
        found, end = [], time.monotonic() + PATIENCE
        for worker, process in self.running.items():
            while process.is_alive() and time.monotonic() < end:
                found += self._said(worker)[0]  # a worker whose words nobody takes cannot end
                process.join(0.05)
            process.kill()
            process.join()
            found += self._said(worker)[0]
            self.pipes[worker].close()
        self.pipes, self.running = {}, {}
        return found

    def _said(self, worker: str) -> tuple[list[News], bool]:
        """All that a worker has said, and whether its pipe has ended."""
        pipe, found = self.pipes[worker], []
        try:
            while pipe.poll():
                kind, facts = pipe.recv()
                found.append(News(worker, kind, facts))
        except (EOFError, OSError):
            return found, True
        return found, False

    def _start(self, name: str) -> None:
        own, theirs = self.system.Pipe()
        arguments = (theirs, self.path, self.config, self.devices[name], self.modules)
        process = self.system.Process(target=work, args=arguments, name=name, daemon=True)
        with _deaf_to_ctrl_c():
            process.start()
        theirs.close()  # so that the end of the pipe is theirs alone
        self.pipes[name], self.running[name] = own, process


def work(
    pipe: Connection, path: str, config: Mapping[str, Any], device: str | None, modules: Sequence[str]
) -> None:
    """What a worker's process does."""
    # Ctrl-C reaches all of a terminal's processes; the driver decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    from uraenas.run.places.leases import Superseded
    from uraenas.run.places.worker import Leave, Worker

    torch.set_num_threads(1)
    leaving, speaking = threading.Event(), threading.Lock()
    orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()

    def leave(*number: Any) -> None:
        leaving.set()
        orders.put(None)

    signal.signal(signal.SIGTERM, leave)
    threading.Thread(target=_listen, args=(pipe, orders, leave), daemon=True).start()

    def tell(kind: str, facts: Mapping[str, Any]) -> None:
        with speaking:
            pipe.send((kind, facts))

    worker = Worker(path, tell, leaving.is_set)
    try:
        if worker.opened(config, modules):
            tell("ready", {"process": os.getpid()})
        while (order := orders.get()) is not None:
            worker.do(order)
    except (Leave, Superseded, BrokenPipeError):
        pass  # its state is written, or is not its own any more
    os._exit(0)  # nothing is left to be done, and the thread that listens cannot be ended


def _listen(pipe: Connection, orders: "queue.SimpleQueue[Order | None]", leave: Callable[[], None]) -> None:
    """Take orders while others are carried out. When the driver is gone, so is the worker, at once."""
    try:
        while (order := pipe.recv()) is not None:
            orders.put(order)
    except (EOFError, OSError):
        os._exit(1)
    leave()


def _ways_to_start() -> Any:
    """Forks of a process that does nothing but load what they need: a fork of one with threads or a GPU may hang."""
    if torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    system = multiprocessing.get_context("forkserver")
    system.set_forkserver_preload(list(LOADED))
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        with _deaf_to_ctrl_c():
            forkserver.ensure_running()
    finally:
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads
    return system


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """What is started here never hears Ctrl-C, not even while it loads: the driver decides."""
    resource_tracker.ensure_running()  # else it is started on the way, and lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    listed = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
    return (listed or [str(number) for number in range(torch.cuda.device_count())])[
        : torch.cuda.device_count()
    ]


def _why(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"ended with code {code}"
