"""Headless Chromium for the tests: where it is found, how it is started, and what is asked of a page in it."""

import importlib.util
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def start_chromium(profile: Path) -> Any:
    """A driven browser; the test is skipped, and says why, where there is none."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="needs selenium: pip install 'uraenas[test]'"
    )
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    browser = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver") or shutil.which("chromedriver", path="/usr/lib/chromium-browser")
    if not (browser and driver):
        missing = "a Chromium" if not browser else "its chromedriver"
        pytest.skip(f"{missing} is not on the PATH: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


LAID_OUT = """
return document.readyState === 'complete' &&
  [...document.querySelectorAll('.figure')].every((f) => f.closest('[hidden]') || f.getBoundingClientRect().width > 0);
"""


def open_page(driver: Any, page: Path, width: int = 1280, scheme: str = "light") -> None:
    """The page as someone sees it who opens it for the first time; logs begin here."""
    resize(driver, width)
    prefer(driver, scheme)
    driver.get(page.as_uri())
    driver.execute_script("localStorage.clear()")
    driver.get_log("performance")  # what the browser asked for by itself when it started
    driver.get(page.as_uri())
    # A busy browser has laid out less than the whole page at first.
    for wait in (0.0, 0.2, 0.5, 1.0, 2.0, 4.0):
        time.sleep(wait)
        if driver.execute_script(LAID_OUT):
            return
    driver.get(page.as_uri())


def resize(driver: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": width < 500})


def prefer(driver: Any, scheme: str, medium: str = "screen") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})
    # The command answers before the page has heard of it, which shows on a busy machine.
    query = f"{medium} and (prefers-color-scheme: {scheme})"
    became(lambda: driver.execute_script("return matchMedia(arguments[0]).matches", query))


def became(holds: Callable[[], bool]) -> bool:
    """Whether this comes to hold within half a minute."""
    for _ in range(300):
        if holds():
            return True
        time.sleep(0.1)
    return False


def brightness(driver: Any) -> float:
    """Of the page behind everything, 0 … 255."""
    colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3


def requests_sent(driver: Any) -> list[str]:
    """Every address that was asked for since the page was opened."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def visible_figures(driver: Any) -> list[str]:
    return driver.execute_script(
        "return [...document.querySelectorAll('.figure')].filter((f) => f.checkVisibility()).map((f) => f.id)"
    )


# Some mark may lie behind another, so a place is taken at which pointing reaches one; scrolling is let come to rest.
FIND_MARK = """
const [id, done] = arguments;
const svg = document.getElementById(id).querySelector('svg');
svg.scrollIntoView({ block: 'center' });
requestAnimationFrame(() => requestAnimationFrame(() => {
  const box = svg.getBoundingClientRect();
  const at = (x, y) => document.elementFromPoint(x, y)?.closest('[data-tip]');
  for (let y = Math.max(box.top, 60) + 3; y < Math.min(box.bottom, innerHeight); y += 5)
    for (let x = box.left + 3; x < box.right; x += 5) {
      const mark = at(x, y);  // not on its very edge, where a pointer may miss it
      if (mark && svg.contains(mark) && at(x - 1, y - 1) === mark && at(x + 1, y + 1) === mark)
        return done({ x, y, tip: mark.dataset.tip });
    }
  done(null);
}));
"""


def find_mark(driver: Any, figure: str) -> dict[str, Any] | None:
    """A place {x, y} in this figure that tells something when pointed at, and what it should tell."""
    return driver.execute_async_script(FIND_MARK, figure)


def shown_tip(driver: Any) -> str | None:
    """The values that are shown at the moment, in the form of data-tip without its colours."""
    return driver.execute_script(
        """
        const tip = document.getElementById('tip');
        const words = (row) => [...row.children].map((part) => part.textContent).join('\\t');
        return tip.checkVisibility() ? [...tip.children].map(words).join('\\n') : null;
        """
    )


def awaited(*files: Path) -> str:
    """The text of the first of these files, when all have been saved."""
    for _ in range(300):
        if all(file.exists() for file in files):
            return files[0].read_text(encoding="utf-8")
        time.sleep(0.1)
    raise AssertionError(f"saved instead: {sorted(path.name for path in files[0].parent.iterdir())}")


AXE = """
const [choice, done] = arguments;
axe.run(document, { resultTypes: ['violations'], ...choice }).then((found) => done(found.violations.map((one) =>
  `${one.id}: ${one.help} (${one.nodes.length}) ${one.nodes[0].html.slice(0, 160)}`)));
"""


def violations(driver: Any, only: str = "") -> list[str]:
    """What axe-core finds on the open page, by all its rules, best practices included, or by those of one tag."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs axe-core: pip install --no-deps axe-playwright-python==0.1.8")
    script = Path(found.submodule_search_locations[0]) / "axe.min.js"
    driver.set_script_timeout(120)
    driver.execute_script(script.read_text(encoding="utf-8"))
    told: list[str] = driver.execute_async_script(AXE, {"runOnly": [only]} if only else {})
    return told
