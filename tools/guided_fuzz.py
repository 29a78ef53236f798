"""Fuzz the parsers guided by coverage: inputs that reach new branches of our code are kept and changed further.

    python tools/guided_fuzz.py [--runs 20000] [--targets npz idx …] [--keep FOLDER]

Needs atheris, which is in no extra; where it has no wheel, `pip install atheris` builds it with clang and compiler-rt.
Each target starts from a valid input. Anything but our own error ends the target, and leaves its input in `--keep`.
"""

import argparse
import contextlib
import io
import json
import pickle
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["uraenas"]):
    import numpy as np
    import torch
    from PIL import Image

    from uraenas.base.errors import UraenasError
    from uraenas.base.files import read_json, read_tensors, write_json, write_tensors
    from uraenas.data.cifar import CIFAR10, load_cifar, read_binary, read_python
    from uraenas.data.files import blaming
    from uraenas.data.idx import read_idx
    from uraenas.data.npz import load_npz
    from uraenas.data.pictures import read_image
    from uraenas.learning.methods import METHODS
    from uraenas.run.config import build, from_json, override, parse_assignments
    from uraenas.spaces import CellSpace

SPACE = CellSpace()
EVERY_METHOD = build({"methods": tuple(METHODS)})  # so that every setting is one
FILE = Path(tempfile.mkdtemp()) / "input"


def from_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        FILE.write_bytes(data)
        return read(FILE)

    return parse


def genotype(data: bytes) -> None:
    text = data.decode(errors="replace")
    assert str(SPACE.parse(text)) == text.strip()


def overrides(data: bytes) -> None:
    found = override(EVERY_METHOD, parse_assignments(data.decode(errors="replace").split("\n")))
    assert from_json(json.loads(json.dumps(found.as_json()))) == found


def config(data: bytes) -> None:
    try:
        table = json.loads(data)
    except (ValueError, RecursionError):
        return
    found = from_json(table)
    assert from_json(json.loads(json.dumps(found.as_json()))) == found


def cifar_pickle(data: bytes) -> None:
    with blaming("input", ""):
        read_python(data, CIFAR10)


TARGETS: dict[str, Callable[[bytes], object]] = {
    "genotype": genotype,
    "overrides": overrides,
    "config": config,
    "cifar-binary": lambda data: read_binary(data, CIFAR10),
    "cifar-pickle": cifar_pickle,
    "cifar-archive": from_file(lambda path: load_cifar(path, CIFAR10)),
    "npz": from_file(load_npz),
    "idx": from_file(lambda path: read_idx(path, 3)),
    "json": from_file(read_json),
    "tensors": from_file(read_tensors),
    "image": from_file(lambda path: read_image(path, (6, 8), 3)),
}


def seed_of(target: str) -> bytes:
    """A valid input, small."""
    stream = io.BytesIO()
    pixels = np.zeros((2, 3072), np.uint8)
    if target == "genotype":
        return str(SPACE.architecture((0, 1, 2, 3, 4, 3))).encode()
    if target == "overrides":
        return b"train.epochs=20\nsearch.dirichlet.betas=0.5,0.9\nmethods=drnas"
    if target == "config":
        return json.dumps(EVERY_METHOD.as_json()).encode()
    if target == "cifar-binary":
        return bytes(3073)
    if target == "cifar-pickle":
        return pickle.dumps({"data": pixels, "labels": [1, 9], "batch_label": b"x"}, protocol=2)
    if target == "cifar-archive":
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name in CIFAR10.layouts[0].files:
                archive.addfile(tarfile.TarInfo(f"{CIFAR10.layouts[0].folder}/{name}"))
    elif target == "npz":
        images, labels = np.zeros((8, 5, 5, 1), np.uint8), np.arange(8) % 2
        np.savez(stream, x_train=images, y_train=labels, x_test=images, y_test=labels)
    elif target == "idx":
        return bytes((0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4))
    elif target == "json":
        write_json(FILE, {"a": 1, "b": [1.5, None, "x"]})
        return FILE.read_bytes()
    elif target == "tensors":
        write_tensors(FILE, {"a": torch.zeros(3), "b": torch.ones(2, 2)}, {"file": '"input"'})
        return FILE.read_bytes()
    else:
        Image.new("RGB", (9, 7)).save(stream, "PNG")
    return stream.getvalue()


def fuzz_one(target: str, runs: int, keep: Path) -> None:
    """Does not come back: atheris ends the process."""
    corpus = keep / target
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "seed").write_bytes(seed_of(target))
    parse = TARGETS[target]
    warnings.simplefilter("error")

    def once(data: bytes) -> None:
        with contextlib.suppress(UraenasError):
            parse(data)

    limits = ["-timeout=20", "-rss_limit_mb=8000", "-max_len=20000", f"-artifact_prefix={keep}/bad-{target}-"]
    atheris.Setup([sys.argv[0], f"-runs={runs}", *limits, str(corpus)], once)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20_000, help="inputs for each target")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "guided-fuzz")
    options = parser.parse_args()
    if len(options.targets) == 1:
        fuzz_one(options.targets[0], options.runs, options.keep)
    failed = []
    for target in options.targets:
        more = ["--runs", str(options.runs), "--keep", str(options.keep), "--targets", target]
        done = subprocess.run([sys.executable, __file__, *more], stderr=subprocess.PIPE, text=True)
        lines = done.stderr.splitlines()
        reached = [line for line in lines if "cov:" in line]
        print(f"{target:15} exit {done.returncode}  {reached[-1] if reached else ''}", flush=True)
        if done.returncode:
            failed.append(target)
            print("\n".join(lines[-40:]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
