"""A page taken apart for the tests: tables, figures, ids, and whether its tags close."""

import base64
import re
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "img", "wbr"}


@dataclass
class Page(HTMLParser):
    ids: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)  # lines of cells, without what is small
    small: list[list[list[str]]] = field(default_factory=list)  # the same for what is printed small beneath
    marks: list[list[list[str]]] = field(default_factory=list)  # the same for how they are marked
    captions: list[str] = field(default_factory=list)  # of the tables
    tiles: list[tuple[str, str]] = field(default_factory=list)  # the class of a part, and its words
    best: list[str] = field(default_factory=list)
    figures: dict[str, list[str]] = field(default_factory=dict)  # name → tips
    texts: dict[str, list[str]] = field(default_factory=dict)  # name → all text drawn in the figure
    svg_labels: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    open_tags: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)  # id → its text

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._figure = ""
        self._section = ""
        self._small = False
        self._marked = False
        self._class = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._element(tag, {name: value or "" for name, value in attrs})
        if tag not in VOID:
            self.open_tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._element(tag, {name: value or "" for name, value in attrs})

    def _element(self, tag: str, attributes: dict[str, str]) -> None:
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.links += [attributes[key] for key in ("href", "src") if key in attributes]
        if tag == "section":
            self._section = attributes["id"]
            self.sections[self._section] = ""
        if tag == "svg" and "data-name" in attributes:
            self._figure = attributes["data-name"]
            self.figures[self._figure], self.texts[self._figure] = [], []
            self.svg_labels.append(attributes.get("aria-label", ""))
        if "data-tip" in attributes:
            self.figures[self._figure].append(attributes["data-tip"])
        if tag == "table":
            self.tables.append([])
            self.small.append([])
            self.marks.append([])
            self.captions.append("")
        if tag == "tr":
            self.tables[-1].append([])
            self.small[-1].append([])
            self.marks[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.small[-1][-1].append("")
            self.marks[-1][-1].append(attributes.get("class", ""))
            self._marked = attributes.get("class") == "best"
        if tag in ("span", "strong"):
            self._class = attributes.get("class", "")
        if tag == "small" or "spoken" in attributes.get("class", "") or "sign" in attributes.get("class", ""):
            self._small = True

    def handle_endtag(self, tag: str) -> None:
        if not self.open_tags or self.open_tags.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")
        if tag in ("small", "span"):
            self._small = False
        if tag == "section":
            self._section = ""

    def handle_data(self, data: str) -> None:
        if self._section in self.sections:
            self.sections[self._section] += data
        if self.open_tags[-1:] == ["small"]:
            self.small[-1][-1][-1] += data
        if "li" in self.open_tags[-2:-1] and self.open_tags[-1] in ("strong", "span") and not self._section:
            self.tiles.append((self._class or self.open_tags[-1], data))
        if "caption" in self.open_tags:
            self.captions[-1] += data
        if "text" in self.open_tags[-1:]:
            self.texts[self._figure].append(data)
        if any(tag in ("td", "th") for tag in self.open_tags[-3:]) and not self._small and data.strip():
            self.tables[-1][-1][-1] += data.strip()
            if self._marked:
                self.best.append(data.strip())


def unpacked(html: str) -> str:
    """The page with the single runs of a comparison opened."""

    def inside(found: re.Match[str]) -> str:
        return ">" + zlib.decompress(base64.b64decode(found[1])).decode()

    return re.sub(r' data-packed="([^"]+)">', inside, html)


def sections(html: str) -> dict[str, Page]:
    """Each section by itself, by its id."""
    found = re.findall(r'<section id="([^"]+)"[^>]*>(.*?)</section>', unpacked(html), re.DOTALL)
    return {name: taken_apart(inside) for name, inside in found}


def single_runs(html: str) -> list[Page]:
    """What a comparison says of each run alone, or the page of one run of it."""
    found = re.findall(r"<article[^>]*>(.*?)</article>", unpacked(html), re.DOTALL)
    return [taken_apart(inside) for inside in found]


def taken_apart(html: str) -> Page:
    page = Page()
    html = unpacked(html)
    page.feed(html)
    page.close()
    return page
