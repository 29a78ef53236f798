"""Where runs lie, and how to read their small files without PyTorch, which takes seconds to import."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from uraenas.base.errors import DamagedFile, UraenasError
from uraenas.base.fields import Fields
from uraenas.base.files import read_json, require_format
from uraenas.run.fetching import fetch

PRETRAINED = Path(__file__).parent.parent / "pretrained"
REPLICATES = "bootstrap.safetensors"
HUB = "hf:/"  # as a path has it: two slashes are one
PROGRESS = "progress.json"  # how far the process that works here has come


def pretrained_names() -> list[str]:
    """The runs that come with the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob("*/config.json"))


def found(path: Path | str) -> Path:
    """The run in this directory or under hf://OWNER/NAME; where there is none, the pretrained one of this name."""
    own, name = Path(path), str(path)
    if name.startswith(HUB):
        return fetch(name.removeprefix(HUB).lstrip("/"))
    return PRETRAINED / name if not is_run(own) and name in pretrained_names() else own


def is_run(path: Path) -> bool:
    return (path / "config.json").exists()


def require_run(path: Path) -> None:
    """Refuse a directory that is no run."""
    if (path / "estimator.json").exists():
        raise UraenasError(
            f"{path} is a saved estimator, not a run; open it in Python, by the load of its class"
        )
    if path.is_file():
        raise UraenasError(
            f"{path} is a file, and a run is a directory; a file that `uraenas export` wrote runs in Python: "
            f"uraenas.deploy.Exported({str(path)!r}); uraenas show {shlex.quote(str(path))} says what it is"
        )
    if not is_run(path):
        why = "" if path.exists() else ": it does not exist"
        raise UraenasError(
            f"{path} is not a run directory{why}; start one with: uraenas run --out {shlex.quote(str(path))} "
            f"(pretrained, to predict with: {', '.join(pretrained_names())})"
        )


def stored_config(path: Path) -> Fields:
    """The settings of a run, as they are stored, and its identity."""
    require_run(path)
    with mending(path, "config.json"):
        stored = read_json(path / "config.json")
        require_format(path, stored)
        facts = Fields(path / "config.json", stored)
        facts.text("run", 64)
        return facts


@contextmanager
def mending(path: Path, name: str) -> Iterator[None]:
    """Say how to mend a file of a run that is found to be damaged, by what it is for."""
    try:
        yield
    except DamagedFile as error:
        raise UraenasError(f"{error}; {remedy(path, name)}") from error


def remedy(path: Path, name: str) -> str:
    """How to mend a damaged file."""
    quoted = shlex.quote(str(path))
    if path.parent == PRETRAINED:
        return "install uraenas again"
    if name == "config.json":
        return "it cannot be made again: put back a copy, or begin anew in another directory (--out)"
    if name in ("data.json", "environment.json"):
        return "delete it and repeat the `uraenas run` command that the run began with"
    if name in ("metrics.json", REPLICATES) or "/predictions/" in name or "/evaluation/" in name:
        return f"delete it and run: uraenas evaluate {quoted}"
    return f"delete it and run: uraenas train {quoted}"
