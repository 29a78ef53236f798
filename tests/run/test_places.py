"""Work that is done elsewhere comes to the same end, whoever dies on the way."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from short_runs import FEW
from two_workers import TwoWorkers

from uraenas.base.progress import Progress
from uraenas.cli.screen import lines_of
from uraenas.learning.chains import ChainSpec
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.places import Elsewhere, driver, place_of
from uraenas.run.places.packing import pack
from uraenas.run.places.place import Order
from uraenas.run.show import summary
from uraenas.spaces import CellSpace, Shape
from uraenas.weights import WEIGHTS

SMALL = CellSpace(channels=4, cells=1, shape=Shape(8, 8))


# Real processes


class Watcher:
    """Progress that does something to a worker, once, in the midst of training."""

    def __init__(self, deed: Callable[[int], None]) -> None:
        self.deed, self.done = deed, False

    def __call__(
        self, stage: str, done: float, total: float, left: float | None = None, found: str = ""
    ) -> None:
        if stage == "train" and found and not self.done and 0.3 * total <= done < total:
            self.done = True
            workers = {child.name: child.pid for child in multiprocessing.active_children()}
            self.deed(workers[found.partition(":")[0]])


def kill(worker: int) -> None:
    os.kill(worker, signal.SIGKILL)


def interrupt(worker: int) -> None:
    raise KeyboardInterrupt


def begun(out: Path, finished_run: Path) -> Path:
    """A run that has searched, and no more."""
    shutil.copytree(finished_run / "search", out / "search")
    for name in ("config.json", "data.json"):
        shutil.copy(finished_run / name, out)
    return out


def worked(out: Path, place: str, progress: Progress, **changes: object) -> Pipeline:
    """Train and evaluate there."""
    pipeline = Pipeline.start(out, preset("tiny", changes), progress)
    pipeline.place = place_of(place)
    with pipeline.run.held(), closing(pipeline.place):
        pipeline.train(pipeline.search())
        pipeline.evaluate()
    return pipeline


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_a_run_whose_worker_is_killed_ends_as_if_nothing_had_been(finished_run: Path, tmp_path: Path):
    out = begun(tmp_path / "run", finished_run)
    with pytest.warns(UserWarning, match="was ended by SIGKILL") as told:
        pipeline = worked(out, "processes:2", Watcher(kill), **{"engine.checkpoint_seconds": 0})
    assert len(told) == 1
    assert not multiprocessing.active_children()
    assert (out / "metrics.json").read_bytes() == (finished_run / "metrics.json").read_bytes()
    assert files(finished_run) - files(out) == {"report.html"}
    assert files(out) <= files(finished_run)
    assert pipeline.run.losses() == Run(finished_run).losses()
    costs, undisturbed = pipeline.run.costs.read(), Run(finished_run).costs.read()
    chains = [item for item in undisturbed if item.startswith("chains/")]
    extra = [costs[item]["images"] - undisturbed[item]["images"] for item in chains]
    epoch = undisturbed[chains[0]]["images"] / pipeline.config.train.epochs
    assert min(extra) >= 0
    assert sum(extra) <= 2 * epoch  # of a stack of two chains at most
    assert sum(spent["units"] for item, spent in costs.items() if item.startswith("workers/")) == 4 + 9
    assert '"worker died"' in (out / "log.jsonl").read_text()


class Guardian(Watcher):
    """Stops a worker, as one that hangs, and ends it when the driver says that it is silent."""

    def __init__(self) -> None:
        super().__init__(self.stop)
        self.stopped, self.found = 0, ""

    def stop(self, worker: int) -> None:
        os.kill(worker, signal.SIGSTOP)
        self.stopped = worker

    def __call__(
        self, stage: str, done: float, total: float, left: float | None = None, found: str = ""
    ) -> None:
        super().__call__(stage, done, total, left, found)
        if self.stopped and not self.found and "silent for" in found:
            self.found = found
            os.kill(self.stopped, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:worker-. was ended by SIGKILL")
def test_a_worker_that_hangs_is_told_and_can_be_ended(finished_run: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(driver, "SILENCE", 2.0)
    out, guardian = begun(tmp_path / "run", finished_run), Guardian()
    with pytest.warns(UserWarning, match=r"worker-1 has said nothing for .*; if it hangs, end its process"):
        worked(out, "processes:1", guardian, **{"engine.checkpoint_seconds": 0})
    assert guardian.found.startswith("worker-1: ")
    assert (out / "metrics.json").read_bytes() == (finished_run / "metrics.json").read_bytes()


def test_who_is_interrupted_lets_workers_write_down_how_far_they_are(finished_run: Path, tmp_path: Path):
    """No checkpoint is due for an hour."""
    out = begun(tmp_path / "run", finished_run)
    with pytest.raises(KeyboardInterrupt):
        worked(out, "processes:1", Watcher(interrupt), **{"engine.checkpoint_seconds": 3600})
    assert not multiprocessing.active_children()
    assert list(out.glob("chains/*/state.safetensors"))


HURRIED = """
import os, signal, time
from multiprocessing import forkserver
from uraenas.run.places.processes import _ways_to_start

