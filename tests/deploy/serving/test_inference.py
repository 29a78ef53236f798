"""The Open Inference Protocol as Triton's client speaks it: tensors as bytes, and a version in the path."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from uraenas import Run
from uraenas.deploy.serving import Limits

DIGITS = np.uint8(load_digits().images * 255 / 16)
MODEL = "/v2/models/uraenas"
HEADER = "inference-header-content-length"
KINDS = {"BOOL": np.bool_, "FP32": np.float32, "FP64": np.float64}


def image_tensor(**other: Any) -> dict[str, Any]:
    size = {"parameters": {"binary_data_size": 128}}
    return {"name": "images", "shape": [2, 8, 8, 1], "datatype": "UINT8", **size, **other}


def send(client: Any, path: str, asked: dict[str, Any], blob: bytes, length: int | str = "") -> Any:
    told = json.dumps(asked).encode()
    headers = {HEADER.replace("-", "_"): str(length or len(told))}
    return client("POST", f"{path}/infer", told + blob, content_type="application/octet-stream", **headers)


def opened(client: Any, content: bytes) -> dict[str, Any]:
    """Values of each output in the answer that the client has just got, by name."""
    length = int({name.lower(): value for name, value in client.headers.items()}[HEADER])
    rest, found = content[length:], {}
    for one in json.loads(content[:length])["outputs"]:
        size = one.get("parameters", {}).get("binary_data_size")
        if size is None:
            found[one["name"]] = one["data"]
            continue
        blob, rest = rest[:size], rest[size:]
        if one["datatype"] == "BYTES":
            found[one["name"]] = texts_in(blob)
        else:
            found[one["name"]] = np.frombuffer(blob, KINDS[one["datatype"]]).reshape(one["shape"])
    assert rest == b""
    return found


def texts_in(blob: bytes) -> list[str]:
    found = []
    while blob:
        (size,) = struct.unpack("<I", blob[:4])
        found.append(blob[4 : 4 + size].decode())
        blob = blob[4 + size :]
    return found


@pytest.mark.parametrize("path", [MODEL, f"{MODEL}/versions/1"])
def test_a_model_is_asked_with_and_without_its_version(client: Any, path: str) -> None:
    assert client("GET", f"{path}/ready") == (200, {"name": "uraenas", "ready": True})
    status, about = client("GET", path)
    assert (status, about["name"], about["versions"]) == (200, "uraenas", ["1"])
    tensor = {**image_tensor(data=DIGITS[:2].ravel().tolist()), "parameters": {}}
    status, found = client("POST", f"{path}/infer", json.dumps({"inputs": [tensor]}).encode())
    assert (status, found["model_version"]) == (200, "1")
    assert client("GET", f"{MODEL}/versions/2/ready")[0] == 404
    assert client("GET", "/v2")[1]["extensions"] == ["binary_tensor_data"]


@pytest.mark.parametrize("path", ["/v2/models/none", f"{MODEL}/versions/2", f"{MODEL}/versions/1/stats"])
def test_another_model_is_told_which_there_is(client: Any, path: str) -> None:
    for verb, part in (("GET", ""), ("GET", "/ready"), ("POST", "/infer")):
        status, found = client(verb, path + part, b"{}" if verb == "POST" else None)
        assert (status, found) == (404, {"error": f"the model here is {MODEL}, in version 1"})


def test_tensors_come_and_go_as_bytes(client: Any, finished_run: Path) -> None:
    """As Triton's client asks where nothing else is said: all outputs, as bytes."""
    asked = {"inputs": [image_tensor()], "parameters": {"binary_data_output": True}, "id": "7"}
    status, content = send(client, MODEL, asked, DIGITS[:2].tobytes())
    assert status == 200
    found = opened(client, content)
    ensemble = Run(finished_run).ensemble()
    probabilities = ensemble.predict_proba(DIGITS[:2])
    np.testing.assert_allclose(found["probabilities"], probabilities, atol=1e-5)
    assert found["label"] == [ensemble.classes[k] for k in probabilities.argmax(1)]
    assert (found["foreign"].dtype, found["foreign"].shape) == (np.bool_, (2,))
    named = {"name": "label"}, {"name": "probabilities", "parameters": {"binary_data": True}}
    status, content = send(
        client, MODEL, {"inputs": [image_tensor()], "outputs": named}, DIGITS[:2].tobytes()
    )
    other = opened(client, content)
    assert other.keys() == {"label", "probabilities"}
    assert other["label"] == found["label"]
    np.testing.assert_allclose(other["probabilities"], found["probabilities"], atol=1e-5)
    plain = send(client, MODEL, {"inputs": [image_tensor()]}, DIGITS[:2].tobytes())[1]
    assert plain["outputs"][0]["data"] == found["label"]


