"""What one run hands to another: a small copy of itself, or its search."""

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uraenas.atomic import rename_for_good, writing
from uraenas.config import Config, differences, flatten, from_json, in_words, override
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
    """Copy these methods' members, or all, and what is known of them.

    Checkpoints and predictions on shifted images stay behind. Weights are stored in half precision, normalisation
    statistics as they are. The copy appears whole or not at all.
    """
    run.require()
    config = from_json(run.read_json("config.json"))
    for name in methods:
        if name not in run.trained:
            raise unknown("trained method", name, run.trained)
    in_order = [name for name in config.methods if name in run.trained]
    chosen = list(dict.fromkeys(methods or (*in_order, *run.trained)))
    if not chosen:
        raise UraenasError(f"{run.path} holds no trained method yet; run: uraenas train {run.path}")
    path = Path(target).absolute()
    _require_new(path, run)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with writing(path):
            unfinished.mkdir(parents=True)
            _fill(Run(unfinished), run, override(config, {"methods": chosen}), half)
            rename_for_good(unfinished, path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return Run(target)


def _require_new(path: Path, run: Run) -> None:
    if path.is_symlink() or path == Path.cwd() or (path.exists() and not path.is_dir()):
        raise UraenasError(f"{path} cannot become a run directory; choose another directory (--out)")
    if path.exists() and any(path.iterdir()):
        raise UraenasError(f"{path} exists and is not empty; choose another directory (--out)")
    if run.path.resolve() in path.resolve().parents:
        raise UraenasError(f"{path} lies in the run itself; choose another directory (--out)")


def _fill(copy: Run, run: Run, config: Config, half: bool) -> None:
    for name in config.methods:
        run.ensemble(name).save(copy.members_folder(name), half)
    of_methods = [
        f"methods/{name}/{file}.safetensors"
        for name in config.methods
        for file in (
            "held-out",
            f"predictions/{_dataset_name(run)}",
        )  # the report is drawn from the clean set's
    ]
    for file in filter(run.has, (*COPIED, *of_methods)):
        if file.endswith(".json"):
            run.read_json(file)  # a damaged file is not handed on
        elif file.endswith(".safetensors"):
            run.read_tensors(file)
        write_bytes(copy.path / file, (run.path / file).read_bytes())
    copy.write_json("config.json", flatten(config))


def _dataset_name(run: Run) -> str:
    return run.metrics()["rows"][0]["dataset"] if run.has("metrics.json") else ""


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
    costs = source.costs.read()
    if "search" not in run.costs.read() and "search" in costs:
        run.costs.add({"search": costs["search"]})
    for file in SEARCH:
        if source.has(file):
            write_bytes(run.path / file, (source.path / file).read_bytes())
    run.log("search taken over", run=source.path.resolve().name)
