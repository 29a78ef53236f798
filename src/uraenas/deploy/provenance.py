"""Where a file comes from, as its metadata tell: the run, its images and settings, versions, and the date."""

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.base.versions import version_of
from uraenas.run.directory import Run, search_taken_from

PACKAGES = ("uraenas", "torch", "onnx")
ELSEWHERE = ("data.root", "engine.device", "tensorboard", "evaluate.")  # says nothing of what was learned
PATHS = ("data.name", "train.teacher", ".start")  # or names of what comes with the package
EPOCH = "SOURCE_DATE_EPOCH"  # seconds: builds that must give the same bits set the date by it


def provenance(run: Run, method: str) -> dict[str, Any]:
    """What made a file of this method. Of paths it has the last part alone: files go to others."""
    config, data, search = run.config(), run.data(), search_taken_from(run)
    found: dict[str, Any] = {
        "name": run.path.resolve().name,
        "seed": config.seed,
        "settings": _shareable(config.only(method).values),
        "trained_with": run.environment(),
        "exported_with": _versions(),
        "exported": _date(),
    }
    if search:
        found["search_of"] = search
    if data is not None:
        counts = {name: getattr(data, name) for name in ("training_images", "held_out_images", "test_images")}
        found["data"] = {"name": _last(config.data.name), "blake2b": data.blake2b, **counts}
    return found


def _shareable(settings: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {key: value for key, value in settings.items() if not key.startswith(ELSEWHERE)}
    return {key: _last(value) if _is_path(key, value) else value for key, value in chosen.items()}


def _is_path(key: str, value: Any) -> bool:
    return isinstance(value, str) and (key.endswith(PATHS) or value.startswith(("/", "~")))


def _last(path: str) -> str:
    return Path(path).name


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}


def _date() -> str:
    """In UTC, by ISO 8601."""
    given = os.environ.get(EPOCH, "")
    if given and not (given.isdecimal() and len(given) < 12):
        raise UraenasError(f"{EPOCH} = {given!r} is no number of seconds")
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(given) if given else None))