def test_rows_come_as_bytes(serve: Callable[..., Any], table_runs: dict[str, Path]) -> None:
    towns = b"".join(struct.pack("<I", len(town)) + town for town in (b"a", "ü".encode(), b""))
    blobs = {"area": np.array([50.0, 150.5, 90]).tobytes(), "rooms": np.array([2, np.nan, 4]).tobytes()}
    blobs["town"] = towns
    with serve(table_runs["classes"], Limits()) as client:
        model = client("GET", "/api/model")[1]["model"]
        inputs, plain = [], []
        for one in client("GET", f"/v2/models/{model}")[1]["inputs"]:
            size = {"binary_data_size": len(blobs[one["name"]])}
            inputs.append({**one, "shape": [3], "parameters": size})
        data = {"area": [50, 150.5, 90], "rooms": [2, None, 4], "town": ["a", "ü", ""]}
        plain = [{**one, "data": data[one["name"]], "parameters": {}} for one in inputs]
        expected = client("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": plain}).encode())[1]
        blob = b"".join(blobs[one["name"]] for one in inputs)
        assert send(client, f"/v2/models/{model}", {"inputs": inputs}, blob) == (200, expected)


PIXELS = DIGITS[:2].tobytes()
WRONG: dict[str, tuple[Any, bytes, int | str, str]] = {
    "no length": ({"inputs": [image_tensor()]}, PIXELS, "many", "must be the number of bytes"),
    "a length beyond the body": ({"inputs": [image_tensor()]}, PIXELS, 9999, "must be the number of bytes"),
    "a length within the JSON": ({"inputs": [image_tensor()]}, PIXELS, 5, "not JSON"),
    "too few bytes": ({"inputs": [image_tensor()]}, PIXELS[:-1], "", "binary_data_size"),
    "too many bytes": ({"inputs": [image_tensor()]}, PIXELS + b"12", "", "2 bytes behind"),
    "fewer than the shape": (
        {"inputs": [image_tensor(shape=[3, 8, 8, 1])]},
        PIXELS,
        "",
        "numbers of this shape",
    ),
    "a part of a number": (
        {"inputs": [image_tensor(datatype="FP32", parameters={"binary_data_size": 3})]},
        b"123",
        "",
        "whole numbers of FP32",
    ),
    "another datatype": ({"inputs": [image_tensor(datatype=[])]}, PIXELS, "", "datatype must be one of"),
    "truths": ({"inputs": [image_tensor(datatype="BOOL")]}, PIXELS, "", "datatype must be UINT8"),
    "a size that is none": (
        {"inputs": [image_tensor(parameters={"binary_data_size": True})]},
        PIXELS,
        "",
        "binary_data_size",
    ),
    "texts that break off": (
        {"inputs": [image_tensor(datatype="BYTES", parameters={"binary_data_size": 6})]},
        struct.pack("<I", 3) + b"ab",
        "",
        "BYTES are UTF-8",
    ),
    "many texts": (
        {"inputs": [image_tensor(datatype="BYTES", parameters={"binary_data_size": 52})]},
        bytes(52),
        "",
        "an input has at most 12 texts",
    ),
    "an output twice": (
        {"inputs": [image_tensor()], "outputs": [{"name": "label"}] * 2},
        PIXELS,
        "",
        "asked for once",
    ),
    "no object": ([], b"", "", "expected inputs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_gets_one_line(client: Any, name: str) -> None:
    asked, blob, length, words = WRONG[name]
    status, found = send(client, MODEL, asked, blob, length)
    assert (status, list(found)) == (400, ["error"])
    assert words in found["error"]
