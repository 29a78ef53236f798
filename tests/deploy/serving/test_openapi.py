"""The OpenAPI document and its page: all that the server answers is in them, and nothing else."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import prefer, requests_sent, resize, violations

from uraenas import Run
from uraenas.deploy.serving import Limits
from uraenas.deploy.serving.limits import OPEN
from uraenas.deploy.serving.running import application

ROW = {"area": 50, "rooms": 2, "town": "a"}


@pytest.fixture(scope="module", params=["images", "numbers", "classes"])
def run(request: pytest.FixtureRequest) -> Path:
    if request.param == "images":
        return request.getfixturevalue("finished_run")
    return request.getfixturevalue("table_runs")[request.param]


@pytest.fixture(scope="module")
def client(serve: Callable[..., Any], run: Path) -> Iterator[Any]:
    with serve(run, Limits(images=2)) as found:
        yield found


def within(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a document."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from within(one)


def test_every_route_is_in_it_and_every_name_is_known(client: Any, run: Path) -> None:
    found = client("GET", "/openapi.json")[1]
    told = {(path, verb.upper()) for path, verbs in found["paths"].items() for verb in verbs}
    routes = application(Run(run)).routes
    assert told == {(route.path, verb) for route in routes for verb in route.methods - {"HEAD"}}
    for one in within(found):
        for place in [one["$ref"]] if "$ref" in one else []:
            assert place.removeprefix("#/components/schemas/") in found["components"]["schemas"]
    operations = [one for verbs in found["paths"].values() for one in verbs.values()]
    assert len({one["operationId"] for one in operations}) == len(operations)
    for one in operations:
        assert {"200", "429", "500"} <= one["responses"].keys()
        assert all(response["description"] and response["content"] for response in one["responses"].values())


def test_answers_have_the_fields_that_it_says(client: Any) -> None:
    found = client("GET", "/openapi.json")[1]
    schemas = found["components"]["schemas"]
    for path, verbs in found["paths"].items():
        content = verbs["get"]["responses"]["200"]["content"] if "get" in verbs else {}
        status, answer = client("GET", path)
        assert status == (200 if "get" in verbs else 405)
        kind = client.headers["content-type"].partition(";")[0]
        if content:
            assert kind in content
        if "$ref" in content.get("application/json", {}).get("schema", {}):
            fits(answer, content["application/json"]["schema"], schemas)


def fits(value: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Whether a value is what a schema says, in the words that are used here."""
    if "$ref" in schema:
        return fits(value, schemas[schema["$ref"].rpartition("/")[2]], schemas)
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "number": int | float,
        "boolean": bool,
        "integer": int,
    }
    allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert (value is None and "null" in allowed) or isinstance(value, kinds[allowed[0]]), (value, schema)
    if isinstance(value, list) and "items" in schema:
        for one in value:
            fits(one, schema["items"], schemas)
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema.get("required", ())) <= value.keys() <= schema["properties"].keys()
        for name, one in value.items():
            fits(one, schema["properties"][name], schemas)


def test_rows_and_errors_are_as_it_says(client: Any) -> None:
    found = client("GET", "/openapi.json")[1]
    responses = found["paths"]["/api/predict"]["post"]["responses"]
    bodies: list[tuple[bytes, str]] = [
        (json.dumps({"rows": [ROW]}).encode(), "application/json"),
        (b"", "application/json"),
        (b"x", "multipart/form-data"),
        (b'{"rows": [{"area": "wide", "rooms": 1, "town": "a"}]}', "application/json"),
        (b"GIF89a", "image/gif"),
        (bytes(21_000_000), "image/gif"),
    ]
    statuses = set()
    for body, kind in bodies:
        status, answer = client("POST", "/api/predict", body, content_type=kind)
        schema = responses[str(status)]["content"]["application/json"]["schema"]
        fits(answer, schema, found["components"]["schemas"])
        statuses.add(status)
    assert {400, 413, 415} < statuses


def test_a_token_is_asked_for_as_it_says(serve: Callable[..., Any], run: Path) -> None:
    with serve(run, Limits(token="secret")) as client:
        found = client("GET", "/openapi.json")[1]
        assert found["security"] == [{"token": []}]
        for path, verbs in found["paths"].items():
            ((verb, one),) = verbs.items()
            assert ("401" in one["responses"]) == (path not in OPEN) == ("security" not in one)
            assert (client(verb.upper(), path, b"{}" if verb == "post" else None)[0] == 401) == (
                path not in OPEN
            )


def test_it_can_be_read_as_a_page(client: Any, browser: Any) -> None:
    address = f"http://127.0.0.1:{client.port}/docs"
    resize(browser, 360)
    browser.get(address)
    browser.get_log("performance")  # what the browser asked for by itself when it started
    browser.get(address)
    text = browser.find_element("tag name", "main").text
    for path in client("GET", "/openapi.json")[1]["paths"]:
        assert path in text
    assert "POST /api/predict" in text
    assert "503" in text
    assert not browser.execute_script(
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    assert set(requests_sent(browser)) <= {address, address.replace("/docs", "/favicon.ico")}
    for scheme in ("light", "dark"):
        prefer(browser, scheme)
        assert violations(browser) == []
