"""The stored results can be read by the code they are stored with."""

from pathlib import Path

import pytest

from uraenas import Run

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(
    "path", sorted(RESULTS.rglob("config.json")), ids=lambda p: str(p.relative_to(RESULTS))
)
def test_the_settings_of_a_stored_run_are_settings_of_today(path: Path) -> None:
    assert Run(path.parent).config().methods
