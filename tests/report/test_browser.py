"""The page in a real browser: what is seen, pointed at, chosen and saved."""

import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import (
    awaited,
    became,
    brightness,
    find_mark,
    open_page,
    prefer,
    requests_sent,
    shown_tip,
    visible_figures,
)
from made_up_run import MakeRun
from PIL import Image
from test_page import SECTIONS

from uraenas import report


def test_no_error_and_no_request(browser: Any) -> None:
    browser.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    assert browser.get_log("browser") == []
    sent = requests_sent(browser)
    assert any(url.endswith("report.html") for url in sent), "the log holds what is asked for"
    assert [url for url in sent if not url.startswith(("file:", "data:", "blob:"))] == []


def test_a_request_would_be_noticed(browser: Any) -> None:
    browser.execute_script("fetch('http://127.0.0.1:9/').catch(() => null)")
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


def test_every_section_shows_its_figure(browser: Any) -> None:
    shown = set(visible_figures(browser))
    sections = browser.execute_script("return [...document.querySelectorAll('section')].map((s) => s.id)")
    assert sections == [*SECTIONS, "settings"]
    for section in (name for name, figure in SECTIONS.items() if figure):
        inside = f"return [...document.querySelectorAll('#{section} .figure')].map((f) => f.id)"
        assert shown & set(browser.execute_script(inside)), section
    sizes = browser.execute_script(
        "return arguments[0].map((id) => document.querySelector(`#${id} svg`).getBoundingClientRect().toJSON())",
        sorted(shown),
    )
    assert all(size["width"] > 200 and size["height"] > 60 for size in sizes)


def test_the_page_of_a_trained_run_shows_all_figures(started: Any, finished_run: Path) -> None:
    open_page(started, finished_run / "report.html")
    assert started.get_log("browser") == []
    shown = set(visible_figures(started))
    assert {figure for figure in SECTIONS.values() if figure} - shown == {"reliability-uraenas-temperature"}
    assert {"expected", "entropy", "search-loss", "cells-uraenas"} <= shown


CUT_OFF = """
document.querySelectorAll('.option').forEach((option) => { option.hidden = false; });
return [...document.querySelectorAll('.figure > svg')].flatMap((svg) => {
  const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  return [...svg.querySelectorAll('text')].filter((text) => {
    const box = text.getBBox();
    return box.y < height && (box.x < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 3);
  }).map((text) => `${svg.dataset.name}: ${text.textContent}`);
});
"""
# Words in a figure that lie on others, or so close that they read as one; and those that a curve runs through.
COLLISIONS = """
const boxes = (kind) => [...document.querySelectorAll(`#${arguments[0]} ${kind}`)]
  .map((shape) => [shape.textContent || shape.getAttribute('d'), shape.getBBox()]);
const near = (p, q, air) => p.x < q.x + q.width + air && q.x < p.x + p.width + air
  && p.y + 2 < q.y + q.height && q.y + 2 < p.y + p.height;
const words = boxes('text'), curves = arguments[1] ? boxes(arguments[1]) : [];
return words.flatMap(([a, p], k) => [
  ...words.slice(k + 1).filter(([, q]) => near(p, q, 3)), ...curves.filter(([, q]) => near(p, q, 0)),
].map(([b]) => `${a} / ${b}`));
"""


def test_no_text_is_cut_off(started: Any, page_of_all_methods: Path) -> None:
    open_page(started, page_of_all_methods)
    assert started.execute_script(CUT_OFF) == []


