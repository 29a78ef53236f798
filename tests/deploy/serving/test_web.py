"""A folder that predicts in the visitor's browser: what is in it, and, with the real runtime, what it says there."""

import functools
import http.server
import io
import json
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import requests_sent
from PIL import ExifTags, Image
from sklearn.datasets import load_sample_image
from test_serving_page import DIGITS, results, write

from uraenas import Run, UraenasError
from uraenas.data.pictures import picture_of
from uraenas.deploy.web import FILES, POLICY, export_web
from uraenas.ensemble.predict import Rule, rows_of

RUNTIME = os.environ.get("ONNXRUNTIME_WEB", "")  # where npm's package lies


def packed(path: Path, **files: bytes | None) -> Path:
    """A package with these files; None is a link to elsewhere."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/dist/{name}")
            if content is None:
                entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return path


def test_the_folder_is_whole_and_asks_nobody_else(finished_run: Path, tmp_path: Path) -> None:
    package = packed(tmp_path / "web.tgz", **{name: name.encode() for name in FILES}, other=b"not wanted")
    facts = export_web(Run(finished_run), tmp_path / "out", package)
    found = {
        str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()
    }
    assert found == {
        "index.html",
        "facts.json",
        "model.onnx",
        "runtime/NOTICE",
        *(f"runtime/{n}" for n in FILES),
    }
    assert json.loads((tmp_path / "out" / "facts.json").read_text()) == json.loads(json.dumps(facts))
    text = (tmp_path / "out" / "index.html").read_text()
    assert "http://" not in text.replace("http-equiv", "")
    assert "https://" not in text
    assert POLICY in text
    assert "connect-src 'self'" in POLICY
    assert "/*ask*/" not in text
    with pytest.raises(UraenasError, match="not empty"):
        export_web(Run(finished_run), tmp_path / "out", package)


def test_what_is_no_runtime_leaves_nothing_behind(finished_run: Path, tmp_path: Path, uraenas) -> None:
    good = dict.fromkeys(FILES, b"")
    (tmp_path / "text.tgz").write_text("no archive")
    packages = [
        packed(tmp_path / "lacking.tgz", other=b""),
        packed(tmp_path / "link.tgz", **{**good, FILES[1]: None}),
        tmp_path / "text.tgz",
        tmp_path / "missing.tgz",
        tmp_path,
    ]
    for package in packages:
        with pytest.raises(UraenasError, match="npm pack onnxruntime-web"):
            export_web(Run(finished_run), tmp_path / "out", package)
    done = uraenas("export", finished_run, "--format", "web", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "--runtime" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"lacking.tgz", "link.tgz", "text.tgz"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Nobody reads along."""


@pytest.fixture
def served(finished_run: Path, tmp_path: Path) -> Iterator[str]:
    if not RUNTIME:
        pytest.skip("set ONNXRUNTIME_WEB to npm's package: npm pack onnxruntime-web")
    with serving_web(Run(finished_run), tmp_path / "web", RUNTIME) as address:
        yield address


@contextmanager
def serving_web(run: Run, folder: Path, runtime: Path | str) -> Iterator[str]:
    export_web(run, folder, runtime)
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


# A runtime that says of every image the same: p is the share below which one is foreign, as float32 has it.
SAYS = """globalThis.ort = { env: { wasm: {} },
  Tensor: class { constructor(kind, data) { globalThis.given = [...data]; } },
  InferenceSession: { create: async () => ({
  run: async () => ({ probabilities: { data: new Float32Array(10).fill(0.1) },
    prediction_set: { data: Array(10).fill(1) },
    total: { data: [1] }, data: { data: [1] }, weights: { data: [0] }, architecture: { data: [0] },
    p_value: { data: new Float32Array([1 / 20]) }, abstain: { data: [1] } }) }) } };"""


def test_an_image_at_the_share_itself_is_foreign_in_a_browser_too(
    browser: Any, finished_run: Path, tmp_path: Path
) -> None:
    """With 19 held-out images the smallest p is 0.05, which in float32 is more than 0.05 in double precision."""
    package = packed(tmp_path / "web.tgz", **{name: SAYS.encode() for name in FILES})
    with serving_web(Run(finished_run), tmp_path / "web", package) as address:
        browser.get(address)
        browser.find_element("id", "files").send_keys(write(tmp_path / "0.png", DIGITS[0]))
        (words,) = results(browser, 1)
        assert "Not the kind of image I know" in words
        assert "from weights\nnot defined" in words


# How many decoded pictures are in memory, and how many were at most.
COUNT = """
globalThis.open = globalThis.most = 0;
const [decode, close] = [createImageBitmap, ImageBitmap.prototype.close];
globalThis.createImageBitmap = async (...given) => {
  most = Math.max(most, ++open);
  return decode(...given);
};
ImageBitmap.prototype.close = function () { open -= 1; close.call(this); };
"""


