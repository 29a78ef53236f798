"""What a file that `export` wrote is, and what made it, on one screen."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.base.words import listed
from uraenas.cli.printing import say


def show_file(path: Path, as_json: bool) -> None:
    """Print its metadata; those of an early file hold no provenance."""
    from uraenas.deploy.exported import facts_of

    facts = facts_of(path)
    try:
        lines = [f"{path}: {_heading(facts)}", *(f"  {line}" for line in _lines(facts))]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UraenasError(f"{path} has other metadata than `uraenas export` writes") from error
    say("\n".join(lines), as_json, facts)


def _heading(facts: Mapping[str, Any]) -> str:
    count = len(facts["architectures"])
    return f"{facts['method']}, {count} member{'s' * (count != 1)}, {facts['precision']}"


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    made = facts.get("provenance", {})
    versions = made.get("exported_with", {"uraenas": facts["uraenas"]})
    when = f"{made['exported']} " if made else ""
    yield f"exported    {when}with {_versions(versions)}"
    named = f"{made['name']}, seed {made['seed']}, " if made else ""
    yield f"run         {named}identity {facts['run']}"
    if trained := made.get("trained_with"):
        yield f"trained     with {_versions(trained)}"
    if data := made.get("data"):
        counts = ", ".join(
            f"{data[f'{part}_images']:,} {part.replace('_', '-')}"
            for part in ("training", "held_out", "test")
        )
        yield f"data        {data['name']}: {counts}; checksum {data['blake2b']}"
    if search := made.get("search_of"):
        yield f"search      of {search}"
    if teacher := facts.get("teacher"):
        yield f"teacher     ensemble {teacher['ensemble']}"
    yield f"takes       {_inputs(facts)}"
    yield f"says        {', '.join(facts['outputs'])}"
    if facts["classes"]:
        yield f"classes     {listed(facts['classes'])}"
    if settings := made.get("settings"):
        yield f"settings    {len(settings)} that decided what was learned (--json)"


def _versions(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _inputs(facts: Mapping[str, Any]) -> str:
    if "image" in facts:
        return f"images of {'×'.join(map(str, facts['image']))} (H×W×C), values {facts['values']}"
    return f"columns {listed(one['name'] for one in facts['columns'])}"
