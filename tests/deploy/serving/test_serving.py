"""The server: what it says is what predict says, and what is wrong gets one line with a status of 4xx."""

import base64
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from uraenas import Run
from uraenas.base.errors import UraenasError
from uraenas.deploy.serving import Limits
from uraenas.deploy.serving.following import Following
from uraenas.deploy.serving.limits import TOKEN_NEEDED, Refused
from uraenas.deploy.serving.model import Model
from uraenas.deploy.serving.running import application, bound, following, is_open
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.predict import Rule, rows_of
from uraenas.report import build_partial
from uraenas.run.progress import is_worked_on

DIGITS = np.uint8(load_digits().images * 255 / 16)


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()


def test_it_says_what_predict_says(client: Any, finished_run: Path) -> None:
    ensemble = Run(finished_run).ensemble()
    expected = rows_of(ensemble, DIGITS[:3, ..., None], Rule.of(ensemble, Asked(risk=0.2)))
    for image, row in zip(DIGITS[:3], expected, strict=True):
        status, found = client("POST", "/api/predict", png(image))
        assert status == 200
        (one,) = found["predictions"]
        votes, note = one.pop("votes"), one.pop("note")
        assert (sum(votes.values()), note) == (len(ensemble), "")
        assert {name: one[name] for name in ("label", "abstain", "foreign", "prediction_set")} == {
            name: row[name] for name in ("label", "abstain", "foreign", "prediction_set")
        }
        assert one["probabilities"] == pytest.approx(row["probabilities"], abs=1e-5)
        assert one["total"] == pytest.approx(one["data"] + one["weights"] + one["architecture"])
    body = json.dumps({"images": [base64.b64encode(png(image)).decode() for image in DIGITS[:3]]}).encode()
    status, found = client("POST", "/api/predict", body, content_type="application/json")
    assert (status, [row["label"] for row in found["predictions"]]) == (
        200,
        [row["label"] for row in expected],
    )
    large = png(np.kron(DIGITS[0], np.ones((9, 9), np.uint8)))
    assert client("POST", "/api/predict", large)[1]["predictions"][0]["note"] == "resized from 72×72"


def test_the_open_inference_protocol(client: Any, finished_run: Path) -> None:
    assert client("GET", "/v2")[1]["name"] == "uraenas"
    assert client("GET", "/v2/health/live") == (200, {"live": True})
    assert client("GET", "/v2/health/ready") == (200, {"ready": True})
    assert client("GET", "/v2/models/uraenas/ready") == (200, {"name": "uraenas", "ready": True})
    status, about = client("GET", "/v2/models/uraenas")
    assert about["inputs"] == [{"name": "images", "datatype": "UINT8", "shape": [-1, 8, 8, 1]}]
    tensor = {
        "name": "images",
        "shape": [2, 8, 8, 1],
        "datatype": "UINT8",
        "data": DIGITS[:2].ravel().tolist(),
    }
    status, found = client(
        "POST", "/v2/models/uraenas/infer", json.dumps({"id": "7", "inputs": [tensor]}).encode()
    )
    assert (status, found["id"], found["model_name"]) == (200, "7", "uraenas")
    outputs = {one["name"]: one for one in found["outputs"]}
    assert {(one["name"], one["datatype"]) for one in about["outputs"]} == {
        (name, one["datatype"]) for name, one in outputs.items()
    }
    assert outputs["probabilities"]["shape"] == outputs["prediction_set"]["shape"] == [2, 10]
    ensemble = Run(finished_run).ensemble()
    expected = ensemble.predict_proba(DIGITS[:2])
    rows = rows_of(ensemble, DIGITS[:2, ..., None], Rule.of(ensemble, Asked(risk=0.2)))
    assert outputs["prediction_set"]["data"] == [
        name in row["prediction_set"] for row in rows for name in ensemble.classes
    ]
    np.testing.assert_allclose(np.reshape(outputs["probabilities"]["data"], (2, 10)), expected, atol=1e-5)


def test_about_itself(client: Any) -> None:
    assert client("GET", "/healthz") == (200, {"ready": True})
    status, page = client("GET", "/")
    assert (status, "<!doctype html>" in page) == (200, True)
    assert "default-src 'none'" in client.headers["content-security-policy"]
    document = client("GET", "/openapi.json")[1]
    for path, verbs in document["paths"].items():
        status, _ = client("GET", path)
        assert status == (200 if "get" in verbs else 405), path
    assert "/api/predict" in client("GET", "/docs")[1]
    client("POST", "/api/predict", png(DIGITS[0]))
    metrics = client("GET", "/metrics")[1]
    assert 'uraenas_requests_total{path="/api/predict",status="200"}' in metrics
    assert "uraenas_batch_images_bucket" in metrics
    about = client("GET", "/api/model")[1]
    assert (about["risk"], list(about["undefined"])) == (0.2, ["weights"])


