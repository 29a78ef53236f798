"""The stored results can be read by the code they are stored with."""

from pathlib import Path

import pytest

from uraenas import Run
from uraenas.run.show import summary

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(
    "path", sorted(RESULTS.rglob("config.json")), ids=lambda p: str(p.relative_to(RESULTS))
)
def test_a_stored_run_is_whole_and_its_settings_are_settings_of_today(path: Path) -> None:
    assert Run(path.parent).config().methods
    assert summary(path.parent)["stages"]["evaluate"] == (
        "done" if (path.parent / "metrics.json").exists() else "not done"
    )