def test_a_comparison_opens_its_runs(started: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    """Single runs are unpacked when opened; names of saved figures and what stands in them tell runs apart."""
    open_page(started, pages["compared"])
    assert started.get_log("browser") == []
    before = len(visible_figures(started))
    assert started.execute_script(CUT_OFF) == []
    started.execute_script("location.hash = '#run2-shift'")
    for _ in range(100):
        if "run2-severity-ece-raw" in visible_figures(started):
            break
        time.sleep(0.1)
    started.execute_script(
        "document.querySelectorAll('details.of-run').forEach((run) => { run.open = true; })"
    )
    for _ in range(100):
        if started.execute_script("return !document.querySelector('[data-packed]') "):
            break
        time.sleep(0.1)
    time.sleep(0.3)
    assert len(visible_figures(started)) > before + 60
    assert started.execute_script(CUT_OFF) == []
    started.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    for figure, name in (("runs-NLL", "comparison-runs-NLL"), ("run2-size-nll-clean", "b-size-nll-clean")):
        started.execute_script(f"document.querySelector('#{figure} .tools button').click()")
        drawing = awaited(tmp_path / f"{name}.svg")
        assert ("Runs: a, b, c" if figure == "runs-NLL" else "Run: b") in drawing
        assert "n = " in drawing
    assert "a, b" in (tmp_path / "comparison-runs-NLL.svg").read_text(encoding="utf-8"), "the legend is saved"
    titles = "return [...document.querySelectorAll('.figure')].map((f) => f.id)"
    ids = started.execute_script(titles)
    assert len(ids) == len(set(ids))


BROKEN_HEADERS = """
const lines = (cell) => {
  const words = document.createRange();
  words.selectNodeContents(cell);
  return words.getClientRects().length;
};
const shown = [...document.querySelectorAll('thead th')].filter((cell) => cell.getBoundingClientRect().width);
const broken = shown.filter((cell) => cell.textContent.length <= 12 && lines(cell) > 1);
return [shown.length, broken.map((cell) => cell.textContent)];
"""


@pytest.mark.parametrize("width", [1440, 390])
def test_short_words_above_a_column_stay_on_a_line(started: Any, pages: dict[str, Path], width: int) -> None:
    open_page(started, pages["compared"], width)
    shown, broken = started.execute_script(BROKEN_HEADERS)
    assert shown > 20
    assert broken == []


# Of every table that can be seen: its box, what stays while the rest scrolls, and the widest cell that scrolls.
STAYING = """
document.querySelectorAll('.option').forEach((option) => { option.hidden = false; });
const width = (cell) => cell.getBoundingClientRect().width;
return [...document.querySelectorAll('.scroll')].filter((box) => box.checkVisibility()).map((box) =>
  [box.clientWidth, Math.max(...[...box.querySelectorAll('th:first-child')].map(width)),
   Math.max(...[...box.querySelectorAll('td')].map(width)), width(box.querySelector('caption span'))]);
"""


@pytest.fixture
def page_of_long_names(make_run: MakeRun, tmp_path: Path) -> Path:
    names = ("a-run-with-a-rather-long-name", "another_run_whose_name_does_not_end")
    page = tmp_path / "report.html"
    page.write_text(report.build([make_run(name, seed=seed) for seed, name in enumerate(names)]))
    return page


# Words of legends, which lie below a figure until it is saved, that do not end within its width.
TOO_LONG = """
return [...document.querySelectorAll('.figure > svg')].flatMap((svg) => {
  const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  return [...svg.querySelectorAll('text')].filter((text) => {
    const box = text.getBBox();
    return box.y >= height && box.x + box.width > width;
  }).map((text) => `${svg.dataset.name}: ${text.textContent}`);
});
"""


def test_saved_legends_of_long_names_are_whole(started: Any, page_of_long_names: Path) -> None:
    open_page(started, page_of_long_names)
    assert started.execute_script(TOO_LONG) == []


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_names_of_lines_leave_more_than_half_of_a_table_to_its_values(
    started: Any, page_of_long_names: Path, width: int
) -> None:
    open_page(started, page_of_long_names, width)
    tables = started.execute_script(STAYING)
    assert len(tables) > 6
    for box, staying, cell, caption in tables:
        assert staying < box / 2
        assert cell <= box - staying, "a value is not hidden behind the names"
        assert caption < box + 1


def test_a_partial_page_looks_again(started: Any, pages: dict[str, Path]) -> None:
    open_page(started, pages["partial"])
    assert started.get_log("browser") == []
    assert {"loss-sampled-sghmc", "entropy"} <= set(visible_figures(started))
    text = started.execute_script("return document.body.textContent")
    for words in ("train, running", "50 %", "mean loss 1.234", "Time left", "20 s"):
        assert words in text
    assert started.execute_script("return document.body.dataset.refresh") == "10"


def test_a_run_of_another_space_can_be_read(started: Any, make_own_run: MakeRun, five_nodes: str) -> None:
    open_page(started, report.write(*make_own_run(space=five_nodes)))
    assert started.execute_script(CUT_OFF) == []
    for figure in ("favour", "expected", "entropy"):
        assert started.execute_script(COLLISIONS, figure, "") == [], figure
    assert started.execute_script(COLLISIONS, "cells-uraenas", ".edge") == []


def test_every_figure_tells_its_values_when_pointed_at(browser: Any) -> None:
    for figure in visible_figures(browser):
        mark = find_mark(browser, figure)
        assert mark is not None, figure
        place = {"x": mark["x"], "y": mark["y"]}
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **place})
        assert shown_tip(browser) == without_colours(mark["tip"]), figure
        box = browser.execute_script("return document.getElementById('tip').getBoundingClientRect().toJSON()")
        assert box["left"] >= 0, figure
        assert box["right"] <= 1280, figure


def without_colours(tip: str) -> str:
    return "\n".join(line.partition("}")[2] if line.startswith("{") else line for line in tip.split("\n"))


