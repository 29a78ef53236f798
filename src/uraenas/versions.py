"""Versions of installed packages."""

from importlib import metadata


def version_of(package: str) -> str:
    """The version, also where the package is run from a source tree and has none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
