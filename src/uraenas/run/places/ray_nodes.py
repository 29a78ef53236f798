"""Ray itself: how it is reached, and whether its nodes can do this run's work."""

import os
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.run.directory import Run
from uraenas.run.places.worker import versions

HERE = "this machine"
# How Ray refuses a process that differs from the cluster's head.
VERSIONS = r"Version mismatch: .*?Ray: (\S+) Python: (\S+) .*?Ray: (\S+) Python: (\S+).*"
PATIENCE = 60.0  # seconds for a cluster to answer, and for workers to write down how far they are


def connected(options: Mapping[str, Any]) -> Any:
    """Ray, connected. What answers and is no cluster would be asked for ever, so that is done in a thread."""
    where = HERE if options["address"] == "local" else options["address"]
    before = signal.getsignal(signal.SIGTERM)
    import ray  # seconds, and not everybody has it

    failed: list[BaseException] = []

    def connect() -> None:
        try:
            ray.init(**options)
        except BaseException as error:  # a dozen kinds; nothing has been computed yet
            failed.append(error)

    if options["address"] == "local":
        connect()  # it starts processes, and heeds signals for them
    else:
        thread = threading.Thread(target=connect, daemon=True)
        with _unheard():
            thread.start()
            thread.join(PATIENCE)
        if thread.is_alive():
            raise UraenasError(f"what answers at {where} is no Ray cluster, or none that works")
    with suppress(ValueError):  # not the main thread, so nobody heeds signals here
        signal.signal(signal.SIGTERM, before)  # Ray has its own way to end
    if failed:
        with suppress(Exception):
            ray.shutdown()  # it is half connected, and this process may try another
        raise _in_a_line(failed[0], where) from failed[0]
    return ray


@contextmanager
def _unheard() -> Iterator[None]:
    """Ray's compiled part tells every second what the error says in the end, and no setting makes it silent."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _in_a_line(error: BaseException, where: str) -> UraenasError:
    """Ray's own words, but for what is the matter most often."""
    words = " ".join(str(error).split())
    if match := re.fullmatch(VERSIONS, words):
        versions = match.groups()
        theirs, ours = (f"Ray {found[0]} and Python {found[1]}" for found in (versions[:2], versions[2:]))
        return UraenasError(
            f"the Ray cluster at {where} has {theirs}, this process {ours}; install the same everywhere"
        )
    hint = "" if where == HERE else "; if it asks for a token, RAY_AUTH_MODE and RAY_AUTH_TOKEN say it"
    return UraenasError(f"cannot use Ray on {where}: {words[:500]}{hint}")


def require_alike(ray: Any, run: Run) -> None:
    """Refuse nodes that would compute something else, or somewhere else."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe, ours = _probe(str(run.path.absolute())), versions()
    lock = run.path / "lock"
    holder = lock.read_bytes() if lock.exists() else b""
    asked = []  # several nodes of one machine have one name
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, max_retries=0)(probe).options(scheduling_strategy=there)
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
            asked.append((name, task.remote(list(ours))))
    for node, answer in asked:
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
