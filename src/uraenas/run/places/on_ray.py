"""Workers on a Ray cluster: one that is there, or one that is started here for the run.

A cluster runs what it is sent, so one that we start asks for a token, made anew and kept in this process and its
children alone. Ray's ports listen on all interfaces, whatever address its nodes have.
"""

import importlib.util
import logging
import os
import queue
import secrets
import socket
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from uraenas.base.cores import available_cores
from uraenas.base.errors import UraenasError
from uraenas.engine import Engine
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.places.elsewhere import Elsewhere
from uraenas.run.places.place import News, Order
from uraenas.run.places.worker import versions

LOOPBACK = "127.0.0.1"
PATIENCE = 60.0  # seconds for a cluster to answer, and for workers to write down how far they are
LISTENING = 2.0  # seconds that a worker waits for something to tell


def on_ray(argument: str) -> Elsewhere:
    """The place `ray` or `ray:ADDRESS`."""
    return Elsewhere(Cluster(argument))


class Cluster:
    """The cluster at HOST:PORT; without an address, one on this machine, for as long as it is needed."""

    def __init__(self, address: str = "") -> None:
        self.address = address

    def check(self) -> None:
        if self.address:
            self._require_answer()
        if importlib.util.find_spec("ray") is None:
            raise UraenasError("--on ray needs the package ray: pip install 'uraenas[ray]'")

    def _require_answer(self) -> None:
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal():
            raise UraenasError(f"--on ray:{self.address} names no cluster; expected ray or ray:HOST:PORT")
        try:
            socket.create_connection((host, int(port)), PATIENCE / 6).close()
        except (OSError, OverflowError) as error:
            raise UraenasError(f"no Ray cluster answers at {self.address}: {error}") from error

    def hire(self, run: Run, config: Config, engine: Engine, most: int) -> "RayCrew":
        ray = self._connected()
        try:
            _require_alike(ray, run)
            resources = ray.cluster_resources()
            gpus = 0 if config.engine.device == "cpu" else int(resources.get("GPU", 0))
            count = min(most, gpus or int(resources.get("CPU", 0)))
            if not count:
                raise UraenasError(
                    "the Ray cluster has neither cores nor GPUs for us; ray status says what it has"
                )
            wanted = {"num_cpus": 0 if gpus else 1, "num_gpus": 1 if gpus else 0}
            return RayCrew(ray, (str(run.path.absolute()), config.as_json(), os.getcwd()), count, wanted)
        except BaseException:
            ray.shutdown()
            raise

    @property
    def _is_here(self) -> bool:
        host = self.address.rpartition(":")[0]
        return not host or host == "localhost" or host.startswith("127.")

    def _connected(self) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault(
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1"
        )  # where it has no GPU, a worker sees none
        if not self.address and "RAY_AUTH_MODE" not in os.environ:
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        import ray  # seconds, and not everybody has it

        started = {"num_cpus": available_cores(), "include_dashboard": False, "_node_ip_address": LOOPBACK}
        options: dict[str, Any] = (
            {"address": self.address} if self.address else {"address": "local", **started}
        )
        try:
            ray.init(**options, logging_level=logging.ERROR, log_to_driver=False)
        except Exception as error:  # a dozen kinds; nothing has been computed yet
            where = self.address or "this machine"
            raise UraenasError(f"cannot use Ray on {where}: {' '.join(str(error).split())[:500]}") from error
        return ray


class RayCrew:
    """Actors. Each is asked all the time what it has to tell; one that cannot answer any more is dead."""

    def __init__(self, ray: Any, facts: Sequence[Any], count: int, wanted: Mapping[str, float]) -> None:
        self.ray, self.facts = ray, facts
        self.kind = ray.remote(**wanted, max_concurrency=4, scheduling_strategy="SPREAD")(RayWorker)
        self.actors: dict[str, Any] = {}
        self.asked: dict[Any, str] = {}  # answers that are waited for → worker
        for number in range(count):
            self._start(f"ray-{number + 1}")

    @property
    def names(self) -> Sequence[str]:
        return list(self.actors)

    def give(self, worker: str, order: Order) -> None:
        self.actors[worker].give.remote(order)

    def news(self, seconds: float) -> list[News]:
        answers, _ = self.ray.wait(list(self.asked), num_returns=1, timeout=seconds)
        more, _ = self.ray.wait(list(self.asked), num_returns=len(self.asked), timeout=0)
        found: list[News] = []
        for answer in {*answers, *more}:
            found += self._heard(answer, self._start)
        return found

    def leave(self) -> list[News]:
        found: list[News] = []
        going = dict(self.asked)
        for actor in self.actors.values():
            actor.leave.remote()
        end = time.monotonic() + PATIENCE
        while going and time.monotonic() < end:
            answers, _ = self.ray.wait(list(going), num_returns=1, timeout=1.0)
            for answer in answers:
                worker = going.pop(answer)
                said = self._heard(answer, lambda name: None)
                found += said
                if not any(one.kind in ("left", "died") for one in said):
                    going[next(ref for ref, name in self.asked.items() if name == worker)] = worker
        for actor in self.actors.values():
            self.ray.kill(actor)
        self.actors, self.asked = {}, {}
        self.ray.shutdown()
        return found

    def _heard(self, answer: Any, died: Callable[[str], None]) -> list[News]:
        worker = self.asked.pop(answer)
        try:
            said = self.ray.get(answer)
        except self.ray.exceptions.RayError as error:
            why = f"was lost by Ray ({type(error).__name__})"
            with suppress(Exception):
                self.ray.kill(self.actors[worker])  # where it lives on after all
            died(worker)
            return [News(worker, "died", {"why": why})]
        self.asked[self.actors[worker].hear.remote()] = worker
        return [News(worker, kind, facts) for kind, facts in said]

    def _start(self, worker: str) -> None:
        self.actors[worker] = self.kind.remote(*self.facts)
        self.asked[self.actors[worker].hear.remote()] = worker


