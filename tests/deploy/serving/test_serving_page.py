"""The page in a real browser: chosen, dropped and pasted images, a camera's picture, phone width, dark, labels."""

import base64
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import became, brightness, prefer, requests_sent, resize, violations
from PIL import Image
from sklearn.datasets import load_digits, load_sample_image

from uraenas.deploy.serving import Limits
from uraenas.deploy.serving.running import following
from uraenas.report import build_partial, partial
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline

DIGITS = np.uint8(load_digits().images * 255 / 16)

# A file made in the page from base64, and an event that carries it.
GIVE = """
const [kind, data] = arguments;
const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
const transfer = new DataTransfer();
transfer.items.add(new File([bytes], kind + '.png', { type: 'image/png' }));
const event = new Event(kind, { bubbles: true, cancelable: true });
event[kind === 'drop' ? 'dataTransfer' : 'clipboardData'] = transfer;
dispatchEvent(event);
"""
OVERFLOW = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
UNNAMED = """
return [...document.querySelectorAll('input, img')]
  .filter((e) => !(e.tagName === 'IMG' ? e.alt : e.labels.length)).length
"""

HEADING = "return document.querySelector('h1')?.innerText"


@pytest.fixture
def page(browser: Any, client: Any) -> Any:
    resize(browser, 1280)
    prefer(browser, "light")
    browser.get(f"http://127.0.0.1:{client.port}/")
    return browser


def results(page: Any, count: int) -> list[str]:
    """What is said of so many images, once it is said."""
    items = "[...document.querySelectorAll('#results li')]"
    done = f"return {items}.filter((item) => item.querySelector('p')).map((item) => item.innerText)"
    for _ in range(600):
        found = page.execute_script(done)
        if len(found) >= count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{len(found)} of {count} images were predicted: {found}")


def write(path: Path, image: np.ndarray) -> str:
    Image.fromarray(image).save(path)
    return str(path)


