"""What all files of a run have in common: whose they are, how they are written, read and mended; its settings."""

import itertools
import json
import math
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from uraenas.base.errors import DamagedFile, UnknownName, UraenasError
from uraenas.base.fields import Fields
from uraenas.base.files import (
    append_line,
    digest_of,
    parse_json,
    read_json,
    read_tensors,
    write_bytes,
    write_json,
    write_tensors,
)
from uraenas.base.parts import OWN_PARTS
from uraenas.base.regular_files import open_regular
from uraenas.run.config import Config, deciding, from_json
from uraenas.run.cost import Amounts, Costs
from uraenas.run.facts import DataFacts
from uraenas.run.location import is_run, mending, remedy, stored_config

COSTS = "cost.json"
LOSSES = "training.json"  # of all chains, to look at
TEACHER = "teacher.json"


class RunFiles:
    """The directory, the files in it by name, and what the run is made of."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.costs = Costs(self._read_costs, partial(self._write, COSTS))
        # A worker writes under its lease, and leaves to its driver what all of them would append to.
        self.guard: Callable[[str], AbstractContextManager[Any]] = nullcontext
        self.append: Callable[[str, Mapping[str, Any]], None] = self._append
        self.add_losses: Callable[[Mapping[str, Sequence[float]]], None] = self._add_losses
        self.require_here: Callable[[], None] = anywhere  # where it is held: refuses one that was moved away
        self._identities: tuple[str, str] | None = None

    @property
    def quoted(self) -> str:
        """Its path as a word of a command."""
        return shlex.quote(str(self.path))

    @property
    def exists(self) -> bool:
        return is_run(self.path)

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def remove(self, name: str) -> None:
        self.require_here()
        (self.path / name).unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> None:
        self.require_here()
        # A file's name need not be UTF-8.
        write_bytes(self.path / name, text.encode(errors="backslashreplace"))

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        """Write tensors with a header of JSON values, and whose they are: a run's, under the name they are read by."""
        whose = {"file": name, "run": self._owner_of(name)}
        texts = {key: json.dumps(value) for key, value in {**header, **whose}.items()}
        self.require_here()
        with self.guard(name):
            write_tensors(self.path / name, tensors, texts)

    def read_tensors(self, name: str, needed: Iterable[str] = ()) -> tuple[dict[str, Tensor], Fields]:
        """Tensors, among them the needed ones, and header of a file of this run."""
        path = self.path / name
        with self.mending(name):
            tensors, texts = read_tensors(path)
            header = {key: parse_json(path, value, finite=False) for key, value in texts.items()}
            self._require_own(name, Fields(path, header))
            if missing := set(needed) - set(tensors):
                raise DamagedFile(f"{path} lacks {', '.join(sorted(missing))}")
        return tensors, Fields(path, {key: header[key] for key in header.keys() - {"file", "run"}})

    def _write(self, name: str, table: Mapping[str, Any]) -> None:
        self.require_here()
        write_json(self.path / name, {**table, "run": self._owner_of(name)})

    def _read(self, name: str) -> Fields | None:
        """What a JSON file of this run says, if it is there."""
        if not self.has(name):
            return None
        with self.mending(name):
            found = Fields(self.path / name, read_json(self.path / name))
            self._require_own(name, found)
        return Fields(found.where, {key: value for key, value in found.stored.items() if key != "run"})

    def _read_costs(self) -> Amounts:
        stored = self._read(COSTS)
        if stored is None:
            return {}
        items = {item: stored.table(item) for item in stored.stored}
        return {item: {unit: own.number(unit, 0) for unit in own.stored} for item, own in items.items()}

    def _owner_of(self, name: str) -> str:
        return self.chains_identity if name.startswith("chains/") else self.identity

    def _require_own(self, name: str, facts: Fields) -> None:
        """Refuse a file of another run, and one that has another's name."""
        own = facts.text("run") == self._owner_of(name)
        if not own or (facts.has("file") and facts.text("file") != name):
            whose = "another file of this run, put in its place" if own else "a file of another run"
            raise DamagedFile(f"{facts.where} is {whose}")

    def mending(self, name: str) -> AbstractContextManager[None]:
        """Say how to mend a file that is found to be damaged, by what it is for."""
        return mending(self.path, name)

    def hand_on(self, names: Iterable[str], other: "RunFiles") -> None:
        """Copy whole files to another run, where they are there; a damaged one is not handed on."""
        for name in filter(self.has, names):
            if name.endswith(".json"):
                self._read(name)
            elif name.endswith(".safetensors"):
                self.read_tensors(name)
            with open_regular(self.path / name) as file:
                write_bytes(other.path / name, file.read())

    @property
    def leases_folder(self) -> Path:
        return self.path / "leases"

    def lease_path(self, key: str) -> Path:
        """Who may write what: `chains/<chain>`, `evaluate/<set>`."""
        return self.leases_folder / f"{key}.lease"

    # Settings and surroundings

    @property
    def identity(self) -> str:
        """What all its files carry: a checksum of settings and images at its beginning."""
        return self._known_identities[0]

    @property
    def chains_identity(self) -> str:
        """What its chains carry: its own identity, or that of the run they were taken from."""
        return self._known_identities[1]

    @property
    def _known_identities(self) -> tuple[str, str]:
        if self._identities is None:
            facts = self._stored_config()
            own = facts.text("run", 64)
            self._identities = own, facts.text("chains", 64) if facts.has("chains") else own
        return self._identities

    def _stored_config(self) -> Fields:
        return stored_config(self.path)

    def config(self) -> Config:
        facts = self._stored_config()
        try:
            return from_json(facts.stored)
        except UnknownName as error:
            raise UraenasError(f"{facts.where}: {error} {OWN_PARTS}") from error
        except UraenasError as error:
            raise UraenasError(f"{facts.where}: {error}; {remedy(self.path, 'config.json')}") from error

    def begin(self, config: Config, data: DataFacts, chains_of: "RunFiles | None" = None) -> None:
        """Write settings and what the images are known by. A run that has begun stays who it is."""
        if not self.exists:
            known = replace(data, tested="", learned="")  # which follow from all images
            own = digest_of(json.dumps(deciding(config)), json.dumps(known.as_json()))
            self._identities = own, own if chains_of is None else chains_of.chains_identity
        self.write_config(config)
        self.write_data(data)

    def write_config(self, config: Config, copy_of: "RunFiles | None" = None) -> None:
        """Write the settings; a copy of a run has the identity of the run."""
        if copy_of is not None:
            self._identities = copy_of._known_identities
        elif self._identities is None and not self.exists:
            own = digest_of(json.dumps(deciding(config)))
            self._identities = own, own
        own, chains = self._known_identities
        whose = {"run": own} if chains == own else {"run": own, "chains": chains}
        write_json(self.path / "config.json", {**config.as_json(), **whose})

    def data(self) -> DataFacts | None:
        """What its images are known by."""
        stored = self._read("data.json")
        with self.mending("data.json"):
            return None if stored is None else DataFacts.of(stored)

    def write_data(self, facts: DataFacts) -> None:
        self._write("data.json", facts.as_json())

    def environment(self) -> dict[str, str | int]:
        stored = self._read("environment.json")
        with self.mending("environment.json"):
            if stored is None:
                return {}
            return {
                name: stored.text(name) if isinstance(value, str) else stored.whole(name)
                for name, value in stored.stored.items()
            }

    def write_environment(self, facts: Mapping[str, Any]) -> None:
        self._write("environment.json", facts)

    def teacher(self) -> dict[str, Any] | None:
        """What its networks learned from in place of labels, if they did, and how the two compare."""
        stored = self._read(TEACHER)
        if stored is None:
            return None
        with self.mending(TEACHER):
            stored.text("ensemble", 64)
            return dict(stored.stored)

    def write_teacher(self, facts: Mapping[str, Any]) -> None:
        self._write(TEACHER, facts)

    def losses(self) -> dict[str, list[float]]:
        """Mean training loss of chains by epoch."""
        stored = self._read(LOSSES)
        with self.mending(LOSSES):
            return {} if stored is None else {name: list(stored.numbers(name)) for name in stored.stored}

    def write_losses(self, losses: Mapping[str, Sequence[float]]) -> None:
        """To look at while chains are trained, and afterwards; nothing is computed from them."""
        self.add_losses({name: _finite(own) for name, own in losses.items()})

    def _add_losses(self, losses: Mapping[str, Sequence[float]]) -> None:
        self._write(LOSSES, {**self.losses(), **losses})

    def log(self, event: str, **facts: Any) -> None:
        self.append(event, facts)

    def _append(self, event: str, facts: Mapping[str, Any]) -> None:
        self.require_here()
        append_line(self.path / "log.jsonl", {"time": round(time.time(), 3), "event": event, **facts})


def anywhere() -> None:
    """Of a directory that nobody holds, no more is asked than that it is there."""


def _finite(losses: Sequence[float]) -> list[float]:
    """Those before the first that is none; a chain that diverges says so elsewhere."""
    return [float(f"{loss:.6g}") for loss in itertools.takewhile(math.isfinite, losses)]