def test_what_has_no_answer_is_told_and_counted(client: Any) -> None:
    before = counted(client, "404"), counted(client, "405")
    for path in (
        "/none",
        "/api/model/",
        "/api/predict/",
    ):  # no redirection, which would name the host it was told
        status, found = client("GET", path)
        assert (status, found["error"]) == (404, "there is nothing here; see /docs")
    status, found = client("GET", "/api/predict")
    assert (status, client.headers["allow"]) == (405, "POST")
    assert "another method" in found["error"]
    assert (counted(client, "404"), counted(client, "405")) == (before[0] + 3, before[1] + 1)


def counted(client: Any, status: str) -> float:
    """Requests of paths and methods that have no answer."""
    return measured(client, f'uraenas_requests_total{{path="other",status="{status}"}} ')


def measured(client: Any, name: str) -> float:
    lines = [line for line in client("GET", "/metrics")[1].splitlines() if line.startswith(name)]
    return float(lines[0].removeprefix(name)) if lines else 0.0


def test_what_became_of_images_is_counted_so_that_drift_can_be_watched(client: Any) -> None:
    def verdicts() -> list[float]:
        words = ("answered", "unsure", "foreign")
        return [measured(client, f'uraenas_predictions_total{{verdict="{word}"}} ') for word in words]

    before = verdicts()
    noise = np.random.default_rng(0).integers(0, 256, (2, 8, 8), dtype=np.uint8)
    rows = [
        client("POST", "/api/predict", png(image))[1]["predictions"][0] for image in (*DIGITS[:6], *noise)
    ]
    foreign = sum(row["foreign"] for row in rows)
    unsure = sum(row["abstain"] and not row["foreign"] for row in rows)
    assert foreign >= 2
    counts = [new - old for new, old in zip(verdicts(), before, strict=True)]
    assert counts == [len(rows) - unsure - foreign, unsure, foreign]


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON", "application/x-www-form-urlencoded"]
)
def test_json_is_known_whatever_it_is_called(client: Any, kind: str) -> None:
    body = json.dumps({"images": [base64.b64encode(png(DIGITS[0])).decode()]}).encode()
    assert client("POST", "/api/predict", body, content_type=kind)[0] == 200