def test_ten_images_at_once_and_a_foreign_one(page: Any, tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.png", DIGITS[n]) for n in range(10)]
    files.append(write(tmp_path / "blank.png", np.zeros((8, 8), np.uint8)))
    page.find_element("id", "files").send_keys("\n".join(files))
    found = results(page, 11)
    assert sum("Not the kind of image I know" in words for words in found) == 1
    for words in found:
        assert all(
            name in words for name in ("May be", "Votes", "Uncertainty", "from architecture", "p-value")
        )
        assert "from weights\nnot defined" in words  # no two members share an architecture
    assert page.find_element("id", "status").text == "11 images predicted"
    assert page.execute_script(UNNAMED) == 0
    assert not [
        entry
        for entry in page.get_log("browser")
        if entry["level"] == "SEVERE" and "favicon" not in entry["message"]
    ]


HEAR = """
globalThis.heard = [];
new MutationObserver(() => heard.push(document.getElementById('status').textContent))
  .observe(document.getElementById('status'), { childList: true });
"""


def test_how_far_it_is_is_told_to_those_who_listen(page: Any, tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.png", DIGITS[n]) for n in range(3)]
    (tmp_path / "none.png").write_bytes(b"nothing")
    page.execute_script(HEAR)
    page.find_element("id", "files").send_keys("\n".join([*files, str(tmp_path / "none.png")]))
    results(page, 4)
    steps = [f"{done} of 4 images predicted …" for done in (1, 2, 3)]
    assert page.execute_script("return heard") == [
        "Predicting 4 images …",
        *steps,
        "3 images predicted, 1 not",
    ]
    page.find_element("id", "files").send_keys(files[0])
    assert became(lambda: page.find_element("id", "status").text == "1 image predicted")
    assert page.find_element("id", "status").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_an_image_is_dropped_or_pasted(page: Any, tmp_path: Path, kind: str) -> None:
    data = base64.b64encode(Path(write(tmp_path / "one.png", DIGITS[3])).read_bytes()).decode()
    page.execute_script(GIVE, kind, data)
    assert "%" in results(page, 1)[0]


def test_a_picture_is_sent_as_it_is(page: Any, client: Any, tmp_path: Path) -> None:
    """So that the page says the same as a request with the file."""
    photo = tmp_path / "photo.jpg"
    Image.fromarray(load_sample_image("flower.jpg")).resize((1800, 1200)).save(photo, quality=60)
    assert photo.stat().st_size < 200_000
    page.find_element("id", "files").send_keys(str(photo))
    (words,) = results(page, 1)
    (row,) = client("POST", "/api/predict", photo.read_bytes())[1]["predictions"]
    assert f"{row['label']}, {100 * row['probability']:.1f} %" in words
    assert "resized from 1800×1200" in words


def test_a_cameras_picture_that_is_too_large_is_made_smaller_before_it_is_sent(
    page: Any, serve: Callable[..., Any], finished_run: Path, tmp_path: Path
) -> None:
    """The page says nearly the same as the server says of the file, where it takes so large a one."""
    image = Image.fromarray(load_sample_image("flower.jpg")).resize((3000, 2000))
    photo = Path(write(tmp_path / "photo.bmp", np.asarray(image)))
    assert photo.stat().st_size > 15e6
    with serve(finished_run, Limits(megabytes=5)) as client:
        page.get(f"http://127.0.0.1:{client.port}/")
        assert became(lambda: "members tell apart" in page.find_element("id", "about").text)
        page.find_element("id", "files").send_keys(str(photo))
        (words,) = results(page, 1)
        assert client("POST", "/api/predict", photo.read_bytes())[0] == 413
    with serve(finished_run, Limits(megabytes=50)) as client:
        (row,) = client("POST", "/api/predict", photo.read_bytes())[1]["predictions"]
    assert "resized from 1600×1067" in words
    said = re.search(rf"{row['label']}, ([0-9.]+) %", words)
    assert said
    assert abs(float(said[1]) / 100 - row["probability"]) < 0.01


def test_it_is_made_as_small_as_the_server_takes_it(page: Any, tmp_path: Path) -> None:
    """The server takes 0.2 MB here."""
    shades = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    assert became(lambda: "members tell apart" in page.find_element("id", "about").text)
    page.find_element("id", "files").send_keys(write(tmp_path / "photo.bmp", shades))
    assert "resized from 200×150" in results(page, 1)[0]


def test_what_is_no_image_is_told(page: Any, tmp_path: Path) -> None:
    (tmp_path / "none.png").write_bytes(b"nothing")
    page.find_element("id", "files").send_keys(str(tmp_path / "none.png"))
    assert "this cannot be read as an image" in results(page, 1)[0]


def test_phone_width_dark_and_keyboard(page: Any, tmp_path: Path) -> None:
    resize(page, 360)
    prefer(page, "dark")
    assert brightness(page) < 60
    page.find_element("id", "files").send_keys(
        write(tmp_path / "a-rather-long-name-of-a-file.png", DIGITS[1])
    )
    results(page, 1)
    assert not page.execute_script(OVERFLOW)
    page.execute_script("document.activeElement.blur()")
    from selenium.webdriver import ActionChains, Keys

    ActionChains(page).send_keys(Keys.TAB).perform()
    assert page.execute_script("return document.activeElement.id") in ("files", "token")


def test_axe_finds_nothing(page: Any, tmp_path: Path) -> None:
    """On the empty page, and with an answer, a foreign image and an error, in light and in dark colours."""
    found = violations(page)
    (tmp_path / "none.png").write_bytes(b"nothing")
    pictures = {"one.png": DIGITS[3], "blank.png": np.zeros((8, 8), np.uint8)}
    files = [write(tmp_path / name, image) for name, image in pictures.items()]
    page.find_element("id", "files").send_keys("\n".join([*files, str(tmp_path / "none.png")]))
    results(page, 3)
    for scheme in ("light", "dark"):
        prefer(page, scheme)
        found += violations(page)
    assert found == []


def test_no_request_leaves_the_machine(page: Any, client: Any) -> None:
    page.get_log("performance")
    page.get(f"http://127.0.0.1:{client.port}/")
    sent = [address for address in requests_sent(page) if not address.startswith(("data:", "blob:"))]
    assert sent
    assert all(address.startswith(f"http://127.0.0.1:{client.port}/") for address in sent)


def test_a_token_is_asked_for_where_it_is_needed(
    page: Any, serve: Callable[..., Any], finished_run: Path
) -> None:
    def knows_its_model() -> bool:
        return "members tell apart" in page.find_element("id", "about").text

    def asks() -> bool:
        return page.find_element("id", "asks").is_displayed()

    assert became(knows_its_model)
    assert not asks()
    with serve(finished_run, Limits(token="secret")) as client:
        page.get(f"http://127.0.0.1:{client.port}/")
        assert became(asks)
        page.find_element("id", "token").send_keys("secret\n")
        assert became(knows_its_model)


def test_a_run_is_watched_while_it_trains_and_predicts_when_it_is_over(
    browser: Any, answer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tab shows the search, the chains, and at last the page to drop images on; nobody reloads it.

    There is a token, which the browser sends with each of these once it was given.
    """
    monkeypatch.setattr(partial, "REFRESH", 1)
    seen: dict[str, list[str]] = {}
    wanted = {"search": {"favour", "search-loss"}, "train": {"favour", "loss-sampled-sghmc"}}

    def shown() -> list[str]:
        return browser.execute_script(
            "return [...document.querySelectorAll('.figure, .tiles li')].map((f) => f.id || f.innerText)"
        )

    def look(stage: str, done: float, total: float, left: float | None = None, found: str = "") -> None:
        if stage in wanted and done == total and stage not in seen:
            assert became(lambda: wanted[stage] <= set(shown()))
            seen[stage] = shown()

    changes = {
        "data.limit": 60,
        "evaluate.suite": "none",
        "methods": "uraenas",
        "engine.checkpoint_seconds": 0,
    }
    pipeline = Pipeline.start(tmp_path / "run", preset("tiny", changes), look)
    run = pipeline.run
    with run.held():
        run.tell_progress({"stage": "search", "found": "", "done": 0, "total": 1})
        asked = Limits(token="secret")
        with answer(following(run, lambda: build_partial(run, again=True), limits=asked)) as client:
            browser.get(f"http://me:secret@127.0.0.1:{client.port}/")
            browser.get(f"http://127.0.0.1:{client.port}/")
            pipeline.train(pipeline.search())
            run.remove("progress.json")  # as when the run is over
            assert became(lambda: browser.execute_script(HEADING) == "What is in this image?")
            assert became(lambda: "members tell apart" in browser.find_element("id", "about").text)
            assert not browser.find_element("id", "asks").is_displayed()
    assert {"favour", "expected", "entropy", "search-loss"} <= set(seen["search"])
    assert {"favour", "loss-sampled-sghmc"} <= set(seen["train"])
    assert any(tile.startswith("train, running") for tile in seen["train"])
    assert any(tile.startswith("Members") and "of 2 chains are trained" in tile for tile in seen["train"])
