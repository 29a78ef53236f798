"""What one run hands to another: a small copy of itself, or its search."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uraenas.atomic import rename_for_good, writing
from uraenas.config import Config, differences, from_json, in_words
from uraenas.errors import UraenasError, unknown
from uraenas.files import write_bytes
from uraenas.run import Run

SEARCH = ("search/history.jsonl", "search/architecture.safetensors")  # the first is for reading along
COPIED = (
    "data.json",
    "environment.json",
    "log.jsonl",
    "cost.json",
    "metrics.json",
    "bootstrap.safetensors",
    "report.html",
    *SEARCH,
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


def check_search(source: Run, config: Config, data: dict[str, Any]) -> None:
    """Refuse a run whose search is not the one that these settings and images ask for.

    The seed is among the settings: it says which images the search must not have seen.
    """
    source.require()
    if not source.has(SEARCH[-1]):
        raise UraenasError(f"{source.path} holds no finished search; run: uraenas search {source.path}")
    theirs = from_json(source.read_json("config.json"))
    deciding = ("seed", "data.", "network.", "search.")
    changed = {k: v for k, v in differences(theirs, config).items() if k.startswith(deciding)}
    if changed:
        raise UraenasError(f"the search of {source.path} does not fit: {in_words(changed)}")
    if source.read_json("data.json") != data:
        raise UraenasError(f"the search of {source.path} was made with other images than {config.data.name}")


def take_search(run: Run, source: Run) -> None:
    """Give a run that has no search yet another's, with what it cost."""
    if run.has(SEARCH[-1]):
        return
    if "search" not in run.costs() and "search" in source.costs():
        run.add_cost({"search": source.costs()["search"]})
    for file in SEARCH:
        if source.has(file):
            write_bytes(run.path / file, (source.path / file).read_bytes())
    run.log("search taken over", run=str(source.path))
