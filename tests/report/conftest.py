import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import open_page, start_chromium
from made_up_run import Source, write_run

from uraenas import report
from uraenas.config import override, preset
from uraenas.methods import METHODS
from uraenas.run import Run
from uraenas.shifts import SUITES
from uraenas.stages import Pipeline


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A finished run with its labelled test set; not to be changed."""
    return write_run(tmp_path_factory.mktemp("runs") / "demo")


@pytest.fixture
def copied(demo: Source, tmp_path: Path) -> Source:
    """The same to be changed."""
    shutil.copytree(demo[0].path, tmp_path / "demo")
    return Run(tmp_path / "demo"), demo[1]


@pytest.fixture
def make_run(tmp_path: Path) -> Any:
    """make_run(name, members=3, …): a run with other settings."""

    def make(name: str = "demo", **settings: Any) -> Source:
        return write_run(tmp_path / name, **settings)

    return make


@pytest.fixture(scope="session")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run as large as the paper's on CIFAR-10: 10,000 images, 19 × 5 shifts, 7 methods of 10 members."""
    path = tmp_path_factory.mktemp("large")
    every = (1, 2, 3, 4, 5)
    size: dict[str, Any] = {"members": 10, "images": 10_000, "shifted_images": 60, "side": 32}
    source = write_run(path / "run", tuple(METHODS), shifts=SUITES["cifar10-c"], severities=every, **size)
    (path / "report.html").write_text(report.build([source]), encoding="utf-8")
    return path / "report.html"


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    driver = start_chromium(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def page(started: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the demo on fewer epochs: digits, all seven methods, really searched and trained."""
    config = override(preset("tiny"), {"methods": ",".join(METHODS), "train.members": 3})
    pipeline = Pipeline.start(tmp_path_factory.mktemp("page") / "a-run-with-a-long-name", config)
    pipeline.train(pipeline.search())
    pipeline.evaluate()
    return pipeline.report()


@pytest.fixture
def browser(started: Any, page: Path) -> Any:
    """The page freshly opened, 1280 pixels wide, in light colours."""
    open_page(started, page)
    return started
