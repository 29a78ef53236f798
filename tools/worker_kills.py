"""Kill workers of a small run with SIGKILL at random moments, and whole Ray nodes: it must end with the same metrics.

`--on processes:2` needs nothing else; workers are forked from a process that has loaded PyTorch, so that a kill costs
no more than what it destroys. `--on ray` starts a cluster of two nodes on loopback, for this process alone, and kills
nodes too: only Ray's own process on the node dies, so its worker lives on, unheard, and must not write any more.

Kills come as soon as workers are there again, at a random moment of their work. Nothing here waits for less than it
takes: a busy machine makes it slower and no more.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import torch
from kills import read_everything, write_images
from ray_cluster import add_node, two_nodes

from uraenas.base.progress import silent
from uraenas.run.config import Config, preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.places import driver, place_of

SETTINGS = {
    "methods": ("uraenas", "deep-ensemble"),
    "engine.checkpoint_seconds": 0,
    "search.batch": 16,
    "train.batch": 16,
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
        self.struck: set[int] = set()
        self.kills = 0

    def run(self) -> None:
        while self.kills < self.most and not self.over.wait(self.draw.uniform(*self.pause)):
            self.kills += self.strike()

    def strike(self) -> int:
        """Kill one, none twice: its number may be another's by then."""
        ready = [one for one in self.ready() if one not in self.struck]
        if not ready:
            return 0
        chosen = self.draw.choice(ready)
        self.struck.add(chosen)
        with suppress(ProcessLookupError):
            os.kill(chosen, signal.SIGKILL)
            return 1
        return 0

    def ready(self) -> list[int]:
        """Processes of workers that are ready, and not known to be dead."""
        if not self.run_directory.has("log.jsonl"):
            return []
        found: dict[str, int] = {}
        for line in (self.run_directory.path / "log.jsonl").read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # one that is being written does not
                fact: dict[str, Any] = json.loads(line)
                if fact["event"] == "worker ready":
                    found[fact["worker"]] = fact["process"]
                elif fact["event"] == "worker died":
                    found.pop(fact["worker"], None)
        return [found[name] for name in sorted(found)]


class NodeKiller(Killer):
    """Kills Ray's process of the second node; its worker is not told. A new node takes its place."""

    def __init__(self, cluster: Any, *facts: Any) -> None:
        super().__init__(*facts)
        self.cluster = cluster

    def strike(self) -> int:
        if len(self.ready()) < 2:  # or the node has no worker yet
            return 0
        node = next(iter(self.cluster.worker_nodes))
        for process in node.all_processes["raylet"]:
            os.kill(process.process.pid, signal.SIGKILL)
        time.sleep(self.draw.uniform(*self.pause))
        self.cluster.remove_node(node, allow_graceful=False)
        add_node(self.cluster)
        return 1


def work(out: Path, config: Config, place: str) -> None:
    """Search here, train and evaluate there."""
    pipeline = Pipeline.start(out, config, silent)
    pipeline.place = place_of(place)
    pipeline.place.check()
    with pipeline.run.held(), closing(pipeline.place):
        pipeline.train(pipeline.search())
        pipeline.evaluate()


def deaths(run: Run) -> list[list[str]]:
    """What each worker was at that died."""
    log = map(json.loads, (run.path / "log.jsonl").read_text().splitlines())
    return [fact["unit"] for fact in log if fact["event"] == "worker died" and fact["unit"]]


def images(run: Run) -> dict[str, float]:
    """Seen by each chain in training, what was done twice counted twice."""
    costs = run.costs.read()
    return {name: costs.get(f"chains/{name}", {}).get("images", 0) for name in run.chains.names()}


def require_unchanged(run: Run, undisturbed: Run) -> float:
    """Refuse other metrics, and chains of which a death cost more than an interval; epochs that were done twice.

    There is a checkpoint after each epoch, so whoever takes a chain over does one epoch again at most.
    """
    found, expected = ((one.path / "metrics.json").read_bytes() for one in (run, undisturbed))
    if found != expected:
        sys.exit(f"{run.path}: metrics.json is not that of an undisturbed run")
    before, struck = images(undisturbed), Counter(item for unit in deaths(run) for item in unit)
    epoch = max(before.values()) / run.config().train.epochs  # of a chain that shares nothing
    twice = {name: (seen - before[name]) / epoch for name, seen in images(run).items()}
    for name, epochs in twice.items():
        if epochs > struck[name]:
            sys.exit(
                f"{run.path}: {epochs:g} epochs of {name} were done twice, after {struck[name]} deaths at it"
            )
    return sum(twice.values())


def options_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", default="processes:2", help="processes:N, or ray")
    parser.add_argument("--kills", type=int, default=20, help="of workers")
    parser.add_argument("--nodes", type=int, default=0, help="kills of nodes, on ray")
    parser.add_argument("--pause", type=float, nargs=2, default=(0.0, 4.0), help="seconds between two kills")
    parser.add_argument("--epochs", type=int, default=24, help="of each chain")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(words)


def main() -> None:
    options = options_of()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # deaths are expected,
    driver.MOST_DEATHS = sys.maxsize  # and nobody's fault
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # not without the cluster's processes
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
    facts: dict[str, Any] = {"on": options.on, "runs": 0, "kills": 0, "nodes killed": 0, "in evaluation": 0}
    facts["epochs twice"] = []
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder) / "images.npz")
        own = {"data.name": str(Path(folder) / "images.npz"), "train.epochs": options.epochs}
        config = preset("tiny", {**SETTINGS, **own})
        whole = Path(folder) / "undisturbed"
        work(whole, config, "local")
        begun = time.monotonic()
        while any(left.values()):
            out = Path(folder) / f"run-{facts['runs']}"
            killers = [Killer(Run(out), draw, pause, left["workers"])]
            if cluster:
                killers.append(NodeKiller(cluster, Run(out), draw, pause, left["nodes"]))
            disturbed(out, config, place, killers)
            read_everything(out)
            facts["epochs twice"].append(round(require_unchanged(Run(out), Run(whole)), 1))
            chains = set(Run(out).chains.names())
            facts["in evaluation"] += sum(not set(unit) <= chains for unit in deaths(Run(out)))
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
