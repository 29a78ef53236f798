"""The run directory: every file in it by name, and what each holds. docs/run-directory.md describes them."""

import itertools
import json
import math
import os
import platform
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uraenas.architectures import DISTRIBUTIONS, Searched
from uraenas.base.errors import DamagedFile, UraenasError, unknown
from uraenas.base.fields import MOST_NUMBER, Fields, is_table, shown
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
from uraenas.base.lock import hold
from uraenas.base.parts import row_of, values_of
from uraenas.base.regular_files import open_regular
from uraenas.base.svg import element
from uraenas.ensemble import SHARE, Ensemble, Known, Member, MemberFacts, Owner, member_files
from uraenas.ensemble.ensemble import DESCRIPTION, description, drawn_from, known_of, vouched_for
from uraenas.ensemble.held_out import CERTAINTY, COVERAGE
from uraenas.ensemble.known import FILE as KNOWN
from uraenas.ensemble.predict import (
    Prediction,
    Unreadable,
    find_files,
    predict_files,
)
from uraenas.ensemble.threshold import Threshold
from uraenas.evaluation import Metrics
from uraenas.learning.chains import MOST_EPOCHS
from uraenas.run.config import Config, deciding, from_json
from uraenas.run.cost import Amounts, Costs
from uraenas.run.facts import DataFacts
from uraenas.run.location import (
    PRETRAINED,
    PROGRESS,
    REPLICATES,
    is_run,
    mending,
    pretrained_names,
    remedy,
    require_run,
    stored_config,
)
from uraenas.run.location import found as found_at
from uraenas.spaces import facts_of, space_of

PRIMARY = ("uraenas", "uraenas-swa", "uraenas-adam")  # whom to ask unless told
COSTS = "cost.json"
LOSSES = "training.json"  # of all chains, to look at
TEACHER = "teacher.json"
SEARCH_STATE = "search/state.safetensors"
SEARCH_FILES = ("search/history.jsonl", "search/architecture.safetensors")  # the first is for reading along
# What a copy of a run takes along, apart from its settings and its methods' own files.
KEPT_FILES = (
    "data.json",
    "environment.json",
    "log.jsonl",
    COSTS,
    LOSSES,
    "metrics.json",
    REPLICATES,
    TEACHER,
    *SEARCH_FILES,
)
REPORT = "report.html"  # shows test images


