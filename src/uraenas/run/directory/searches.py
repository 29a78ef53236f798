"""What a run directory holds of its search."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from uraenas.architectures import DISTRIBUTIONS, Searched
from uraenas.base.fields import MOST_NUMBER, Fields, is_table, shown
from uraenas.base.parts import stored_row, values_of
from uraenas.learning.chains import MOST_EPOCHS
from uraenas.run.directory.files import RunFiles
from uraenas.spaces import facts_of, space_of

SEARCH_STATE = "search/state.safetensors"  # what an unfinished search goes on from
HISTORY, FOUND = "search/history.jsonl", "search/architecture.safetensors"  # the first is for reading along


def read_searched(files: RunFiles) -> Searched | None:
    """What the search has found, once it is over."""
    if not files.has(FOUND):
        return None
    tensors, header = files.read_tensors(FOUND)
    with files.mending(FOUND):
        chosen = header.table("distribution")
        row = stored_row(DISTRIBUTIONS, "distribution", chosen)
        distribution = row.make(row.restored(chosen.table("settings")))
        space = space_of(header.table("space").stored, header.where)
        for name, tensor in tensors.items():
            kind = torch.bool if name == "mask" else torch.float64
            if tensor.dtype != kind or not torch.isfinite(tensor).all():
                raise header.error(f"{name} is not finite, or not in double precision")
        return Searched(space, distribution, tensors, tuple(history_of(header, "entropy")))


def search_taken_from(files: RunFiles) -> str:
    """The run whose search this one has; empty if it is its own."""
    facts = files.read_tensors(FOUND)[1] if files.has(FOUND) else None
    return facts.text("of") if facts is not None and facts.has("of") else ""


def write_searched(files: RunFiles, found: Searched, name: str, facts: Mapping[str, Any]) -> None:
    """Keep what a search with the distribution of this name has found; its checkpoint is needed no more."""
    write_history(files, found.history)
    settings = values_of(found.distribution, DISTRIBUTIONS[name].settings)
    header = {
        "distribution": {"name": name, "settings": settings},
        "space": facts_of(found.space),
        "genotype": str(found.expected),
        **facts,
        "history": list(found.history),
    }
    names = (*found.distribution.learned, *found.distribution.kept, "mask")
    kept = {key: found.state[key] for key in names if key in found.state}
    files.write_tensors(FOUND, kept, header)
    files.remove(SEARCH_STATE)


def write_history(files: RunFiles, history: Sequence[Mapping[str, Any]]) -> None:
    """To read along; nothing is computed from it."""
    files.write_text(HISTORY, "".join(json.dumps(row) + "\n" for row in history))


def history_of(header: Fields, needed: str) -> list[dict[str, Any]]:
    """The rows of a history: an epoch, a number that is needed, and others, of which none need be finite."""
    rows = header.list_of("history", is_table, "rows")
    for row in rows:
        facts = Fields(header.where, row)
        facts.whole("epoch", 0, MOST_EPOCHS)
        if not isinstance(row.get(needed), int | float):
            raise facts.error(f"its history has an epoch without {needed}")
        for name, value in row.items():
            if isinstance(value, list):
                for numbers in facts.list_of(name, lambda one: isinstance(one, list), "numbers"):
                    Fields(header.where, {name: numbers}).numbers(name)
            elif isinstance(value, dict) or (isinstance(value, int) and abs(value) > MOST_NUMBER):
                raise facts.error(f"its history has {name} = {shown(value)}")
    return rows