if __name__ == "__main__":
    system = _ways_to_start()
    for _ in range(20):
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGINT)
        time.sleep(0.02)
    worker = system.Process(target=print, args=("works",))
    worker.start()
    worker.join()
    raise SystemExit(worker.exitcode)
"""


def test_ctrl_c_while_workers_load_what_they_need_is_heard_by_the_driver_alone(tmp_path: Path):
    (tmp_path / "hurried.py").write_text(HURRIED)
    call = [sys.executable, tmp_path / "hurried.py"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "works\n", "")


def test_chains_that_need_no_search_are_trained_beside_it_by_all_workers_but_one(
    short_run: Path, tmp_path: Path
):
    crew, seen = TwoWorkers(), []

    def look(stage: str, *facts: object) -> None:
        if stage == "search" and any((tmp_path / "run").glob("chains/*/state.safetensors")):
            seen.append(summary(tmp_path / "run")["stages"]["search"])

    config = preset("tiny", {**FEW, "methods": "deep-ensemble,random-ensemble"})
    pipeline = Pipeline.start(tmp_path / "run", config, look)
    pipeline.place = Elsewhere(crew)
    with pipeline.run.held(), closing(pipeline.place):
        found = pipeline.search()
        beside = list(crew.given)
        pipeline.train(found)
    assert [worker for worker, _ in beside] == ["two", "two"]  # the first one's core is the search's
    assert {item for _, order in beside for item in order.items} == {"uniform-point-00", "uniform-point-01"}
    later = [item for _, order in crew.given[2:] for item in order.items]
    assert sorted(later) == ["expected-point-00", "expected-point-01"]
    assert (
        pipeline.run.ensemble("deep-ensemble").identity == Run(short_run).ensemble("deep-ensemble").identity
    )
    images = {item: spent["images"] for item, spent in pipeline.run.costs.read().items() if "chains/" in item}
    assert len(images) == 4
    assert len(set(images.values())) == 1  # each was trained once
    assert not pipeline.run.leases_folder.exists()
    assert set(seen) == {"not done"}
    told = lines_of(tmp_path / "run", summary(tmp_path / "run")).renderables
    assert any("summed over 2 workers: search" in str(line) for line in told)
    assert not any("took" in str(line) for line in told)


def test_what_several_workers_would_write_is_written_by_the_driver_alone(short_run: Path, tmp_path: Path):
    """A worker that adds its losses to a file would take away those that another has added since it read it."""

    class Watched(TwoWorkers):
        def give(self, worker: str, order: Order) -> None:
            before = files_and_bytes()
            super().give(worker, order)
            assert files_and_bytes() == before

    def files_and_bytes() -> list[tuple[str, bytes]]:
        return [(path.name, path.read_bytes()) for path in sorted((tmp_path / "run").glob("*.json*"))]

    pipeline = Pipeline.start(tmp_path / "run", preset("tiny", FEW))
    pipeline.place = Elsewhere(Watched())
    with pipeline.run.held(), closing(pipeline.place):
        pipeline.train(pipeline.search())
    assert pipeline.run.losses() == Run(short_run).losses()


WITH_WORKERS = """
import multiprocessing, sys
from uraenas.cli import main
from uraenas.run.places.driver import Driver

