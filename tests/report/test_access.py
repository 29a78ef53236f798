"""The page for everyone: names for a screen reader, the keyboard alone, contrast in both colour schemes, and paper."""

import base64
import re
import time
from pathlib import Path
from typing import Any

import pytest
from browsing import awaited, brightness, open_page, prefer, violations

NEED_A_NAME = {"image", "button", "link", "radio", "region", "table", "group", "navigation"}

# Every text with its colour and all that is painted behind it, from the back to the front. In figures those are the
# filled shapes drawn before the text that hold its left end, its middle or its right end.
COLOURS = """
document.querySelectorAll('.option').forEach((option) => { option.hidden = false; });
const behind = (element) => {
  const found = [];
  for (let at = element; at; at = at.parentElement) found.unshift([getComputedStyle(at).backgroundColor, 1]);
  return found;
};
const inFigure = (text) => {
  const svg = text.closest('svg'), box = text.getBBox();
  const shapes = [...svg.querySelectorAll('rect, path, circle')].filter((shape) =>
    getComputedStyle(shape).fill !== 'none' && text.compareDocumentPosition(shape) & Node.DOCUMENT_POSITION_PRECEDING);
  return [0.02, 0.5, 0.98].map((share) => {
    const spot = new DOMPoint(box.x + share * box.width, box.y + box.height / 2);
    const under = shapes.filter((shape) => shape.isPointInFill(spot)).map((shape) => {
      const style = getComputedStyle(shape);
      return [style.fill, style.fillOpacity * style.opacity];
    });
    return { text: text.textContent, size: 0, colour: getComputedStyle(text).fill, behind: [...behind(svg), ...under],
      where: svg.dataset.name };
  });
};
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const parent = walk.currentNode.parentElement;
  if (!walk.currentNode.textContent.trim() || !parent.checkVisibility() || parent.closest('script')) continue;
  if (parent.closest('svg')) {
    const [, , , height] = parent.closest('svg').getAttribute('viewBox').split(' ').map(Number);
    if (parent.getBBox().y < height) found.push(...inFigure(parent)); // legends below are for saved copies
  } else {
    const style = getComputedStyle(parent);
    found.push({ text: parent.textContent, size: parseFloat(style.fontSize), colour: style.color,
      behind: behind(parent), where: parent.tagName });
  }
}
return found;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(started: Any, page_of_all_methods: Path, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5 to 1, or 3 to 1 for text of 24 pixels and more."""
    open_page(started, page_of_all_methods, scheme=scheme)
    texts = started.execute_script(COLOURS)
    assert len(texts) > 1000
    weak = {
        f"{one['where']}: {one['text'][:30]!r} {ratio:.2f}"
        for one in texts
        if (ratio := contrast(one["colour"], one["behind"])) < (3 if one["size"] >= 24 else 4.5)
    }
    assert weak == set()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_marks_have_contrast(started: Any, page_of_all_methods: Path, scheme: str) -> None:
    """WCAG 2.2, 1.4.11: at least 3 to 1 for what is needed to read a figure."""
    open_page(started, page_of_all_methods, scheme=scheme)
    colours = started.execute_script(
        """
        const paint = (kind, name) => [...document.querySelectorAll(`.figure ${kind}`)]
          .map((shape) => [kind, getComputedStyle(shape)[name]]);
        return [...paint('.line', 'stroke'), ...paint('.dot', 'fill'), ...paint('.fill', 'fill'),
          ...paint('.edge:not(.dead)', 'stroke'), ...paint('.node', 'stroke')];
        """
    )
    behind = started.execute_script("return [[getComputedStyle(document.body).backgroundColor, 1]]")
    kinds = {(kind, colour): contrast(colour, behind) for kind, colour in colours}
    assert len(kinds) > 15
    assert {place: ratio for place, ratio in kinds.items() if ratio < 3} == {}


def contrast(colour: str, behind: list[tuple[str, float]]) -> float:
    """The WCAG ratio of a colour to what is painted behind it."""
    back = (255.0, 255.0, 255.0)
    for paint, opacity in behind:
        back = over(paint, opacity, back)
    lights = sorted((luminance(back), luminance(over(colour, 1, back))))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def over(paint: str, opacity: float, back: tuple[float, ...]) -> tuple[float, ...]:
    *channels, alpha = [*map(float, re.findall(r"[\d.]+", paint)), 1.0][:4]
    alpha *= opacity
    return tuple(alpha * c + (1 - alpha) * b for c, b in zip(channels, back, strict=True))


def luminance(colour: tuple[float, ...]) -> float:
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("rgb(0, 0, 0)", [("rgb(255, 255, 255)", 1)]) == pytest.approx(21)
    assert contrast("rgb(118, 118, 118)", [("rgb(255, 255, 255)", 1)]) == pytest.approx(4.54, abs=0.01)
    assert contrast("rgb(0, 0, 0)", [("rgba(0, 0, 0, 0.5)", 0.5)]) == pytest.approx(11.45, abs=0.01)


