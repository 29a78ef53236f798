"""A table of houses in a file."""

from pathlib import Path

import pytest

from made_up_tables import HEAD, lines


@pytest.fixture
def houses(tmp_path: Path) -> Path:
    path = tmp_path / "houses.csv"
    path.write_text("\n".join([HEAD, *lines()]))
    return path