def test_a_tap_tells_values_on_a_phone(browser: Any, page: Path) -> None:
    open_page(browser, page, width=390)
    mark = find_mark(browser, "size-nll-clean")
    assert mark is not None
    touch = {"type": "touchStart", "touchPoints": [{"x": mark["x"], "y": mark["y"]}]}
    browser.execute_cdp_cmd("Input.dispatchTouchEvent", touch)
    assert shown_tip(browser) == without_colours(mark["tip"])
    browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_choice_and_focus(browser: Any) -> None:
    shown = "return document.querySelector('#severity-ece-temperature').checkVisibility()"
    assert browser.execute_script(shown) is False
    browser.execute_script("document.querySelectorAll('#shift input')[1].click()")
    assert browser.execute_script(shown) is True
    browser.execute_script("document.querySelector('[data-focus=uraenas]').click()")
    dimmed = "return document.querySelector('#size-nll-clean [data-method=\"%s\"]').classList.contains('dim')"
    assert browser.execute_script(dimmed % "deep-ensemble") is True
    assert browser.execute_script(dimmed % "uraenas") is False


def test_dark_by_system_and_by_hand(browser: Any, page: Path) -> None:
    assert brightness(browser) > 200
    prefer(browser, "dark")
    assert became(lambda: brightness(browser) < 60)
    browser.execute_script("document.getElementById('theme').click()")
    assert became(lambda: brightness(browser) > 200)
    browser.get(page.as_uri())
    assert became(lambda: brightness(browser) > 200), "the choice is kept"


@pytest.mark.parametrize("width", [320, 390])
def test_phone_has_no_sideways_scroll(browser: Any, page: Path, width: int) -> None:
    open_page(browser, page, width)
    browser.execute_script("document.querySelectorAll('.option').forEach((o) => { o.hidden = false; })")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('.figure')].map((s) => s.getBoundingClientRect().toJSON())"
    )
    assert all(box["left"] >= 0 and box["right"] <= width for box in boxes)
    hint = browser.execute_script(
        "return getComputedStyle(document.querySelector('#methods .scroll'), '::before').content"
    )
    assert "Scrolls sideways" in hint


PLACES = """
const box = (shape) => { const b = shape.getBoundingClientRect(); return [b.top, b.bottom, b.width]; };
return [...document.querySelectorAll('.figure')].filter((f) => f.checkVisibility()).map((f) =>
  [box(f.querySelector('svg')), box(f.querySelector('.tools')),
   [...f.querySelectorAll('button, [tabindex]')].filter((stop) => stop.tabIndex >= 0).length]);
"""


@pytest.mark.parametrize("width", [390, 1440])
def test_a_figure_is_wide_one_stop_of_the_keyboard_and_its_buttons_lie_beneath(
    browser: Any, page: Path, width: int
) -> None:
    open_page(browser, page, width)
    found = browser.execute_script(PLACES)
    assert len(found) > 20
    assert all(buttons[0] >= drawing[1] for drawing, buttons, _ in found)
    assert {stops for *_, stops in found} == {1}
    assert all(drawing[2] >= 344 for drawing, *_ in found), "so that 12 pixels are 12"


# Of all that can be seen, in figures as they are scaled.
SMALLEST = """
const shown = [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility()
  && !e.closest('.spoken, noscript') && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
return shown.map((e) => {
  const svg = e.closest('.figure > svg');
  const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  return [parseFloat(getComputedStyle(e).fontSize) * scale, e.textContent];
}).sort((a, b) => a[0] - b[0])[0];
"""


@pytest.mark.parametrize("width", [320, 390, 1024, 1440])
def test_text_has_at_least_twelve_pixels(browser: Any, page: Path, width: int) -> None:
    open_page(browser, page, width)
    smallest, words = browser.execute_script(SMALLEST)
    assert smallest >= 12, words


@pytest.mark.parametrize("figure", ["least-sure", "size-nll-clean", "heat-accuracy-uraenas"])
def test_figures_are_saved(browser: Any, tmp_path: Path, figure: str) -> None:
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    prefer(browser, "dark")
    browser.execute_script(f"document.querySelectorAll('#{figure} .tools button').forEach((b) => b.click())")
    files = [tmp_path / f"a-run-with-a-long-name-{figure}.{kind}" for kind in ("svg", "png")]
    drawing = awaited(*files)
    assert "Run: a-run-with-a-long-name" in drawing
    tree = ElementTree.fromstring(drawing)
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert "class=" not in drawing
    assert "light-dark" not in drawing
    with Image.open(files[1]) as picture:
        assert picture.size == (3 * int(tree.get("width", "0")), 3 * int(tree.get("height", "0")))
        pixels = np.asarray(picture.convert("L"))
    assert pixels[0].min() == 255, "light paper, though the page is dark"
    assert (pixels < 100).sum() > 500, "ink on it"