class RayWorker:
    """An actor: the work is done in a thread of its own, so that it can always be asked."""

    def __init__(self, path: str, config: Mapping[str, Any], folder: str) -> None:
        import torch

        torch.set_num_threads(1)
        if Path(folder).is_dir():
            os.chdir(folder)  # images may be named by where they are from there
        self.path, self.config = path, config
        self.said: queue.SimpleQueue[tuple[str, Mapping[str, Any]]] = queue.SimpleQueue()
        self.orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self.leaving = threading.Event()
        self.heard = time.monotonic()
        threading.Thread(target=self._work, daemon=True).start()

    def give(self, order: Order) -> None:
        self.orders.put(order)

    def leave(self) -> None:
        self.leaving.set()
        self.orders.put(None)

    def hear(self) -> list[tuple[str, Mapping[str, Any]]]:
        """What there is to tell; waits a little for something."""
        self.heard = time.monotonic()
        found = []
        with suppress(queue.Empty):
            found.append(self.said.get(timeout=LISTENING))
            while True:
                found.append(self.said.get_nowait())
        return found

    def _work(self) -> None:
        import torch

        from uraenas.run.places.leases import Superseded
        from uraenas.run.places.worker import Leave, Worker

        torch.set_num_threads(1)

        def tell(kind: str, facts: Mapping[str, Any]) -> None:
            self.said.put((kind, facts))

        worker = Worker(self.path, tell, self._is_to_leave)
        try:
            if worker.opened(self.config):
                tell("ready", {"host": socket.gethostname(), "process": os.getpid()})
            while (order := self.orders.get()) is not None:
                worker.do(order)
        except Leave:
            pass  # its state is written
        except Superseded:
            os._exit(1)
        tell("left", {})

    def _is_to_leave(self) -> bool:
        """Asked to, or nobody has listened for long: the driver is gone, or this node is lost to it."""
        if time.monotonic() - self.heard > 2 * PATIENCE:
            os._exit(1)
        return self.leaving.is_set()


def _require_alike(ray: Any, run: Run) -> None:
    """Refuse nodes that would compute something else, or somewhere else."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe, ours = _probe(str(run.path.absolute())), versions()
    lock = run.path / "lock"
    holder = lock.read_bytes() if lock.exists() else b""
    asked = {}
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, max_retries=0)(probe).options(scheduling_strategy=there)
            asked[f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"] = task.remote(list(ours))
    for node, answer in asked.items():
        try:
            found = ray.get(answer, timeout=4 * PATIENCE)
        except Exception as error:
            raise UraenasError(f"the Ray node {node} does not answer: {type(error).__name__}") from error
        for package, version in ours.items():
            if found["versions"][package] != version:
                raise UraenasError(
                    f"the Ray node {node} has {package} {found['versions'][package]}, this process {version}; install "
                    "the same everywhere"
                )
        if found["holder"] is None or found["holder"] != holder:
            raise UraenasError(
                f"the Ray node {node} does not see {run.path.absolute()} as it is here; put the run directory (--out) "
                "on a file system that all nodes share"
            )
        if holder and found["locked"]:
            warnings.warn(
                f"locks on the file system of {run.path} do not reach {node}: a second command on this run would not "
                "be noticed, so give none",
                stacklevel=2,
            )


def _probe(path: str) -> Callable[[list[str]], dict[str, Any]]:
    """A function that needs nothing of this package: a node may have another version of it, or none."""

    def probe(packages: list[str]) -> dict[str, Any]:
        import fcntl
        import os
        from importlib import metadata

        def version(package: str) -> str:
            try:
                return metadata.version(package).partition("+")[0]
            except metadata.PackageNotFoundError:
                return "not installed"

        lock, holder, locked = os.path.join(path, "lock"), b"" if os.path.isdir(path) else None, False
        if os.path.exists(lock):
            with open(lock, "rb") as file:
                holder = file.read()
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    locked = True
                except OSError:
                    pass
        return {"versions": {name: version(name) for name in packages}, "holder": holder, "locked": locked}

    return probe
