import shutil
from pathlib import Path
from typing import Any

import pytest
from made_up_run import Source, write_run

from uraenas.run import Run


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
