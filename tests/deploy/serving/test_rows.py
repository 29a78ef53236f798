"""The server of a table: rows as JSON, CSV and tensors say what predict says; the page has a form and takes a file."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import brightness, prefer, requests_sent, resize, violations

from uraenas import Run
from uraenas.data.tables import columns_of
from uraenas.data.tables.frame import checked
from uraenas.deploy.serving import Limits
from uraenas.deploy.serving.rows import RowsModel
from uraenas.deploy.serving.served import Output
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.table_rows import predict_rows

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
    for delimiter in ",;\t":
        body = text.replace(",", delimiter).encode()
        assert client("POST", "/api/predict", body, content_type="text/csv")[1] == found
    outputs = {one["name"]: one for one in infer(client, found["model"])["outputs"]}
    by_class = {"prediction_set", "probabilities"} if kind == "classes" else set()
    for name in outputs.keys() - by_class:
        assert outputs[name]["data"] == [row[name] for row in expected]
    assert outputs.keys() | {"row", "note"} == expected[0].keys()
    for name in by_class:
        classes = Run(table_runs[kind]).ensemble().classes
        own = [row[name] for row in expected]
        values = [one[k] if isinstance(one, dict) else k in one for one in own for k in classes]
        assert (outputs[name]["shape"], outputs[name]["data"]) == ([3, len(classes)], values)


def infer(client: Any, model: str, **asked: Any) -> Any:
    """What the Open Inference Protocol says of the rows, each column an input as the metadata describe it."""
    inputs = client("GET", f"/v2/models/{model}")[1]["inputs"]
    for one in inputs:
        numbers = one["datatype"] == "FP64"
        values = [row[one["name"]] for row in ROWS]
        one["data"] = [float(v) if numbers and v is not None else v for v in values]
    body = {"inputs": [{**one, "shape": [len(ROWS)]} for one in inputs], **asked}
    return client("POST", f"/v2/models/{model}/infer", json.dumps(body).encode())[1]


def test_the_protocol_describes_sets_and_intervals_and_gives_what_is_asked_for(
    client: Any, table_runs: dict[str, Path], kind: str
) -> None:
    ensemble, model = Run(table_runs[kind]).ensemble(), client("GET", "/api/model")[1]["model"]
    about = {one["name"]: one for one in client("GET", f"/v2/models/{model}")[1]["outputs"]}
    if kind == "classes":
        classes = list(ensemble.classes)
        assert about["probabilities"]["parameters"] == {"classes": classes}
        assert about["prediction_set"] == {
            "name": "prediction_set",
            "datatype": "BOOL",
            "shape": [-1, len(classes)],
            "parameters": {"classes": classes, "coverage": 0.5},
        }
    own = "price." if kind == "several" else ""
    if kind != "classes":
        low, high = (about[f"{own}{end}"]["parameters"] for end in ("low", "high"))
        assert low["coverage"] == high["coverage"] == 0.5
        assert low["endless"] == -high["endless"] < -1e300
    some = ["foreign", f"{own}predicted"]
    found = infer(client, model, outputs=[{"name": name} for name in some])["outputs"]
    assert [one["name"] for one in found] == some
    for wrong in ("foreign", [7], [{"name": "none"}], [{"name": []}]):
        assert f"outputs must be some of: {own}predicted" in infer(client, model, outputs=wrong)["error"]


def test_an_interval_without_end_has_a_number_in_a_tensor() -> None:
    output = Output("high", "FP64", facts={"endless": 9.0})
    assert output.tensor([{"high": None}, {"high": 1.5}])["data"] == [9.0, 1.5]


def test_about_itself(client: Any, kind: str) -> None:
    about = client("GET", "/api/model")[1]
    inputs = ["area", "town"] if kind == "several" else ["area", "rooms", "town"]
    assert [one["name"] for one in about["columns"]] == inputs
    assert about.get("targets") == (["price", "rooms"] if kind == "several" else None)
    assert about["undefined"] == {}
    assert (about["coverage"], "risk" in about) == (0.5, kind == "classes")
    if kind == "classes":  # too few rows to promise the risk
        assert (about["risk"], about["certainty"]) == (0.05, 0.0)
        assert 0 < about["confidence"] <= 1.1
    metrics = client("GET", "/metrics")[1]
    assert 'uraenas_batch_images_bucket{le="4096.0"}' in metrics  # a batch has up to 3,200 rows
    document = client("GET", "/openapi.json")[1]
    row = document["paths"]["/api/predict"]["post"]["requestBody"]["content"][JSON]["schema"]
    assert row["properties"]["rows"]["items"]["required"] == inputs


VAST = {**ROWS[0], "area": 1e60}  # no network gives a number for it
WRONG = {
    "no number comes out": (json.dumps({"rows": [VAST]}).encode(), JSON, 422, "no prediction: what members"),
    "of the second": (
        json.dumps({"rows": [ROWS[0], VAST]}).encode(),
        JSON,
        422,
        "number 2 of 2: no prediction",
    ),
    "no rows": (b'{"rows": 7}', JSON, 400, "expected"),
    "none": (b'{"rows": []}', JSON, 400, "1 to 200 rows"),
    "too many": (json.dumps({"rows": [ROWS[0]] * 201}).encode(), JSON, 400, "not 201"),
    "a column is missing": (b'{"rows": [{"area": 1, "rooms": 2}]}', JSON, 422, "'town' is missing"),
    "a text for a number": (b'{"rows": [{"area": "wide", "rooms": 1, "town": "a"}]}', JSON, 422, "'wide'"),
    "infinite": (b'{"rows": [{"area": 1e999, "rooms": 1, "town": "a"}]}', JSON, 422, "infinite"),
    "nested": (b'{"rows": [{"area": [1], "rooms": 1, "town": "a"}]}', JSON, 422, "numbers and texts"),
    "long": (
        json.dumps({"rows": [{**ROWS[0], "town": "a" * 1001}]}).encode(),
        JSON,
        422,
        "a text of column town",
    ),
    "CSV by another name": (b"area\n1", "application/x-www-form-urlencoded", 400, "Content-Type: text/csv"),
    "missing further down": (json.dumps({"rows": [ROWS[0], {"area": 1}]}).encode(), JSON, 422, "in row 2"),
    "no UTF-8": (b"area\n\xff", "text/csv", 400, "not in UTF-8"),
    "ragged": (b"area,rooms,town\n1,2,a\n1,2\n", "text/csv", 400, "line 3 has 2 values"),
    "named twice": (b"area,rooms,town,area\n1,2,a,9\n", "text/csv", 400, "two columns are called 'area'"),
    "only names": (b"area,rooms,town\n", "text/csv", 400, "no rows below"),
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


def test_numbers_and_truths_in_json_are_taken_for_the_texts_that_they_were_in_training(
    table_runs: dict[str, Path],
) -> None:
    columns = columns_of(checked({"code": np.array(["007", "A12"]), "ok": np.array(["TRUE", "FALSE"])}))
    ensemble = Run(table_runs["numbers"]).ensemble()
    reads = replace(ensemble, normalisation=replace(ensemble.normalisation, columns=columns))
    model = RowsModel("m", reads, Asked())
    rows = [{"code": 7, "ok": True}, {"code": "007", "ok": "TRUE"}, {"code": 10**400, "ok": None}]
    items, _ = model.request(json.dumps({"rows": rows}).encode(), JSON, 10)
    assert items[:2] == 2 * [{"code": "007", "ok": "TRUE"}]
    assert items[2]["ok"] == ""
