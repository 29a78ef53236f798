"""The page in a real browser: headless Chromium, where there is one."""

import base64
import json
import shutil
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_run import write_run

from uraenas import report

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver on the PATH"),
]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    methods = ("drnas", "uraenas-w", "uraenas-a", "uraenas", "deep-ensemble", "random-ensemble", "snapshot")
    source = write_run(folder / "a-run-with-a-long-name", methods=methods, members=4)
    path = folder / "report.html"
    path.write_text(report.build([source]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def browser(started: Any, page: Path) -> Any:
    """The page freshly opened, 1280 pixels wide, in light colours."""
    resize(started, 1280)
    prefer(started, "light")
    started.get(page.as_uri())
    started.execute_script("localStorage.clear()")
    started.get_log("performance")  # what the browser asked for by itself when it started
    started.get(page.as_uri())
    return started


def resize(driver: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def prefer(driver: Any, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def brightness(driver: Any) -> float:
    colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3


def test_no_error_and_no_request(browser: Any) -> None:
    browser.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in sent if not url.startswith(("file:", "data:", "blob:"))] == []


def test_every_section_shows_its_figure(browser: Any) -> None:
    for section in browser.find_elements(By.CSS_SELECTOR, "section"):
        if section.get_attribute("id") != "settings":
            figures = [f for f in section.find_elements(By.CSS_SELECTOR, ".figure svg") if f.is_displayed()]
            assert figures, section.get_attribute("id")
            assert all(figure.size["width"] > 200 and figure.size["height"] > 60 for figure in figures)


def test_no_text_is_cut_off(browser: Any) -> None:
    cut = browser.execute_script(
        """
        document.querySelectorAll('.option').forEach((option) => { option.hidden = false; });
        return [...document.querySelectorAll('.figure > svg')].flatMap((svg) => {
          const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
          return [...svg.querySelectorAll('text')].filter((text) => {
            const box = text.getBBox();
            return box.y < height && (box.x < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 3);
          }).map((text) => `${svg.dataset.name}: ${text.textContent}`);
        });
        """
    )
    assert cut == []


def test_hover_shows_values(browser: Any) -> None:
    for figure in ("size-nll-clean", "heat-accuracy-uraenas", "reliability-uraenas-raw", "concentration"):
        browser.execute_script(f"document.getElementById('{figure}').scrollIntoView({{block: 'center'}})")
        spot = browser.find_element(By.CSS_SELECTOR, f"#{figure} [data-tip]")
        time.sleep(0.3)  # scrolling hides what is shown, and is reported a moment later
        box = browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", spot)
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **place})
        tip = browser.find_element(By.ID, "tip")
        assert tip.is_displayed(), figure
        assert tip.text.split("\n")[0] in spot.get_attribute("data-tip")
        box = tip.rect
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1280


def test_keyboard_reads_values(browser: Any) -> None:
    svg = browser.find_element(By.CSS_SELECTOR, "#size-nll-clean svg")
    browser.execute_script("arguments[0].focus()", svg)
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    assert "1 member" in browser.find_element(By.ID, "said").get_attribute("textContent")
    assert browser.find_element(By.ID, "tip").is_displayed()
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not browser.find_element(By.ID, "tip").is_displayed()


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
    assert brightness(browser) < 60
    browser.find_element(By.ID, "theme").click()
    assert brightness(browser) > 200
    browser.get(page.as_uri())
    assert brightness(browser) > 200, "the choice is kept"


def test_phone_has_no_sideways_scroll(browser: Any, page: Path) -> None:
    resize(browser, 390)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    smallest = browser.execute_script(
        "const svg = document.querySelector('.figure > svg'); return svg.getBoundingClientRect().width / 360"
    )
    assert smallest > 0.9, "text in figures would be too small to read"


def test_figures_are_saved(browser: Any, tmp_path: Path) -> None:
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    prefer(browser, "dark")
    for button in browser.find_elements(By.CSS_SELECTOR, "#least-sure .tools button"):
        browser.execute_script("arguments[0].click()", button)
    files = [tmp_path / "least-sure.svg", tmp_path / "least-sure.png"]
    until = time.monotonic() + 20
    while not all(file.exists() for file in files) and time.monotonic() < until:
        time.sleep(0.1)
    tree = ElementTree.fromstring(files[0].read_text(encoding="utf-8"))
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert "class=" not in files[0].read_text(encoding="utf-8")
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert len(files[1].read_bytes()) > 5000


def test_prints(browser: Any) -> None:
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
