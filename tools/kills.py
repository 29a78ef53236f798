"""Kill a small run with SIGKILL at random moments and go on with it: every run must end with the undisturbed metrics.

Processes are forked from one that has loaded what they use, so that a kill costs no more than what it destroys. Moments
are counted in their processor time, so that a busy machine does not shift them to another stage. After each kill every
file in the run directory is read: one that has its final name must be whole.
"""

import argparse
import gc
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from uraenas import report
from uraenas.base.files import read_json, read_tensors
from uraenas.run.config import Config, preset
from uraenas.run.pipeline import Pipeline

METHODS = ("uraenas-swa", "uraenas-a", "deep-ensemble")
SETTINGS = {
    "methods": METHODS,
    "engine.checkpoint_seconds": 0,
    "search.batch": 16,
    "search.epochs": 3,
    "train.batch": 16,
    "train.epochs": 3,
    "train.sampling.samples": 2,
    "train.sampling.exploration": 0.4,
    "evaluate.bootstrap": 20,
    "evaluate.severities": "1",
}
LOADED = ("scipy.ndimage", "scipy.optimize", "sklearn.covariance")  # which runs load when they need them
LOOK_EVERY = 0.003  # seconds
STAGES = ("beginning", "search", "training", "evaluation", "report")


def write_images(path: Path) -> None:
    """Sixty small pictures of three classes, brighter from class to class."""
    draw = np.random.default_rng(0)
    labels = np.arange(60) % 3
    images = draw.integers(0, 100, (60, 8, 8, 1)) + 70 * labels[:, None, None, None]
    np.savez(
        path,
        x_train=images.astype(np.uint8),
        y_train=labels,
        x_test=images[::2].astype(np.uint8),
        y_test=labels[::2],
    )


def work(out: Path, config: Config) -> None:
    """What `uraenas run` does."""
    pipeline = Pipeline.start(out, config)
    with pipeline.run.held():
        pipeline.train(pipeline.search())
        pipeline.evaluate()
        report.write(pipeline.run, pipeline.task.dataset.test)


def forked(out: Path, config: Config) -> int:
    """A process that works on the run; its id."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(out, config)
            code = 0
        finally:
            os._exit(code)
    return child


def ended(child: int) -> bool:
    """Whether the process has come to its end; one that nobody killed must have come to a good one."""
    found, status = os.waitpid(child, os.WNOHANG)
    assert not found or status == 0, "a run that nobody killed has failed"
    return found != 0


def stage_of(out: Path) -> int:
    """How far the run has come, as a place in STAGES."""
    if (out / "metrics.json").exists():
        return 4
    if len(list(out.glob("methods/*/members/ensemble.json"))) == len(METHODS):
        return 3
    if (out / "search" / "architecture.safetensors").exists():
        return 2
    return 1 if (out / "config.json").exists() else 0


def computed(child: int) -> float:
    """Seconds of processor time that a process has had, while it is not waited for."""
    return time.clock_gettime(~child << 3 | 2)  # the clock that clock_getcpuclockid gives, on Linux


def undisturbed(out: Path, config: Config) -> list[float]:
    """Run to the end; the seconds that each stage took."""
    child, seconds, last = forked(out, config), [0.0] * len(STAGES), 0.0
    while not ended(child):
        time.sleep(LOOK_EVERY)
        now = computed(child)
        seconds[stage_of(out)] += now - last
        last = now
    return seconds


def killed(out: Path, config: Config, stage: int, delay: float) -> bool:
    """Run until so long after the beginning of a stage, then kill; whether it had not come to its end by then."""
    child, moment = forked(out, config), None
    while not ended(child):
        if moment is None and stage_of(out) >= stage:
            moment = computed(child) + delay
        if moment is not None and computed(child) >= moment:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(LOOK_EVERY)
    return False


def read_everything(out: Path) -> int:
    """Read every file that has its final name; the error of a damaged one is not caught."""
    files = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".tmp"]
    for path in files:
        if path.suffix == ".safetensors":
            read_tensors(path)
        elif path.suffix == ".json":
            read_json(path)
        elif path.name == "history.jsonl":
            [json.loads(line) for line in path.read_text().splitlines()]
        elif path.name == "report.html":
            assert path.read_text().rstrip().endswith("</html>")
    return len(files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)  # a fork does not inherit threads
    for name in LOADED:
        import_module(name)
    gc.freeze()  # nor should it look through what is loaded for garbage
    draw = random.Random(options.seed)
    kills: Counter[str] = Counter()
    runs, read, unfinished = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder) / "images.npz")
        config = preset("tiny", {**SETTINGS, "data.name": str(Path(folder) / "images.npz")})
        whole = Path(folder) / "undisturbed"
        seconds = undisturbed(whole, config)
        while kills.total() < options.kills or len(kills) < len(STAGES):  # each stage at least once
            out = Path(folder) / f"run-{runs}"
            for stage, duration in enumerate(seconds):  # one kill in each
                if killed(out, config, stage, draw.uniform(0, duration)):
                    kills[STAGES[stage_of(out)]] += 1
                    read += read_everything(out)
                    unfinished += len(list(out.rglob(".*.tmp")))
            undisturbed(out, config)
            assert (out / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes(), out
            assert read_everything(out) == read_everything(whole)
            assert not list(out.rglob(".*.tmp"))
            runs += 1
    facts = {
        "kills": kills.total(),
        "by stage": {stage: kills[stage] for stage in STAGES},
        "runs, each ending with the undisturbed metrics": runs,
        "files read after kills": read,
        "unfinished files seen and removed": unfinished,
        "seconds of the undisturbed run": round(sum(seconds), 1),
    }
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