OPEN = """
document.querySelectorAll('details.of-run').forEach((run, place) => { run.open = place === 0; });
"""


@pytest.mark.parametrize("kind", ["single", "compared", "partial"])
def test_axe_finds_nothing(started: Any, pages: dict[str, Path], kind: str) -> None:
    """By all rules; in dark colours by those about colours, the only ones that see a difference.

    Of runs that are compared the first is unfolded: the others' sections are made alike.
    """
    open_page(started, pages[kind])
    started.execute_script(OPEN)
    for _ in range(100):
        if not started.execute_script(
            "return document.querySelectorAll('details[open] [data-packed]').length"
        ):
            break
        time.sleep(0.1)
    assert violations(started) == []
    prefer(started, "dark")
    assert brightness(started) < 128
    assert violations(started, only="cat.color") == []


def test_everything_has_an_accessible_name(browser: Any) -> None:
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    seen = [node for node in nodes if not node["ignored"] and node["role"]["value"] in NEED_A_NAME]
    roles = {node["role"]["value"] for node in seen}
    assert {"image", "button", "link", "radio", "table", "navigation"} <= roles
    silent = [node for node in seen if not node.get("name", {}).get("value", "").strip()]
    assert [(node["role"]["value"], node.get("properties")) for node in silent] == []


def test_the_first_tab_skips_to_the_report(browser: Any) -> None:
    press(browser, "Tab")
    assert focused(browser) == "Skip to the report"
    press(browser, "Enter")
    assert browser.execute_script("return document.activeElement.id") == "content"


def test_focus_is_seen_wherever_the_keyboard_goes(browser: Any) -> None:
    """WCAG 2.4.7 over the whole page, figures and their buttons included."""
    stops = []
    while True:
        press(browser, "Tab")
        stop = browser.execute_script(
            """
            const at = document.activeElement;
            if (at === document.body) return null;
            const seen = at.matches('input') ? at.nextElementSibling : at;
            return [at.outerHTML.slice(0, 60), getComputedStyle(seen).outlineStyle !== 'none'];
            """
        )
        if stop is None:
            break
        stops.append(stop)
        assert len(stops) < 2000, "the keyboard is trapped"
    figures = browser.execute_script(
        "return [...document.querySelectorAll('.figure')].filter((f) => f.checkVisibility()).length"
    )
    assert sum("<svg" in name for name, _ in stops) == figures, "the keyboard stops once at every figure"
    assert not any("Save" in name for name, _ in stops)
    assert [name for name, seen in stops if not seen] == []


def test_arrow_keys_read_values(browser: Any) -> None:
    browser.execute_script("document.querySelector('#size-nll-clean svg').focus()")
    press(browser, "ArrowRight")
    said = "return document.getElementById('said').textContent"
    assert "1 member" in browser.execute_script(said)
    assert browser.execute_script("return document.getElementById('tip').checkVisibility()")
    press(browser, "ArrowRight")
    assert "2 members" in browser.execute_script(said)
    press(browser, "Escape")
    assert not browser.execute_script("return document.getElementById('tip').checkVisibility()")


def test_a_figure_is_saved_by_a_key(browser: Any, tmp_path: Path) -> None:
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    browser.execute_script("document.querySelector('#size-nll-clean svg').focus()")
    press(browser, "s")
    assert "Run: a-run-with-a-long-name" in awaited(tmp_path / "a-run-with-a-long-name-size-nll-clean.svg")


KEYS = {"s": 83, "Tab": 9, "Enter": 13, "Escape": 27, "ArrowRight": 39}


def press(driver: Any, key: str) -> None:
    code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
    text = {"text": "\r"} if key == "Enter" else {}
    driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyDown", **code, **text})
    driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyUp", **code})


def focused(driver: Any) -> str:
    return driver.execute_script("return document.activeElement.textContent")


def test_paper_is_light_and_bare(browser: Any, page: Path) -> None:
    open_page(browser, page, scheme="dark")
    prefer(browser, "dark", medium="print")
    assert brightness(browser) == 255
    gone = (
        "return ['.contents', 'header.bar', '.tools'].map((s) => document.querySelector(s).checkVisibility())"
    )
    assert browser.execute_script(gone) == [False, False, False]
    tables = "return [...document.querySelectorAll('#methods table')].map((t) => t.checkVisibility())"
    assert browser.execute_script(tables) == [True] * 4, "paper cannot switch between tables, so it has all"
    made = browser.execute_script("return document.querySelector('footer').innerText")
    assert re.search(r"Made \d{4}-\d\d-\d\d \d\d:\d\d by uraenas report ", made)
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27})["data"])
    assert printed.startswith(b"%PDF")
    assert 4 < len(re.findall(rb"/Type\s*/Page\b", printed)) < 40