hear = Driver._hear

def hear_and_tell(driver, worker, kind, facts):
    hear(driver, worker, kind, facts)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)

if __name__ == "__main__":
    Driver._hear = hear_and_tell
    main()
"""


def test_workers_end_with_their_driver_and_the_same_command_goes_on(short_run, tmp_path, uraenas):
    out, script = begun(tmp_path / "run", short_run), tmp_path / "driver.py"
    script.write_text(WITH_WORKERS)
    few = ("--set", "data.limit=100", "--set", "evaluate.suite=none")  # as it was made
    command = ["run", "--preset", "tiny", *few, "--out", out]
    where = ["--on", "processes:2", "--json"]
    driver = subprocess.Popen([sys.executable, script, *command, *where], stdout=subprocess.PIPE, text=True)
    workers = [int(word) for word in driver.stdout.readline().split()]
    driver.kill()
    driver.communicate()
    assert len(workers) == 2
    while any(Path(f"/proc/{pid}").exists() for pid in workers):  # a machine may be slow; it does not hang
        time.sleep(0.05)
    done = uraenas(*command)  # wherever it goes on
    assert done.returncode == 0, done.stderr
    assert (out / "metrics.json").read_bytes() == (short_run / "metrics.json").read_bytes()
    assert not (out / "leases").exists()


# Packing


def chain(kind: str, number: int) -> ChainSpec:
    own = {} if kind == "point" else {"cycles": 1, "samples": 1}
    return ChainSpec("sampled", WEIGHTS[kind].make(own), number, SMALL.architecture((3,) * 6))


def test_stacks_cost_alike_and_none_is_too_large():
    specs = [chain("point", number) for number in range(7)]
    costs = {spec.name: float(cost) for spec, cost in zip(specs, (7, 6, 5, 4, 3, 2, 1), strict=True)}
    units = pack(specs, costs, epochs=5, workers=2, stack=10)
    assert [unit.cost for unit in units] == [14, 14]
    small = pack(specs, costs, epochs=5, workers=2, stack=3)
    assert [unit.cost for unit in small] == [7, 7, 7, 7]  # two rounds, and nobody is idle
    for found in (units, small):
        assert sorted(name for unit in found for name in unit.items) == sorted(costs)
    assert len(pack(specs[:1], costs, epochs=5, workers=8, stack=3)) == 1


def test_chains_that_go_on_from_others_wait_for_these():
    specs = [chain("sghmc", number) for number in range(4)] + [chain("point", number) for number in range(4)]
    units = pack(specs, {spec.name: 1.0 for spec in specs}, epochs=5, workers=2, stack=10)
    leading, following = units[:2], units[2:]
    assert not any(unit.waits_for for unit in leading)
    for unit in following:
        numbers = [name[-2:] for name in unit.items]
        assert unit.waits_for == {f"sampled-sghmc-{n}": (f"sampled-{n}", 4) for n in numbers}
        assert any(set(unit.waits_for) == set(leader.items) for leader in leading)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("processes:0", "--on processes:0 names no number of processes"),
        ("processes:two", "--on processes:two names no number of processes"),
        ("local:2", "--on local:2 says too much"),
        ("ray:nowhere", "--on ray:nowhere names no cluster; expected ray or ray:HOST:PORT"),
        ("ray:127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1: "),
        ("process", "unknown place (--on) 'process'. Did you mean 'processes'?"),
    ],
)
def test_a_place_that_is_none_is_one_line(uraenas, tmp_path, place, words):
    done = uraenas("run", "--preset", "tiny", "--on", place, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr.startswith(f"uraenas: {words}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
