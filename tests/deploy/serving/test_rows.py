"""The server of a table: rows as JSON, CSV and tensors say what predict says; the page has a form and takes a file."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import brightness, prefer, requests_sent, resize, violations

from uraenas import Run
from uraenas.deploy.serving import Limits
from uraenas.ensemble.table_rows import Asked, predict_rows

ROWS = [
    {"area": 50, "rooms": 2, "town": "a"},
    {"area": "150.5", "rooms": None, "town": "never seen"},
    {"area": 90, "rooms": 4, "town": ""},
]
JSON = "application/json"


@pytest.fixture(scope="module", params=["numbers", "classes", "several"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def client(serve: Callable[..., Any], table_runs: dict[str, Path], kind: str) -> Iterator[Any]:
    with serve(table_runs[kind], Limits(images=2), coverage=0.5) as found:
        yield found


def test_rows_as_json_csv_and_tensors_say_what_predict_says(
    client: Any, table_runs: dict[str, Path], kind: str
) -> None:
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    expected = json.loads(
        json.dumps(predict_rows(Run(table_runs[kind]).ensemble(), columns, Asked(coverage=0.5)))
    )
    status, found = client("POST", "/api/predict", json.dumps({"rows": ROWS}).encode(), content_type=JSON)
    assert (status, found["predictions"]) == (200, expected)
    text = "area,rooms,town,other\n50,2,a,x\n150.5,,never seen,x\n90,4,,x\n"
    assert client("POST", "/api/predict", text.encode(), content_type="text/csv")[1] == found
    about = client("GET", f"/v2/models/{found['model']}")[1]
    inputs = [{**one, "shape": [3], "data": columns[one["name"]]} for one in about["inputs"]]
    inputs[0]["data"] = [50, 150.5, 90]
    path = f"/v2/models/{found['model']}/infer"
    outputs = client("POST", path, json.dumps({"inputs": inputs}).encode())[1]["outputs"]
    assert {one["name"]: one["data"] for one in outputs} == {
        one["name"]: [row[one["name"]] for row in expected] for one in about["outputs"]
    }


def test_about_itself(client: Any, kind: str) -> None:
    about = client("GET", "/api/model")[1]
    inputs = ["area", "town"] if kind == "several" else ["area", "rooms", "town"]
    assert [one["name"] for one in about["columns"]] == inputs
    assert about.get("targets") == (["price", "rooms"] if kind == "several" else None)
    assert (about["coverage"], "risk" in about) == (0.5, kind == "classes")
    document = client("GET", "/openapi.json")[1]
    row = document["paths"]["/api/predict"]["post"]["requestBody"]["content"][JSON]["schema"]
    assert row["properties"]["rows"]["items"]["required"] == inputs


WRONG = {
    "no rows": (b'{"rows": 7}', JSON, 400, "expected"),
    "none": (b'{"rows": []}', JSON, 400, "1 to 200 rows"),
    "too many": (json.dumps({"rows": [ROWS[0]] * 201}).encode(), JSON, 400, "not 201"),
    "a column is missing": (b'{"rows": [{"area": 1, "rooms": 2}]}', JSON, 422, "'town' is missing"),
    "a text for a number": (b'{"rows": [{"area": "wide", "rooms": 1, "town": "a"}]}', JSON, 422, "'wide'"),
    "infinite": (b'{"rows": [{"area": 1e999, "rooms": 1, "town": "a"}]}', JSON, 422, "infinite"),
    "nested": (b'{"rows": [{"area": [1], "rooms": 1, "town": "a"}]}', JSON, 422, "numbers and texts"),
    "no UTF-8": (b"area\n\xff", "text/csv", 400, "no CSV"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_gets_one_line(client: Any, name: str) -> None:
    body, content, expected, words = WRONG[name]
    status, found = client("POST", "/api/predict", body, content_type=content)
    assert (status, list(found)) == (expected, ["error"])
    assert words in found["error"]
    assert "\n" not in found["error"]


def shown(page: Any) -> str:
    """The predictions once they are there."""
    for _ in range(300):
        if "predicted" in page.find_element("id", "status").text:
            return page.find_element("id", "results").text
        time.sleep(0.1)
    raise AssertionError(page.find_element("id", "status").text)


def test_the_page_has_a_form_and_takes_a_file(client: Any, kind: str, browser: Any, tmp_path: Path) -> None:
    """By keyboard, at phone width and in the dark; axe finds nothing, and no request leaves the machine."""
    resize(browser, 360)
    prefer(browser, "dark")
    browser.get_log("performance")
    browser.get(f"http://127.0.0.1:{client.port}/")
    assert brightness(browser) < 60
    town = "column1" if kind == "several" else "column2"
    for _ in range(300):
        if browser.find_elements("id", town):
            break
        time.sleep(0.1)
    browser.find_element("id", "column0").send_keys("50")
    browser.find_element("id", town).send_keys("nowhere\n")
    said = shown(browser)
    assert "never seen in training: town = nowhere" in said
    assert ("1 price " in said and "rooms" in said) == (kind == "several")
    file = tmp_path / "new.csv"
    file.write_text("area,rooms,town\n50,2,a\n150,,b\n")
    browser.execute_script("document.getElementById('status').textContent = ''")
    browser.find_element("id", "file").send_keys(str(file))
    assert len(shown(browser).splitlines()) >= 3
    assert "2 rows predicted" in browser.find_element("id", "status").text
    wide = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not browser.execute_script(wide)
    assert violations(browser) == []
    sent = [address for address in requests_sent(browser) if not address.startswith("data:")]
    assert all(address.startswith(f"http://127.0.0.1:{client.port}/") for address in sent)
