"""An exported file as others run it: by ONNX Runtime in a process that has neither PyTorch nor this package."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

PROGRAM = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "uraenas"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
with np.load(sys.argv[2]) as file:
    given = {name: one.astype(object) if one.dtype.kind == "U" else one for name, one in file.items()}
names = [output.name for output in session.get_outputs()]
np.savez(sys.argv[3], **dict(zip(names, session.run(None, given))))
print(json.dumps(session.get_modelmeta().custom_metadata_map))
"""


def run_alone(
    file: Path, given: Mapping[str, np.ndarray], folder: Path
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What the file says, by output, and its metadata. Texts are given as such, not as objects."""
    np.savez(folder / "given.npz", **given)
    command = [sys.executable, "-c", PROGRAM, file, folder / "given.npz", folder / "found.npz"]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as found:
        return dict(found), {name: json.loads(text) for name, text in json.loads(done.stdout).items()}
