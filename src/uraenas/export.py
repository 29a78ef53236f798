"""A small copy of a run: to predict with elsewhere, to hand on, or to begin another run from."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from uraenas.atomic import rename_for_good, writing
from uraenas.errors import UraenasError, unknown
from uraenas.run import Run

COPIED = (
    "data.json",
    "environment.json",
    "log.jsonl",
    "cost.json",
    "metrics.json",
    "bootstrap.safetensors",
    "report.html",
    "search/architecture.safetensors",
    "search/history.jsonl",
)


def export(run: Run, target: Path | str, methods: Sequence[str] = (), half: bool = True) -> Run:
    """Copy these methods' members, or all, and what is known of them; checkpoints and predictions stay behind.

    Weights are stored in half precision, normalisation statistics as they are. The copy appears whole or not at all.
    """
    run.require()
    for name in methods:
        if name not in run.trained:
            raise unknown("trained method", name, run.trained)
    chosen = list(methods or run.trained)
    if not chosen:
        raise UraenasError(f"{run.path} holds no trained method yet; run: uraenas train {run.path}")
    path = Path(target)
    if not Run(path).is_free:
        raise UraenasError(f"{path} exists and is not empty; choose another --out")
    unfinished = Run(path.with_name(f".{path.name}.tmp"))
    try:
        with writing(path):
            shutil.rmtree(unfinished.path, ignore_errors=True)
            _fill(unfinished, run, chosen, half)
            shutil.rmtree(path, ignore_errors=True)  # it is free: empty, or begun and given up
            rename_for_good(unfinished.path, path)
    finally:
        shutil.rmtree(unfinished.path, ignore_errors=True)
    return Run(path)


def _fill(copy: Run, run: Run, methods: Sequence[str], half: bool) -> None:
    held_out = [f"methods/{name}/held-out.safetensors" for name in methods]
    for name in methods:
        run.ensemble(name).save(copy.members_folder(name), half)
    for file in (*COPIED, *held_out):
        if run.has(file):
            (copy.path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run.path / file, copy.path / file)
    copy.write_json("config.json", {**run.read_json("config.json"), "methods": list(methods)})
