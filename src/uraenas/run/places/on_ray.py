"""Workers on a Ray cluster: one that is there, or one that is started here for the run.

A cluster runs what it is sent, so one that we start asks for a token, made anew and kept in this process and its
children alone. Ray's ports listen on all interfaces, whatever address its nodes have.
"""

import importlib.util
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from uraenas.base.cores import available_cores
from uraenas.base.errors import UraenasError
from uraenas.run.places.elsewhere import Elsewhere
from uraenas.run.places.own_parts import modules_of_own_parts
from uraenas.run.places.place import News, Order
from uraenas.run.places.ray_nodes import PATIENCE, connected, require_alike
from uraenas.run.places.ray_worker import RayWorker
from uraenas.run.work import Work

LOOPBACK = "127.0.0.1"


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

    def hire(self, work: Work, most: int) -> "RayCrew":
        run, config, ray = work.run, work.config, self._connected()
        try:
            require_alike(ray, run)
            resources = ray.cluster_resources()
            gpus = 0 if config.engine.device == "cpu" else int(resources.get("GPU", 0))
            count = min(most, gpus or int(resources.get("CPU", 0)))
            if not count:
                raise UraenasError(
                    "the Ray cluster has neither cores nor GPUs for us; ray status says what it has"
                )
            wanted = {"num_cpus": 0 if gpus else 1, "num_gpus": 1 if gpus else 0}
            facts = (str(run.path.absolute()), config.as_json(), os.getcwd(), modules_of_own_parts())
            return RayCrew(ray, facts, count, wanted)
        except BaseException:
            ray.shutdown()
            raise

    @property
    def _is_on_loopback(self) -> bool:
        """Whether the cluster is ours, or one that listens on loopback and not on the network."""
        host, _, port = self.address.rpartition(":")
        if not host:
            return True
        if host != "localhost" and not host.startswith("127."):
            return False
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
                # Nothing is sent; the system chooses an address of this machine.
                unsent.connect(("192.0.2.1", 9))
                own = unsent.getsockname()[0]
            socket.create_connection((own, int(port)), 2).close()
        except OSError:
            return True
        return False

    def _connected(self) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")  # without GPUs, a worker sees none
        own: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if self._is_on_loopback:
            # Ray takes loopback for this machine's address on the network, where a cluster on loopback does not
            # listen. It does not where it thinks that the system cannot have clusters.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
            own["_node_ip_address"] = LOOPBACK
        if self.address:
            return connected({"address": self.address, **own})
        if "RAY_AUTH_MODE" not in os.environ:
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        own |= {"num_cpus": available_cores(), "include_dashboard": False}
        return connected({"address": "local", **own})


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
