import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import open_page, start_chromium
from compared_runs import Compared, Line
from made_up_run import MakeRun, Source, write_run
from page_and_files import Case

from made_up_tables import make_runs
from uraenas import report
from uraenas.base.parts import Part
from uraenas.learning.methods import DEFAULT, METHODS
from uraenas.run.directory import Run
from uraenas.shifts import SUITES
from uraenas.spaces import SPACES, CellSpace

pytest.register_assert_rewrite("compared_tables", "compared_figures", "single_figures", "single_tables")


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """make_run(name, members=3, …): a run with other settings, made once and not to be changed."""
    made: dict[str, Source] = {}

    def make(name: str = "demo", **settings: Any) -> Source:
        key = f"{name} {sorted(settings.items())}"
        if key not in made:
            made[key] = write_run(tmp_path_factory.mktemp("runs") / name, **settings)
        return made[key]

    return make


@pytest.fixture
def make_own_run(make_run: MakeRun, tmp_path: Path) -> MakeRun:
    """The same to be changed."""

    def make(name: str = "demo", **settings: Any) -> Source:
        run, test = make_run(name, **settings)
        return Run(shutil.copytree(run.path, tmp_path / name)), test

    return make


@pytest.fixture(scope="session")
def demo(make_run: MakeRun) -> Source:
    """A finished run with its labelled test set; not to be changed."""
    return make_run()


@pytest.fixture(scope="session")
def compared(make_run: MakeRun) -> Compared:
    """Two seeds of one thing, and a third run whose seed one of them has."""
    seeds = {"a": {"seed": 1}, "b": {"seed": 2}, "c": {"seed": 1, "methods": ("uraenas", "deep-ensemble")}}
    lines = [
        ("drnas", "ab"),
        ("uraenas", "ab"),
        ("uraenas", "c"),
        ("deep-ensemble", "ab"),
        ("deep-ensemble", "c"),
    ]
    cases = {name: Case(make_run(name, **settings)) for name, settings in seeds.items()}
    return Compared(cases, [Line(*line) for line in lines], Line("deep-ensemble", "ab"))


@pytest.fixture(scope="session")
def table_runs_of_another_seed(made_once: Callable[..., Path], uraenas: Callable) -> dict[str, Path]:
    """The same as `table_runs`, of seed 1 and with references."""
    changes = {"seed": 1, "evaluate.references": "true"}
    made = made_once("more-tables", lambda out: make_runs(out, uraenas, changes))
    return {kind: made / kind for kind in ("numbers", "classes", "several")}


@pytest.fixture(scope="module")
def five_nodes() -> Iterator[str]:
    """The name of a space that is not NAS-Bench-201: cells of five nodes, without pooling."""
    operations = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3")
    with pytest.MonkeyPatch.context() as patch:
        row = Part(CellSpace, name="five-nodes", nodes=5, operations=operations)
        patch.setitem(SPACES, "five-nodes", row)
        yield "five-nodes"


@pytest.fixture(scope="session")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A run as large as the paper's on CIFAR-10: 19 × 5 shifts, its methods, 10 members.

    How many images there are hardly changes its page's size.
    """
    suite: dict[str, Any] = {
        "shifts": SUITES["cifar10-c"],
        "severities": (1, 2, 3, 4, 5),
        "same_shifts": True,
    }
    path = tmp_path_factory.mktemp("large") / "run"
    return write_run(path, DEFAULT, members=10, images=120, side=32, **suite)


@pytest.fixture(scope="session")
def large_page(large_run: Source) -> Path:
    """Its page."""
    return report.write(*large_run)


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    driver = start_chromium(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def page(make_run: MakeRun) -> Path:
    """The report of a finished run."""
    return report.write(*make_run("a-run-with-a-long-name"))


@pytest.fixture(scope="session")
def page_of_all_methods(make_run: MakeRun) -> Path:
    """A report with every name and every colour."""
    return report.write(*make_run("all-methods", methods=tuple(METHODS)))


@pytest.fixture(scope="session")
def pages(page: Path, make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each kind: of a run, and of three runs of which two are seeds of one thing."""
    sources = [make_run(name, seed=seed) for name, seed in (("a", 1), ("b", 2), ("c", 1))]
    compared = tmp_path_factory.mktemp("compared") / "report.html"
    compared.write_text(report.build(sources, command="uraenas report a b c"), encoding="utf-8")
    return {
        "single": page,
        "compared": compared,
        "partial": _partial(make_run, tmp_path_factory.mktemp("partial")),
    }


def _partial(make_run: MakeRun, folder: Path) -> Path:
    """The page of a run whose chains are being trained."""
    run = Run(shutil.copytree(make_run()[0].path, folder / "run"))
    run.remove("metrics.json")
    facts = {"done": 40, "total": 80, "seconds": 20.0, "speed": 2.0, "left": 20.0}
    run.tell_progress({"stage": "train", "found": "4 of 8 epochs, mean loss 1.234 of 3 chains", **facts})
    run.write_text("report.html", report.build_partial(run, "uraenas report run --follow", again=True))
    return run.path / "report.html"


@pytest.fixture
def browser(started: Any, page: Path) -> Any:
    """The page freshly opened, 1280 pixels wide, in light colours."""
    open_page(started, page)
    return started
