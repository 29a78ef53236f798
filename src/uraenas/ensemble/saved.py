"""A saved model: a folder in which one file, estimator.json, names the ensemble that belongs to it.

A new ensemble is written beside the old one, under a name of its own. Then estimator.json is renamed, which is one
step, and what it no longer names is removed. So there is always one whole model, whenever the process is killed.
"""

import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uraenas.base.errors import DamagedFile, UraenasError
from uraenas.base.fields import Fields
from uraenas.base.files import FORMAT, checksum_of, read_json, require_format, write_json
from uraenas.base.lock import alone_in
from uraenas.base.whole_files import flush_folder, writing
from uraenas.ensemble.description import DESCRIPTION, NOBODY
from uraenas.ensemble.ensemble import Ensemble

POINTER = "estimator.json"
OWN_FOLDER = re.compile(r"ensemble-[0-9a-f]{16}")
OWN_FILE = re.compile(rf"{re.escape(DESCRIPTION)}|(\d+|known)\.safetensors|\..*\.tmp")
UNFINISHED = re.compile(rf"\.{re.escape(POINTER)}\.[0-9a-f]+\.tmp")


def write(folder: Path, ensemble: Ensemble, facts: Mapping[str, Any]) -> None:
    """Replace the model in a folder, or put one into an empty or a new one."""
    name = f"ensemble-{secrets.token_hex(8)}"
    with alone_in(folder):
        _require_own(folder)
        try:
            with writing(folder):
                ensemble.save(folder / name)
                flush_folder(folder)
                vouched = {"ensemble": name, "description": checksum_of(folder / name / DESCRIPTION)}
                write_json(folder / POINTER, {"format": FORMAT, **facts, **vouched})
        finally:
            _remove_unnamed(folder)


def read(folder: Path) -> tuple[Ensemble, Fields]:
    """The ensemble, and what was written with it."""
    try:
        facts = _facts(folder)
        own = folder / facts.text("ensemble")
        if checksum_of(own / DESCRIPTION) != facts.text("description"):
            raise DamagedFile(f"{own / DESCRIPTION} is not the one that {facts.where} was written with")
        return Ensemble.load(own, NOBODY), facts
    except DamagedFile as error:
        raise UraenasError(
            f"{error}; it cannot be mended: save the model again, or put back a copy"
        ) from error


def _facts(folder: Path) -> Fields:
    stored = read_json(folder / POINTER)
    require_format(folder, stored)
    facts = Fields(folder / POINTER, stored)
    facts.table("parameters")
    if not OWN_FOLDER.fullmatch(facts.text("ensemble")):
        raise facts.error("it does not name its ensemble")
    return facts


def _require_own(folder: Path) -> None:
    """Refuse a folder that holds something else than a model."""
    if (folder / POINTER).exists() or (folder / POINTER).is_symlink():
        try:
            _facts(folder)
        except UraenasError as error:
            raise UraenasError(
                f"{folder} holds no model that could be replaced: {error}; choose another folder"
            ) from error
        return
    for path in folder.iterdir():
        if not (OWN_FOLDER.fullmatch(path.name) or UNFINISHED.fullmatch(path.name)):
            raise UraenasError(
                f"{folder} holds {path.name}, which is no part of a model; choose another folder"
            )


def _remove_unnamed(folder: Path) -> None:
    """Remove ensembles that no estimator.json names: the old one, or what a killed process left."""
    kept = _facts(folder).text("ensemble") if (folder / POINTER).exists() else ""
    for path in folder.iterdir():
        if UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)
        elif path.name != kept and _is_ensemble(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_ensemble(path: Path) -> bool:
    """Whether it is a folder that holds nothing but an ensemble."""
    own = OWN_FOLDER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    return bool(own) and all(OWN_FILE.fullmatch(file.name) for file in path.iterdir())