class Run:
    """A directory that holds everything a run has earned so far."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.costs = Costs(self._read_costs, partial(self._write, COSTS))
        # A worker writes under its lease, and leaves to its driver what all of them would append to.
        self.guard: Callable[[str], AbstractContextManager[Any]] = nullcontext
        self.append: Callable[[str, Mapping[str, Any]], None] = self._append
        self._identities: tuple[str, str] | None = None

    @classmethod
    def pretrained(cls, name: str = "cifar10") -> "Run":
        """A run that comes with the package, ready to predict: members in half precision, and what made them."""
        if name not in pretrained_names():
            raise unknown("pretrained run", name, pretrained_names())
        return cls(PRETRAINED / name)

    @classmethod
    def from_hub(cls, repo: str, revision: str = "") -> "Run":
        """The run in the repository OWNER/NAME of the Hugging Face hub; needs `uraenas[hub]`."""
        from uraenas.run.hub import fetch  # which needs this module

        return fetch(repo, revision)

    @classmethod
    def find(cls, path: Path | str) -> "Run":
        """The run in this directory or under hf://OWNER/NAME; where there is none, the pretrained one of this name."""
        return cls(found_at(path))

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.state})"

    def _repr_html_(self) -> str:
        """What has been reached, and the methods with their members, for notebooks."""
        lines = [_table_row("th", "Method", "Members", "Distinct architectures")]
        for name in self.trained:
            functions = [member.function for member in self.member_facts(name)]
            lines.append(_table_row("td", name, str(len(functions)), str(len(set(functions)))))
        heading = element("p", element("b", str(self.path)) + f": {self.state}")
        return heading + (element("table", *lines) if len(lines) > 1 else "")

    # What it is

    @property
    def state(self) -> str:
        """How far the run has come, in a few words."""
        if not self.exists:
            return "not begun"
        words = ["searched"] if self.has_search else []
        trained = len(list(self.path.glob("methods/*/members/ensemble.json")))
        words += [f"{trained} {'method' if trained == 1 else 'methods'} trained"] if trained else []
        words += ["evaluated"] if self.has("metrics.json") else []
        words += ["reported"] if self.has(REPORT) else []
        return ", ".join(words) or "begun"

    @property
    def is_pretrained(self) -> bool:
        """Whether it comes with the package."""
        return self.path.parent == PRETRAINED

    @property
    def quoted(self) -> str:
        """Its path as a word of a command."""
        return shlex.quote(str(self.path))

    @property
    def exists(self) -> bool:
        return is_run(self.path)

    def require(self) -> None:
        """Refuse a directory that is no run."""
        require_run(self.path)

    @property
    def is_free(self) -> bool:
        """Whether a run may begin here: nothing is there, or only what a killed beginning left."""
        if not self.path.exists():
            return True
        return self.path.is_dir() and all(
            entry.name == "lock" or (entry.name.startswith(".") and entry.name.endswith(".tmp"))
            for entry in self.path.iterdir()
        )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory while working in it."""
        with hold(self.path):
            try:
                yield
            finally:
                self.remove(PROGRESS)  # nobody works here any more

    def tell_progress(self, facts: Mapping[str, Any]) -> None:
        """Write down how far the work here has come, for whoever looks meanwhile."""
        self._write(PROGRESS, {**facts, "process": os.getpid(), "host": platform.node(), "time": time.time()})

    # Files

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> None:
        write_bytes(
            self.path / name, text.encode(errors="backslashreplace")
        )  # a file's name need not be UTF-8

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        """Write tensors with a header of JSON values, and whose they are: a run's, under the name they are read by."""
        whose = {"file": name, "run": self._owner_of(name)}
        texts = {key: json.dumps(value) for key, value in {**header, **whose}.items()}
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
            whose = "this run, put in its place" if own else "another run"
            raise DamagedFile(f"{facts.where} is another file of {whose}")

    def mending(self, name: str) -> AbstractContextManager[None]:
        """Say how to mend a file that is found to be damaged, by what it is for."""
        return mending(self.path, name)

    def hand_on(self, names: Iterable[str], other: "Run") -> None:
        """Copy whole files to another run, where they are there; a damaged one is not handed on."""
        for name in filter(self.has, names):
            if name.endswith(".json"):
                self._read(name)
            elif name.endswith(".safetensors"):
                self.read_tensors(name)
            with open_regular(self.path / name) as file:
                write_bytes(other.path / name, file.read())

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
        except UraenasError as error:
            raise UraenasError(f"{facts.where}: {error}; {remedy(self.path, 'config.json')}") from error

    def begin(self, config: Config, data: DataFacts, chains_of: "Run | None" = None) -> None:
        """Write settings and what the images are known by. A run that has begun stays who it is."""
        if not self.exists:
            own = digest_of(json.dumps(deciding(config)), json.dumps(data.as_json()))
            self._identities = own, own if chains_of is None else chains_of.chains_identity
        self.write_config(config)
        self.write_data(data)

    def write_config(self, config: Config, copy_of: "Run | None" = None) -> None:
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

    def log(self, event: str, **facts: Any) -> None:
        self.append(event, facts)

    def _append(self, event: str, facts: Mapping[str, Any]) -> None:
        append_line(self.path / "log.jsonl", {"time": round(time.time(), 3), "event": event, **facts})

    # The search

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

    # Members

    def members_folder(self, method: str) -> Path:
        return self.path / "methods" / method / "members"

    def predictions_file(self, method: str, images: str) -> str:
        return f"methods/{method}/predictions/{images}.safetensors"

    def cell_file(self, method: str, images: str) -> str:
        """What the method was found to be on one evaluation set."""
        return f"methods/{method}/evaluation/{images}.safetensors"

    def scores_file(self, method: str, other: str) -> str:
        """By what images from elsewhere were told from the test images."""
        return f"methods/{method}/outside/{other}.safetensors"

    @property
    def has_predictions(self) -> bool:
        return any(self.path.glob("methods/*/predictions/*.safetensors"))

    def member_facts(self, method: str) -> list[MemberFacts]:
        """What the members' files say of them, where they are there."""
        folder = self.members_folder(method)
        if not (folder / DESCRIPTION).exists():
            return []
        with self._mending_members(method):
            facts = description(folder, Owner(self.identity, method))
            found = [MemberFacts.read(path, one) for path, one in vouched_for(folder, facts).items()]
            places = drawn_from(facts, len(found))
            return [replace(found[place], draw=draw, place=place) for place, draw in places]

    def _mending_members(self, method: str) -> AbstractContextManager[None]:
        return self.mending(f"methods/{method}/members/{DESCRIPTION}")

    def adopt(self, method: str, ensemble: Ensemble) -> None:
        """Make these the method's members; samples' files are shared, not copied, where the disk allows it."""
        folder = self.members_folder(method)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        networks = ensemble.networks
        for member, target in zip(networks, member_files(folder, len(networks)), strict=True):
            sample = self.sample_path(member.origin.chain, member.origin.epoch)
            if member.origin.samples == 1 and Member.load(sample).network == member.network:
                link(sample, target)
            else:
                member.save(target, ensemble.space)
        ensemble.describe(folder, Owner(self.identity, method))

    def is_trained(self, method: str) -> bool:
        """Whether the method's members are there, all of them, and what says when they should abstain."""
        folder = self.members_folder(method)
        if not (folder / DESCRIPTION).exists():
            return False
        with self._mending_members(method):
            facts = description(folder, Owner(self.identity, method))
            complete = facts.stored.get("known") is None or (folder / KNOWN).exists()
            return complete and all(path.exists() for path in vouched_for(folder, facts))

    @property
    def trained(self) -> list[str]:
        """The methods whose members are there."""
        return [path.name for path in sorted(self.path.glob("methods/*")) if self.is_trained(path.name)]

    @property
    def primary(self) -> str:
        """The method to ask unless told: the joint ensemble, or else the first that is trained."""
        trained = [name for name in self.config().methods if self.is_trained(name)] or self.trained
        return next((name for name in PRIMARY if name in trained), (trained or [PRIMARY[0]])[0])

    def ensemble(self, method: str = "") -> Ensemble:
        """The members of a method, ready to predict."""
        config = self.config()
        method = method or self.primary
        if not self.is_trained(method):
            if self.trained and method not in config.methods:
                raise unknown("trained method", method, self.trained)
            raise UraenasError(f"{self.path} holds no trained {method}; run: uraenas train {self.quoted}")
        with self._mending_members(method):
            return Ensemble.load(self.members_folder(method), Owner(self.identity, method))

    # Predicting

    def known(self, method: str) -> Known | None:
        """What the method's ensemble keeps of the images it knows, where it has been kept."""
        folder = self.members_folder(method)
        if not (folder / KNOWN).exists():
            return None
        with self._mending_members(method):
            return known_of(folder, description(folder, Owner(self.identity, method)))

    def threshold(self, risk: float, method: str = "", certainty: float = CERTAINTY) -> Threshold:
        """The confidence below which to abstain, for this share of errors among the rest."""
        return self.ensemble(method).require_known().threshold(risk, certainty)

    def predict(
        self,
        paths: Iterable[Path | str],
        risk: float = 0.05,
        method: str = "",
        share: float = SHARE,
        certainty: float = CERTAINTY,
        coverage: float = COVERAGE,
    ) -> list[Prediction | Unreadable]:
        """What a method says of these files, and of all files in these folders that end as images do."""
        ensemble = self.ensemble(method)
        files, _ = find_files([Path(path) for path in paths])
        return list(predict_files(ensemble, files, risk, share, certainty=certainty, coverage=coverage))

    # What was found

    def metrics(self) -> Metrics:
        self.config()  # a directory of another version is told so
        if not self.has("metrics.json"):
            raise UraenasError(f"{self.path} holds no metrics yet; run: uraenas evaluate {self.quoted}")
        stored = self._read("metrics.json")
        assert stored is not None
        with self.mending("metrics.json"):
            return Metrics.of(stored)

    def write_outcome(self, metrics: Metrics, replicates: Mapping[str, Tensor]) -> None:
        """Write metrics.json, and the bootstrap replicates by which another run can be compared with this one."""
        self.write_tensors(REPLICATES, {k: r.float() for k, r in replicates.items()}, {})
        self._write("metrics.json", metrics.as_json())

    def replicates(self) -> dict[str, Tensor]:
        """The bootstrap's, by shift/method/calibration/metric."""
        found, facts = self.read_tensors(REPLICATES)
        with self.mending(REPLICATES):
            shapes = {(one.ndim, len(one), one.dtype) for one in found.values() if one.ndim}
            if len(shapes) != 1 or not all(
                one.ndim == 1 and torch.isfinite(one).all() for one in found.values()
            ):
                raise facts.error("it does not hold as many replicates of every metric")
        return found


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


def link(source: Path, target: Path) -> None:
    """The same file under a second name, or a copy where the disk does not allow that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _table_row(kind: str, *cells: str) -> str:
    return element("tr", *(element(kind, cell) for cell in cells))
