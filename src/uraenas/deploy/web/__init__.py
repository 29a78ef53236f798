"""An ensemble as a folder for any web server, which runs on the visitor's machine with ONNX Runtime Web."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.base.whole_files import rename_for_good, unfinished, writing
from uraenas.deploy.page import page
from uraenas.deploy.writing import Wanted, export_file
from uraenas.run.directory import Run

FILES = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
MOST_BYTES = 100_000_000  # of one of them
NOTICE = "ONNX Runtime Web, copyright Microsoft Corporation, MIT licence: https://github.com/microsoft/onnxruntime\n"
# The page may ask its own server alone, whatever it does.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src blob: data:; connect-src 'self'; worker-src 'self' blob:; "
    "script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob:"
)
HEAD = f"""<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="referrer" content="no-referrer">
<script src="runtime/{FILES[0]}"></script>"""


def export_web(
    run: Run, folder: Path | str, runtime: Path | str, method: str = "", wanted: Wanted | None = None
) -> dict[str, Any]:
    """Write the folder, new or empty, and return what facts.json says. It appears whole or not at all.

    `runtime` is npm's package onnxruntime-web, packed (`npm pack onnxruntime-web`) or unpacked.
    """
    if run.ensemble(method or run.primary).normalisation.columns is not None:
        raise UraenasError("this ensemble predicts rows of a table; a page in the browser takes images")
    target = Path(folder).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UraenasError(f"{target} exists and is not empty; choose another directory (--out)")
    begun = unfinished(target)
    try:
        with writing(target):
            (begun / "runtime").mkdir(parents=True)
            for name in FILES:
                (begun / "runtime" / name).write_bytes(_read(Path(runtime), name))
            (begun / "runtime" / "NOTICE").write_text(NOTICE, encoding="utf-8")
            facts = export_file(run, begun / "model.onnx", "onnx", method, wanted)
            (begun / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
            (begun / "index.html").write_text(page("web/model.js", HEAD), encoding="utf-8")
            if target.exists():
                target.rmdir()
            rename_for_good(begun, target)
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    return facts


def _read(package: Path, name: str) -> bytes:
    """A file of the package, unpacked or not; nothing else of it is looked at."""
    try:
        if package.is_dir():
            return (package / "dist" / name).read_bytes()
        with tarfile.open(package) as archive:
            entry = archive.getmember(f"package/dist/{name}")
            file = archive.extractfile(entry) if entry.isreg() and entry.size <= MOST_BYTES else None
            if file is None:
                raise KeyError(name)
            return file.read()
    except (OSError, KeyError, tarfile.TarError, EOFError) as error:
        raise UraenasError(
            f"{package} is not npm's package onnxruntime-web, which has dist/{name}; try: npm pack onnxruntime-web"
        ) from error
