"""Kill workers of a small run with SIGKILL at random moments, and whole Ray nodes: it must end with the same metrics.

`--on processes:2` needs nothing else. `--on ray` starts a cluster of two nodes on loopback, for this process alone, and
kills nodes too: only Ray's own process on the node dies, so its worker lives on, unheard, and must not write any more.
"""

import argparse
import json
import os
import random
import secrets
import signal
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import torch
from kills import read_everything, write_images

from uraenas.base.progress import silent
from uraenas.run.config import Config, preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.places import place_of

LOOPBACK = "127.0.0.1"
SETTINGS = {
    "methods": ("uraenas", "deep-ensemble"),
    "engine.checkpoint_seconds": 0,
    "search.batch": 16,
    "train.batch": 16,
    "train.epochs": 24,
    "train.sampling.samples": 2,
    "train.sampling.exploration": 0.5,
    "train.sampled.architectures": 4,
    "ensemble.members": 4,
    "evaluate.bootstrap": 20,
    "evaluate.severities": "1",
}


class Killer(threading.Thread):
    """Kills one of the workers that a run's log names, every now and then, while the run goes on."""

    def __init__(self, run: Run, draw: random.Random, pause: tuple[float, float], most: int) -> None:
        super().__init__(daemon=True)
        self.run_directory, self.draw, self.pause, self.most = run, draw, pause, most
        self.over = threading.Event()
        self.kills = 0

    def run(self) -> None:
        while self.kills < self.most and not self.over.wait(self.draw.uniform(*self.pause)):
            self.kills += self.strike()

    def strike(self) -> int:
        if not self.run_directory.has("log.jsonl"):
            return 0
        lines = map(json.loads, (self.run_directory.path / "log.jsonl").read_text().splitlines())
        ready = {line["worker"]: line["process"] for line in lines if line["event"] == "worker ready"}
        if not ready:
            return 0
        with suppress(ProcessLookupError):
            os.kill(ready[self.draw.choice(sorted(ready))], signal.SIGKILL)
            return 1
        return 0  # it was dead, and its successor is not ready yet


class NodeKiller(Killer):
    """Kills Ray's process of the second node; its worker is not told. A new node takes its place."""

    def __init__(self, cluster: Any, *facts: Any) -> None:
        super().__init__(*facts)
        self.cluster = cluster

    def strike(self) -> int:
        if not self.run_directory.has("chains"):
            return 0
        node = next(iter(self.cluster.worker_nodes))
        for process in node.all_processes["raylet"]:
            os.kill(process.process.pid, signal.SIGKILL)
        time.sleep(self.draw.uniform(*self.pause))
        self.cluster.remove_node(node, allow_graceful=False)
        self.cluster.add_node(num_cpus=1, node_ip_address=LOOPBACK)
        return 1


def work(out: Path, config: Config, place: str) -> None:
    """Search here, train and evaluate there."""
    pipeline = Pipeline.start(out, config, silent)
    pipeline.place = place_of(place)
    pipeline.place.check()
    with pipeline.run.held(), closing(pipeline.place):
        pipeline.train(pipeline.search())
        pipeline.evaluate()


def images(out: Path) -> float:
    """Seen by chains in training, what was done twice counted twice."""
    return sum(
        spent.get("images", 0) for item, spent in Run(out).costs.read().items() if item.startswith("chains/")
    )


def two_nodes() -> Any:
    """A cluster on loopback that asks for a token. Nodes come from a thread, too, which may not heed signals."""
    os.environ |= {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # loopback is loopback
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "node_ip_address": LOOPBACK}
    cluster = Cluster(
        initialize_head=True, head_node_args=head, shutdown_at_exit=False
    )  # nodes come from a thread, too
    cluster.add_node(num_cpus=1, node_ip_address=LOOPBACK)
    return cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", default="processes:2", help="processes:N, or ray")
    parser.add_argument("--kills", type=int, default=20, help="of workers")
    parser.add_argument("--nodes", type=int, default=0, help="kills of nodes, on ray")
    parser.add_argument("--pause", type=float, nargs=2, default=(2.0, 12.0), help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # deaths are expected
    cluster = two_nodes() if options.on == "ray" else None
    try:
        facts = loop(options, cluster)
    finally:
        if cluster:
            cluster.shutdown()
    print(json.dumps(facts, indent=1))


def loop(options: argparse.Namespace, cluster: Any) -> dict[str, Any]:
    """Runs, with kills, until there were enough."""
    draw, pause = random.Random(options.seed), tuple(options.pause)
    place = f"ray:{cluster.address}" if cluster else options.on
    left = {"workers": options.kills, "nodes": options.nodes if cluster else 0}
    facts: dict[str, Any] = {"on": options.on, "runs": 0, "kills": 0, "nodes killed": 0, "epochs twice": []}
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder) / "images.npz")
        config = preset("tiny", {**SETTINGS, "data.name": str(Path(folder) / "images.npz")})
        whole = Path(folder) / "undisturbed"
        work(whole, config, "local")
        epoch = images(whole) / len(Run(whole).chains()) / config.train.epochs  # less where chains share
        begun = time.monotonic()
        while any(left.values()):
            out = Path(folder) / f"run-{facts['runs']}"
            killers = [Killer(Run(out), draw, pause, left["workers"])]
            if cluster:
                killers.append(NodeKiller(cluster, Run(out), draw, pause, left["nodes"]))
            disturbed(out, config, place, killers)
            read_everything(out)
            assert (out / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes(), out
            kills = sum(killer.kills for killer in killers)
            twice = (images(out) - images(whole)) / epoch
            assert twice <= 8 * kills, (
                twice,
                kills,
            )  # a stack has four chains at most; their epoch, and its last
            facts["epochs twice"].append(round(twice, 1))
            facts["runs"] += 1
            for name, told, killer in zip(left, ("kills", "nodes killed"), killers, strict=False):
                left[name] -= killer.kills
                facts[told] += killer.kills
            print(json.dumps(facts), file=sys.stderr, flush=True)
        facts["seconds"] = round(time.monotonic() - begun, 1)
    return facts


def disturbed(out: Path, config: Config, place: str, killers: list[Killer]) -> None:
    for killer in killers:
        killer.start()
    try:
        work(out, config, place)
    finally:
        for killer in killers:
            killer.over.set()
            killer.join()


if __name__ == "__main__":
    main()
