"""The Hugging Face hub's client, and runs that are fetched from there."""

import sys
from pathlib import Path
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.base.versions import version_of

PREFIX = "hf://"  # what users write before OWNER/NAME
LIBRARY = "uraenas"
# What is fetched: a run's own files, all of which are read with care, and no page that another has written.
WANTED = (
    "config.json",
    "data.json",
    "environment.json",
    "cost.json",
    "metrics.json",
    "teacher.json",
    "search/architecture.safetensors",
    "methods/*/members/ensemble.json",
    "methods/*/members/*.safetensors",
)


def fetch(repo: str, revision: str = "") -> Path:
    """Where a run of the hub lies in its cache on this machine; fetched where it is not there yet."""
    hub = client()
    name = repo.removeprefix(PREFIX)
    try:
        path = hub.snapshot_download(
            name,
            revision=revision or None,
            allow_patterns=list(WANTED),
            library_name=LIBRARY,
            library_version=version_of(LIBRARY),
        )
    except Exception as error:
        raise refused(hub, f"{name} could not be fetched", error) from error
    if not (Path(path) / "config.json").exists():
        raise UraenasError(f"{name} on the hub holds no run of uraenas (no config.json)")
    return Path(path)


def client() -> Any:
    """The hub's own, where it is installed."""
    try:
        import huggingface_hub
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError as error:
        raise UraenasError(f"{error.name} is missing; install it with: pip install 'uraenas[hub]'") from error
    if not sys.stderr.isatty():
        huggingface_hub.utils.disable_progress_bars()
    return huggingface_hub


def refused(hub: Any, what: str, error: Exception) -> UraenasError:
    """The hub's reasons in one line; what is no reason of the hub's or the network's goes on as it is."""
    if isinstance(error, UraenasError):
        return error
    known = (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError, ValueError, RuntimeError)
    if not isinstance(error, known) and "http" not in type(error).__module__:
        raise error
    words = " ".join(str(error).split())
    return UraenasError(f"{what}: {words[:300]}")
