"""Links between the project's own texts lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "docs", "examples", "results", "results/*", "src/uraenas/**")
TEXTS = sorted({path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.md")})
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Headings as the usual Markdown pages name them."""
    headings = re.findall(r"^#+ (.+)$", without_code(path.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def dead_links(path: Path) -> list[str]:
    """The relative links of a text that lead to no file, or to no heading of it."""
    dead = []
    for link in LINK.findall(without_code(path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert dead_links(path) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One `thing`, and more\n")
    text = "[a](b.md#one-thing-and-more) [b](b.md#two) [c](c.md) [d](#e) [f](https://example.org/g)\n# E\n"
    (tmp_path / "a.md").write_text(text)
    assert dead_links(tmp_path / "a.md") == ["b.md#two", "c.md"]
    assert len(TEXTS) > 10