@pytest.mark.parametrize("pixel", [True, "1", None])
def test_a_tensor_holds_numbers_alone(client: Any, pixel: Any) -> None:
    tensor = {"name": "images", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": [pixel] * 64}
    status, found = client("POST", "/v2/models/uraenas/infer", json.dumps({"inputs": [tensor]}).encode())
    assert (status, found["error"]) == (400, "data are not the numbers of this shape")


def test_of_several_images_the_one_that_cannot_be_read_is_named(client: Any) -> None:
    files = [png(DIGITS[0]), png(DIGITS[1])[:-30], png(DIGITS[2])]
    body = json.dumps({"images": [base64.b64encode(file).decode() for file in files]}).encode()
    status, answer = client("POST", "/api/predict", body, content_type="application/json")
    assert status == 422
    assert answer["error"].startswith("image 2 of 3: this cannot be read as an image")


def test_a_dark_image_of_sixteen_bits_is_noted_as_predict_does(client: Any) -> None:
    status, found = client("POST", "/api/predict", png(DIGITS[0].astype(np.uint16)))
    assert status == 200
    assert found["predictions"][0]["note"] == "uses at most 12 of its 16 bits"


WRONG = {
    "nothing": ("/api/predict", b"", {}, 400),
    "too large": ("/api/predict", b"x" * 300_000, {}, 413),
    "truncated": ("/api/predict", png(DIGITS[0])[:-30], {}, 422),
    "a form": ("/api/predict", b"--x--", {"content_type": "multipart/form-data; boundary=x"}, 415),
    "no image": ("/api/predict", b"%PDF-1.7 none", {}, 422),
    "wrong type": ("/api/predict", b'{"images": 7}', {"content_type": "application/json"}, 400),
    "no JSON": ("/api/predict", b"{", {"content_type": "application/json"}, 400),
    "nested": ("/api/predict", b"[" * 100_000, {"content_type": "application/json"}, 400),
    "no base64": ("/api/predict", b'{"images": ["*"]}', {"content_type": "application/json"}, 400),
    "too many": (
        "/api/predict",
        json.dumps({"images": ["AAAA"] * 13}).encode(),
        {"content_type": "application/json"},
        400,
    ),
    "no input": ("/v2/models/uraenas/infer", b"{}", {}, 400),
    "another shape": (
        "/v2/models/uraenas/infer",
        b'{"inputs": [{"name": "images", "shape": [1, 9], "datatype": "UINT8", "data": [1]}]}',
        {},
        400,
    ),
    "other numbers": (
        "/v2/models/uraenas/infer",
        b'{"inputs": [{"name": "images", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": [1, null]}]}',
        {},
        400,
    ),
    "no such model": ("/v2/models/none/infer", b"{}", {}, 404),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_gets_one_line(client: Any, name: str) -> None:
    path, body, headers, expected = WRONG[name]
    status, found = client("POST", path, body, **headers)
    assert status == expected
    assert list(found) == ["error"]
    assert "\n" not in found["error"]
    assert "Traceback" not in found["error"]


@pytest.mark.parametrize(("of_bytes", "right"), [(True, {"UINT8"}), (False, {"FP32", "FP64"})])
def test_a_tensor_of_another_datatype_is_refused(finished_run: Path, of_bytes: bool, right: set) -> None:
    """A dark image of bytes, 0 and 1, would be black and white to networks of floats."""
    ensemble = replace(Run(finished_run).ensemble(), of_bytes=of_bytes)
    model = Model("uraenas", ensemble, Rule.of(ensemble, Asked()))
    for kind in ("UINT8", "FP32", "FP64", "INT64", "BOOL", None):
        tensor = {"name": "images", "shape": [1, 8, 8, 1], "datatype": kind, "data": [0, 1] * 32}
        if kind in right:
            assert model.tensors([tensor], 1)[0].sum() == 32
        else:
            with pytest.raises(Refused, match="datatype must be"):
                model.tensors([tensor], 1)


def test_hundreds_of_malformed_requests_and_it_still_answers(client: Any) -> None:
    draw, whole = random.Random(0), png(DIGITS[0])
    tensor = {"name": "images", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": [0] * 64}
    inference = json.dumps({"inputs": [tensor]}).encode()
    for _ in range(300):
        path, body = draw.choice([("/api/predict", whole), ("/v2/models/uraenas/infer", inference)])
        spoiled = bytearray(body)
        for _ in range(draw.randint(1, 8)):
            spoiled[draw.randrange(len(spoiled))] = draw.randrange(256)
        status, found = client("POST", path, bytes(spoiled[: draw.randint(1, len(spoiled))]))
        assert status == 200 or (400 <= status < 500 and list(found) == ["error"]), (status, found)
    assert client("POST", "/api/predict", whole)[0] == 200


def test_many_clients_at_once_each_get_their_own(client: Any) -> None:
    alone = [client("POST", "/api/predict", png(image))[1]["predictions"][0] for image in DIGITS[:8]]
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(client, "POST", "/api/predict", png(DIGITS[n % 8])) for n in range(64)]
        together = [one.result() for one in asked]
    for n, (status, found) in enumerate(together):
        (row,) = found["predictions"]
        assert status == 200
        assert row["label"] == alone[n % 8]["label"]
        assert row["probability"] == pytest.approx(alone[n % 8]["probability"], abs=1e-5)
    sizes = [
        line for line in client("GET", "/metrics")[1].splitlines() if line.startswith("uraenas_batch_images_")
    ]
    batches, images = (
        float(next(x for x in sizes if x.startswith(f"uraenas_batch_images_{w}")).split()[1])
        for w in ("count", "sum")
    )
    assert images > batches  # some were predicted together


def test_a_run_in_progress_is_shown_until_it_predicts(
    answer: Callable[..., Any], finished_run: Path, tmp_path: Path
) -> None:
    run = Run(shutil.copytree(finished_run, tmp_path / "run"))
    ensembles = {path: path.read_bytes() for path in run.path.glob("methods/*/*/ensemble.json")}
    assert ensembles
    for path in ensembles:
        path.unlink()
    assert not is_worked_on(run.path)
    run.tell_progress({"stage": "train", "found": "4 of 8 epochs", "done": 4, "total": 8})
    assert is_worked_on(run.path)
    body = png(DIGITS[0])
    with answer(following(run, lambda: build_partial(run, again=True), limits=Limits(token=""))) as client:
        status, page = client("GET", "/")
        assert (status, "4 of 8 epochs" in page, 'data-refresh="10"' in page) == (200, True, True)
        assert "default-src 'none'" in client.headers["content-security-policy"]
        assert client("GET", "/healthz") == (200, {"ready": False})
        assert client("GET", "/v2/health/live") == (200, {"live": True})
        status, told = client("POST", "/api/predict", body)
        assert (status, "in progress" in told["error"]) == (503, True)
        for path, content in ensembles.items():
            path.write_bytes(content)
        assert client("POST", "/api/predict", body)[0] == 200
        assert "4 of 8 epochs" in client("GET", "/")[1], "the run goes on"
        run.remove("progress.json")
        assert "What is in this image?" in client("GET", "/")[1]
    for path in ensembles:
        path.unlink()
    with pytest.raises(UraenasError, match="lacking"):
        following(run, str, "lacking")


def test_a_run_in_progress_is_shown_to_those_who_have_the_token_at_the_allowed_rate(
    answer: Callable[..., Any], finished_run: Path
) -> None:
    """Whether there is an ensemble yet or not; a browser can ask for it by itself."""
    run, body = Run(finished_run), png(DIGITS[0])

    def basic(password: str) -> str:
        return f"Basic {base64.b64encode(f'me:{password}'.encode()).decode()}"

    right, wrong = (
        ("Bearer secret", basic("secret")),
        ("", "Bearer other", basic("other"), "Basic ÿ", "secret"),
    )
    limits = Limits(token="secret")
    for make, status in ((lambda: None, 503), (lambda: application(run, "", limits), 200)):
        with answer(Following(make, lambda: False, lambda: "how far it is", limits)) as client:
            for given in wrong:
                assert client("GET", "/", authorization=given) == (401, {"error": TOKEN_NEEDED})
                assert client.headers["www-authenticate"].startswith("Basic realm=")
                assert client("GET", "/v2/health/ready", authorization=given)[0] == status
                for verb, path in (("POST", "/api/predict"), ("GET", "/api/model"), ("GET", "/v2")):
                    assert client(verb, path, body, authorization=given)[0] == 401
                    assert client.headers["www-authenticate"] == "Bearer"
            for given in right:
                assert client("GET", "/", authorization=given) == (200, "how far it is")
                assert client("POST", "/api/predict", body, authorization=given)[0] == status
            assert client("GET", "/healthz")[0] == 200
    with answer(Following(lambda: None, lambda: False, str, Limits(rate=5))) as client:
        assert {client("GET", "/")[0] for _ in range(20)} == {200, 429}


def test_an_address_that_cannot_be_had_is_told_in_one_line(
    uraenas: Callable, finished_run: Path, client: Any
) -> None:
    done = uraenas("serve", finished_run, "--port", str(client.port))
    told = f"cannot listen on 127.0.0.1, port {client.port}: Address already in use; use another --port"
    assert (done.returncode, done.stderr.splitlines()[0].endswith(f"{told} or --host")) == (2, True)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("risk", ["0.3", "0.001"])
def test_the_rule_is_told_once(
    uraenas: Callable, finished_run: Path, risk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uraenas.deploy.serving.running.bound", lambda host, port: socket.socket())
    monkeypatch.setattr("uraenas.deploy.serving.running.is_open", lambda at: False)
    monkeypatch.setattr("uraenas.deploy.serving.running.serve", lambda app, at: None)
    done = uraenas("serve", finished_run, "--risk", risk)
    assert done.returncode == 0
    assert done.stderr.count("abstain") == 1


@pytest.mark.parametrize(("host", "others"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_whether_other_machines_may_ask_is_known(host: str, others: bool) -> None:
    with bound(host, 0) as listening:
        assert is_open(listening) == others


def test_what_was_begun_is_finished_after_sigterm(finished_run: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uraenas", "serve", str(finished_run), "--port", str(port)]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as server,
        ExitStack() as stack,
    ):
        stack.callback(server.kill)  # where something is not as it should be
        assert server.stderr is not None
        assert f"http://127.0.0.1:{port}" in server.stderr.readline()
        body = png(DIGITS[0])
        head = f"POST /api/predict HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        for _ in range(300):
            try:
                line = socket.create_connection(("127.0.0.1", port), timeout=1800)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        with line:
            line.sendall(head + body[:-5])
            time.sleep(0.3)  # it has begun to read
            server.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            line.sendall(body[-5:])
            answer = line.recv(200)
        assert answer.startswith(b"HTTP/1.1 200")
        assert "Traceback" not in server.stderr.read()
        assert server.wait() in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