def test_few_pictures_are_in_memory_at_once(browser: Any, finished_run: Path, tmp_path: Path) -> None:
    package = packed(tmp_path / "web.tgz", **{name: SAYS.encode() for name in FILES})
    files = [write(tmp_path / f"{n}.png", np.tile(DIGITS[n], (90, 90))) for n in range(10)]
    with serving_web(Run(finished_run), tmp_path / "web", package) as address:
        browser.get(address)
        browser.execute_script(COUNT)
        browser.find_element("id", "files").send_keys("\n".join(files))
        results(browser, 10)
        opened, most = browser.execute_script("return [open, most]")
    assert opened == 0
    assert 1 <= most <= 4


def jpeg(image: Image.Image, **settings: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "jpeg", quality=88, **settings)
    return file.getvalue()


def test_pictures_are_resized_as_predict_does(browser: Any, finished_run: Path, tmp_path: Path) -> None:
    """To a grey level, or two of a JPEG, which Pillow decodes at a fraction of its size."""
    photo = Image.fromarray(load_sample_image("china.jpg"))
    upright, clear = Image.Exif(), photo.resize((97, 61)).convert("RGBA")
    upright[ExifTags.Base.Orientation] = 6
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    pictures = {"photo.jpg": jpeg(photo), "lying.jpg": jpeg(photo.crop((0, 0, 304, 424)), exif=upright)}
    for name, image in {
        "large": photo.resize((2000, 1400)),
        "small": photo.resize((5, 3)),
        "clear": clear,
    }.items():
        image.save(tmp_path / f"{name}.png")
        pictures[f"{name}.png"] = (tmp_path / f"{name}.png").read_bytes()
    package = packed(tmp_path / "web.tgz", **{name: SAYS.encode() for name in FILES})
    with serving_web(Run(finished_run), tmp_path / "web", package) as address:
        browser.get(address)
        for number, (name, body) in enumerate(pictures.items(), start=1):
            (tmp_path / name).write_bytes(body)
            browser.find_element("id", "files").send_keys(str(tmp_path / name))
            results(browser, number)
            given = np.array(browser.execute_script("return given"))
            expected = picture_of(body, (8, 8)).with_channels(1).ravel()
            assert np.abs(given - expected).max() <= (2 if name.endswith("jpg") else 1), name


SIZES = [
    (640, 427, 32, 32),
    (31, 1000, 32, 24),
    (5, 7, 32, 32),
    (8, 8, 8, 8),
    (1, 1, 9, 9),
    (1500, 900, 64, 48),
]
AT_ONCE = """
const [width, height, narrow, short] = process.argv.slice(1).map(Number);
const data = require('fs').readFileSync(0);
const rows = (top, count) => data.subarray(4 * width * top, 4 * width * (top + count));
process.stdout.write(Buffer.from(resized(width, height, rows, { width: narrow, height: short })));
"""


@pytest.mark.parametrize("size", SIZES)
def test_the_script_resizes_as_pillow_does(size: tuple[int, int, int, int]) -> None:
    node = shutil.which("node") or pytest.skip("node is not on the PATH")
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    script = resources.files("uraenas.deploy").joinpath("web/resize.js").read_text() + AT_ONCE
    command = [node, "-e", script, "--", *map(str, size)]
    found = np.frombuffer(
        subprocess.run(command, input=pixels.tobytes(), capture_output=True, check=True).stdout, np.uint8
    )
    expected = Image.fromarray(pixels[..., :3]).resize(size[2:], Image.Resampling.BILINEAR)
    assert np.abs(found.reshape(size[3], size[2], 3) - np.array(expected, int)).max() <= 1


@pytest.mark.data
def test_a_browser_says_what_predict_says(
    served: str, browser: Any, finished_run: Path, tmp_path: Path
) -> None:
    ensemble = Run(finished_run).ensemble()
    images = np.stack([*DIGITS[:4], 255 - DIGITS[4], np.zeros((8, 8), np.uint8)])
    rows = rows_of(ensemble, images[..., None], Rule.of(ensemble))
    browser.get_log("performance")
    browser.get(served)
    for number, image in enumerate(images):
        browser.find_element("id", "files").send_keys(write(tmp_path / f"{number}.png", image))
        (words, *_) = results(browser, number + 1)  # the newest comes first
        row = rows[number]
        assert f"{row['label']}, {100 * row['probability']:.1f} %" in words
        assert f"{row['total']:.3f} nats" in words
        assert f"{row['architecture']:.3f} nats" in words
        assert ("Not the kind of image I know" in words) == row["foreign"]
        assert f"May be\n{', '.join(row['prediction_set'])}" in words
    assert "2 members, run on this machine" in browser.find_element("id", "about").text
    sent = requests_sent(browser)
    assert any(address.endswith(".wasm") for address in sent)
    assert all(address.startswith((served, "blob:", "data:")) for address in sent)
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not [entry for entry in severe if "favicon" not in entry["message"]]
