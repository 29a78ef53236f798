"""What a run directory holds of its search and of its chains."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from uraenas.architectures import DISTRIBUTIONS, Searched
from uraenas.base.errors import DamagedFile
from uraenas.base.fields import MOST_NUMBER, Fields, is_table, shown
from uraenas.base.parts import row_of, values_of
from uraenas.ensemble import Member
from uraenas.learning.chains import MOST_EPOCHS
from uraenas.run.directory.files import RunFiles
from uraenas.spaces import facts_of, space_of

LOSSES = "training.json"  # of all chains, to look at
SEARCH_STATE = "search/state.safetensors"
SEARCH_FILES = ("search/history.jsonl", "search/architecture.safetensors")  # the first is for reading along


class RunChains(RunFiles):
    """With what its search found, and how far its chains have come."""

    @property
    def has_search(self) -> bool:
        return self.has(SEARCH_FILES[-1])

    def searched(self) -> Searched | None:
        """What the search has found, once it is over."""
        if not self.has_search:
            return None
        tensors, header = self.read_tensors(SEARCH_FILES[-1])
        with self.mending(SEARCH_FILES[-1]):
            chosen = header.table("distribution")
            row = row_of(DISTRIBUTIONS, "distribution", chosen.text("name"))
            distribution = row.make(row.restored(chosen.table("settings")))
            space = space_of(header.table("space").stored, header.where)
            for name, tensor in tensors.items():
                if (
                    tensor.dtype != (torch.bool if name == "mask" else torch.float64)
                    or not torch.isfinite(tensor).all()
                ):
                    raise header.error(f"{name} is not finite, or not in double precision")
            return Searched(space, distribution, tensors, tuple(history_of(header, "entropy")))

    @property
    def search_taken_from(self) -> str:
        """The run whose search this one has; empty if it is its own."""
        facts = self.read_tensors(SEARCH_FILES[-1])[1] if self.has_search else None
        return facts.text("of") if facts is not None and facts.has("of") else ""

    def write_searched(self, found: Searched, name: str, **facts: Any) -> None:
        """Keep what a search with the distribution of this name has found; its checkpoint is needed no more."""
        self.write_history(found.history)
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
        self.write_tensors(SEARCH_FILES[-1], kept, header)
        self.remove(SEARCH_STATE)

    def write_history(self, history: Sequence[Mapping[str, Any]]) -> None:
        """To read along; nothing is computed from it."""
        self.write_text(SEARCH_FILES[0], "".join(json.dumps(row) + "\n" for row in history))

    # Chains

    def chain_file(self, chain: str) -> str:
        return f"chains/{chain}/state.safetensors"

    def explored_files(self, root: str) -> dict[int, str]:
        """Where chains of one root part, by epoch, the last first."""
        found = self.path.glob(f"chains/explored/{root}-*.safetensors")
        numbers = (path.stem.rpartition("-")[2] for path in found)
        epochs = sorted((int(text) for text in numbers if text.isdecimal()), reverse=True)
        return {epoch: self.explored_file(root, epoch) for epoch in epochs}

    def explored_file(self, root: str, epoch: int) -> str:
        return f"chains/explored/{root}-{epoch:04d}.safetensors"

    def chains(self) -> list[str]:
        """The chains that have a checkpoint."""
        return sorted(path.parent.name for path in self.path.glob("chains/*/state.safetensors"))

    def losses(self) -> dict[str, list[float]]:
        """Mean training loss of chains by epoch."""
        stored = self._read(LOSSES)
        with self.mending(LOSSES):
            return {} if stored is None else {name: list(stored.numbers(name)) for name in stored.stored}

    def write_losses(self, losses: Mapping[str, Sequence[float]]) -> None:
        """To look at while chains are trained, and afterwards; nothing is computed from them."""
        known = {name: own for name, own in self.losses().items() if name not in losses}
        self._write(LOSSES, {**known, **{name: _finite(own) for name, own in losses.items()}})

    def sample_path(self, chain: str, epoch: int) -> Path:
        return self.path / "chains" / chain / "samples" / f"{epoch:04d}.safetensors"

    def samples(self, chain: str) -> list[Member]:
        """The weight samples of a chain, the newest first."""
        files = (self.path / "chains" / chain / "samples").glob("*.safetensors")
        paths = sorted(files, key=lambda path: (len(path.name), path.name), reverse=True)
        with self.mending("chains/"):
            members = [Member.load(path) for path in paths]
            for path, member in zip(paths, members, strict=True):
                origin = member.origin
                right = (self.sample_path(chain, origin.epoch), chain, self.chains_identity, 1)
                if (path, origin.chain, origin.run, origin.samples) != right:  # a mean is no sample
                    raise DamagedFile(f"{path} is another sample, put in its place")
        return members

    @property
    def leases_folder(self) -> Path:
        return self.path / "leases"

    def lease_path(self, key: str) -> Path:
        """Who may write what: `chains/<chain>`, `evaluate/<set>`."""
        return self.leases_folder / f"{key}.lease"


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


def _finite(losses: Sequence[float]) -> list[float]:
    """Those before the first that is none; a chain that diverges says so elsewhere."""
    return [float(f"{loss:.6g}") for loss in itertools.takewhile(math.isfinite, losses)]
