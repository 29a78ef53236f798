"""What a driver makes of the news of workers, with a crew in this process."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from short_runs import FEW
from two_workers import TwoWorkers

from uraenas.base.errors import UraenasError
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.places import Elsewhere
from uraenas.run.places import driver as driver_module
from uraenas.run.places import worker as worker_module
from uraenas.run.places.driver import MOST_DEATHS, Driver
from uraenas.run.places.packing import Unit
from uraenas.run.places.place import News, Order
from uraenas.run.places.ray_worker import RayWorker
from uraenas.run.places.worker import Worker
from uraenas.run.work import Work


class Talking:
    """A worker that says something of every unit, and is ready again."""

    names = ("worker-1",)

    def __init__(self, words: Iterator[list[tuple[str, dict[str, object]]]]) -> None:
        self.words, self.given, self.left = words, 0, False
        self.said: list[News] = [News("worker-1", "ready")]

    def give(self, worker: str, order: Order) -> None:
        self.given += 1
        self.said = [News(worker, *one) for one in next(self.words)] + [News(worker, "ready")]

    def news(self, seconds: float) -> list[News]:
        said, self.said = self.said, []
        return said

    def leave(self) -> list[News]:
        self.left = True
        return []


def driven(tmp_path: Path, crew: Talking, tell: Callable[[Driver], None] = lambda driver: None) -> bool:
    """A unit of two chains, given to this crew."""
    run = Run(tmp_path)
    run.write_config(preset("tiny"))
    driver = Driver(crew, run, preset("tiny"), set())
    return driver.work([Unit("train", ("a", "b"))], lambda: None, tell)


@pytest.mark.filterwarnings("ignore:worker-1")
@pytest.mark.parametrize(
    ("steps", "lives"), [([0] * 20, MOST_DEATHS), ([1, 2, 3, 4] + [4] * 9, MOST_DEATHS + 3)]
)
def test_a_unit_that_workers_die_of_is_named_in_one_line(tmp_path: Path, steps: list[int], lives: int):
    """Deaths count as long as it comes no further: a machine that is taken away now and then is not its fault."""
    why = ("died", {"why": "was ended by SIGKILL"})
    crew = Talking(iter([[("progress", {"done": done}), why] for done in steps]))
    with pytest.raises(
        UraenasError, match=r"5 workers in a row died at a, b, the last one: worker-1 was ended"
    ):
        driven(tmp_path, crew)
    assert crew.given == lives
    assert crew.left


def test_workers_that_all_die_at_once_end_the_run(tmp_path: Path):
    """As those do whose script starts a run of its own when it is imported."""

    class Stillborn(Talking):
        def news(self, seconds: float) -> list[News]:
            return [News("worker-1", "died", {"why": "ended with code 1"})]

    crew = Stillborn(iter([]))
    with pytest.raises(UraenasError, match=r"before they can begin.* ended with code 1; .*__main__"):
        driven(tmp_path, crew)
    assert crew.left


def test_warnings_and_errors_of_workers_carry_their_names(tmp_path: Path):
    full = "cannot write chains/a/state.safetensors: No space left on device"
    words = [("warning", {"text": "two networks do not fit"}), ("failed", {"line": full})]
    crew = Talking(iter([words]))
    with (
        pytest.warns(UserWarning, match="^worker-1: two networks do not fit"),
        pytest.raises(UraenasError, match=f"^worker-1: {full}"),
    ):
        driven(tmp_path, crew)
    assert crew.left


def test_a_worker_that_does_not_find_the_run_or_its_images_says_so(finished_run: Path, tmp_path: Path):
    own = {**Run(finished_run).config().as_json(), "data.name": str(tmp_path / "images.npz")}
    for path, config, words in (
        (
            tmp_path / "absent",
            Run(finished_run).config().as_json(),
            "is not there; workers need the run directory",
        ),
        (finished_run, own, "images.npz"),
    ):
        told: list[tuple[str, Mapping[str, Any]]] = []
        worker = Worker(str(path), lambda *news, told=told: told.append(news), lambda: False)
        assert not worker.opened(config)
        ((kind, facts),) = told
        assert kind == "failed"
        assert words in facts["line"]


def test_a_worker_that_reads_for_long_is_no_absent_one(finished_run: Path, tmp_path: Path, monkeypatch):
    """It says so meanwhile, and whoever waits for it goes on waiting."""
    said: Queue[tuple[str, Mapping[str, Any]]] = Queue()
    read = worker_module.prepare

    def slowly(*facts: Any) -> Any:
        assert [said.get(), said.get()] == [("loading", {})] * 2
        return read(*facts)

    monkeypatch.setattr(worker_module, "prepare", slowly)
    monkeypatch.setattr(worker_module, "LOADING", 0.01)
    worker = Worker(str(finished_run), lambda *news: said.put(news), lambda: False)
    assert worker.opened(Run(finished_run).config().as_json())

    class Reading(Talking):
        words_of_life = 3

        def news(self, seconds: float) -> list[News]:
            self.words_of_life -= 1
            return super().news(seconds) if self.words_of_life < 0 else [News("worker-1", "loading")]

    monkeypatch.setattr(driver_module, "PATIENCE", -1.0)
    crew, shown = Reading(iter([[("done", {})]])), []
    assert driven(tmp_path, crew, lambda driver: shown.append(dict(driver.words)))
    assert {"worker-1": "reading the images"} in shown
    assert shown[-1] == {}


def test_a_worker_that_may_hang_is_named(tmp_path: Path, monkeypatch):
    """As one that was stopped: it lives, and says nothing. It is warned of once, until it speaks again."""

    class Stopped(Talking):
        asked = 0

        def news(self, seconds: float) -> list[News]:
            self.asked += 1
            return [] if 1 < self.asked < 5 else super().news(seconds)

    monkeypatch.setattr(driver_module, "SILENCE", 0.0)
    shown: list[str] = []
    with pytest.warns(
        UserWarning, match=r"^worker-1 has said nothing for .* at a, b; if it hangs, end"
    ) as told:
        driven(tmp_path, Stopped(iter([[("done", {})]])), lambda driver: shown.append(str(driver.words)))
    assert len(told) == 1
    assert "a, silent for " in shown[-2]
    assert shown[-1] == "{}"
    assert '"worker silent"' in (tmp_path / "log.jsonl").read_text()


class OneWithoutImages(TwoWorkers):
    """The second worker is on a machine that lacks them."""

    def hire(self, work: Work, most: int) -> TwoWorkers:
        super().hire(work, most)
        config = {**work.config.as_json(), "data.name": "/nowhere/images.npz"}
        assert not self._worker(str(work.run.path), "two").opened(config)
        return self


@pytest.mark.parametrize("end", [None, float("inf")])  # without a budget, and with one
def test_a_machine_without_the_images_is_noticed_before_the_search_is_spent(
    tmp_path: Path, end: float | None
):
    pipeline = Pipeline.start(tmp_path / "run", preset("tiny", FEW))
    pipeline.place, pipeline.progress.end = Elsewhere(OneWithoutImages()), end
    with (
        pytest.raises(UraenasError, match=r"^two: .*/nowhere/images\.npz"),
        pipeline.run.held(),
        closing(pipeline.place),
    ):
        pipeline.search()
    assert not pipeline.run.has_search


def test_a_worker_on_another_machine_names_it(finished_run: Path, tmp_path: Path):
    own = {**Run(finished_run).config().as_json(), "data.name": str(tmp_path / "images.npz")}
    worker = RayWorker(str(finished_run), own, str(tmp_path / "elsewhere"))
    while not (said := worker.hear()):
        pass  # it is reading
    worker.leave()
    ((kind, facts),) = said
    assert (kind, facts["host"]) == ("failed", socket.gethostname())
    crew = Talking(iter([[(kind, facts)]]))
    with pytest.raises(UraenasError, match=rf"^worker-1 on {socket.gethostname()}: .*images\.npz"):
        driven(tmp_path / "run", crew)
