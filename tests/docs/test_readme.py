"""The first page stays one that is read in five minutes."""

from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_first_page_has_at_most_700_words() -> None:
    assert len(README.read_text().split()) <= 700
