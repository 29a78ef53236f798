"""The run directory: every file in it by name, and what each holds. docs/run-directory.md describes them."""

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from torch import Tensor

from uraenas.architectures import DISTRIBUTIONS, Searched
from uraenas.base.errors import UraenasError, unknown
from uraenas.base.files import (
    append_line,
    read_json,
    read_tensors,
    require_format,
    write_bytes,
    write_json,
    write_tensors,
)
from uraenas.base.lock import hold
from uraenas.base.parts import row_of, values_of
from uraenas.base.svg import element
from uraenas.ensemble import SHARE, Ensemble, Member, MemberFacts, member_files
from uraenas.ensemble.predict import (
    Prediction,
    Unreadable,
    find_files,
    predict_files,
)
from uraenas.ensemble.threshold import Threshold
from uraenas.evaluation import Metrics
from uraenas.run.config import Config, from_json
from uraenas.run.cost import Costs
from uraenas.run.facts import DataFacts
from uraenas.spaces import facts_of, space_of
from uraenas.spaces.cells.skeleton import LONGEST

HALVINGS = "network.halvings"
PRIMARY = ("uraenas", "uraenas-swa")  # whom to ask unless told
REPLICATES = "bootstrap.safetensors"
SEARCH_STATE = "search/state.safetensors"
PRETRAINED = Path(__file__).parent.parent / "pretrained"
SEARCH_FILES = ("search/history.jsonl", "search/architecture.safetensors")  # the first is for reading along
# What a copy of a run takes along, apart from its settings and its methods' own files.
KEPT_FILES = (
    "data.json",
    "environment.json",
    "log.jsonl",
    "cost.json",
    "metrics.json",
    REPLICATES,
    "report.html",
    *SEARCH_FILES,
)


class Run:
    """A directory that holds everything a run has earned so far."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.costs = Costs(self.path / "cost.json")

    @classmethod
    def pretrained(cls, name: str = "cifar10") -> "Run":
        """A run that comes with the package, ready to predict: members in half precision, and what made them."""
        if name not in pretrained_names():
            raise unknown("pretrained run", name, pretrained_names())
        return cls(PRETRAINED / name)

    @classmethod
    def find(cls, path: Path | str) -> "Run":
        """The run in this directory; where there is none, the pretrained one of this name."""
        own, name = cls(path), str(path)
        return cls.pretrained(name) if not own.exists and name in pretrained_names() else own

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
        words += ["reported"] if self.has("report.html") else []
        return ", ".join(words) or "begun"

    @property
    def is_pretrained(self) -> bool:
        """Whether it comes with the package."""
        return self.path.parent == PRETRAINED

    @property
    def exists(self) -> bool:
        return self.has("config.json")

    def require(self) -> None:
        """Refuse a directory that is no run."""
        if self.has("estimator.json"):
            raise UraenasError(
                f"{self.path} is a saved UraeNAS, not a run; open it with UraeNAS.load in Python"
            )
        if not self.exists:
            raise UraenasError(
                f"{self.path} is not a run directory; start one with: uraenas run --out {self.path} "
                f"(pretrained, to predict with: {', '.join(pretrained_names())})"
            )

    @property
    def is_free(self) -> bool:
        """Whether a run may begin here: nothing is there, or only what a killed beginning left."""
        if not self.path.exists():
            return True
        return self.path.is_dir() and all(
            entry.name == "lock" or (entry.name.startswith(".") and entry.name.endswith(".tmp"))
            for entry in self.path.iterdir()
        )

    def held(self) -> AbstractContextManager[None]:
        """Hold the directory while working in it."""
        return hold(self.path)

    # Files

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> None:
        write_bytes(self.path / name, text.encode())

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        """Write tensors with a header of JSON values, and the name by which they will be read."""
        texts = {key: json.dumps(value) for key, value in {**header, "file": name}.items()}
        write_tensors(self.path / name, tensors, texts)

    def read_tensors(self, name: str, needed: Iterable[str] = ()) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and header of a file that must hold the needed names, in the one or in the other."""
        tensors, texts = read_tensors(self.path / name)
        try:
            header = {key: json.loads(value) for key, value in texts.items()}
        except ValueError:
            header = {}  # not written by `write_tensors` above
        if header.pop("file", name) != name:
            raise UraenasError(f"{self.path / name} is another file of a run, put in its place")
        if missing := set(needed) - set(tensors) - set(header):
            raise UraenasError(
                f"{self.path / name} lacks {', '.join(sorted(missing))}; delete it and run the same command again"
            )
        return tensors, header

    def hand_on(self, names: Iterable[str], other: "Run") -> None:
        """Copy whole files to another run, where they are there; a damaged one is not handed on."""
        for name in filter(self.has, names):
            if name.endswith(".json"):
                read_json(self.path / name)
            elif name.endswith(".safetensors"):
                read_tensors(self.path / name)
            write_bytes(other.path / name, (self.path / name).read_bytes())

    # Settings and surroundings

    def config(self) -> Config:
        self.require()
        stored = read_json(self.path / "config.json")
        require_format(self.path, stored)
        if HALVINGS not in stored and (data := self.data()) and max(data.image[:2]) > LONGEST:
            stored[HALVINGS] = 0  # it is from before the stem could halve its images
        return from_json(stored)

    def write_config(self, config: Config) -> None:
        write_json(self.path / "config.json", config.as_json())

    def data(self) -> DataFacts | None:
        """What its images are known by."""
        return DataFacts.from_json(read_json(self.path / "data.json")) if self.has("data.json") else None

    def write_data(self, facts: DataFacts) -> None:
        write_json(self.path / "data.json", facts.as_json())

    def environment(self) -> dict[str, Any]:
        return read_json(self.path / "environment.json") if self.has("environment.json") else {}

    def write_environment(self, facts: Mapping[str, Any]) -> None:
        write_json(self.path / "environment.json", facts)

    def log(self, event: str, **facts: Any) -> None:
        append_line(self.path / "log.jsonl", {"time": round(time.time(), 3), "event": event, **facts})

    # The search

    @property
    def has_search(self) -> bool:
        return self.has(SEARCH_FILES[-1])

    def searched(self) -> Searched | None:
        """What the search has found, once it is over."""
        if not self.has_search:
            return None
        tensors, header = self.read_tensors(SEARCH_FILES[-1], ("distribution", "space", "history"))
        try:
            chosen, history = header["distribution"], tuple(header["history"])
            distribution = row_of(DISTRIBUTIONS, "distribution", chosen["name"]).make(chosen["settings"])
        except (KeyError, TypeError) as error:
            raise UraenasError(f"{self.path / SEARCH_FILES[-1]} is no search's result: {error!r}") from error
        return Searched(space_of(header["space"]), distribution, tensors, history)

    @property
    def search_taken_from(self) -> str:
        """The run whose search this one has; empty if it is its own."""
        return str(self.read_tensors(SEARCH_FILES[-1])[1].get("of", "")) if self.has_search else ""

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
        kept = {key: found.state[key] for key in (*found.distribution.learned, "mask") if key in found.state}
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
        epochs = sorted((int(path.stem.rpartition("-")[2]) for path in found), reverse=True)
        return {epoch: self.explored_file(root, epoch) for epoch in epochs}

    def explored_file(self, root: str, epoch: int) -> str:
        return f"chains/explored/{root}-{epoch:04d}.safetensors"

    def chains(self) -> list[str]:
        """The chains that have a checkpoint."""
        return sorted(path.parent.name for path in self.path.glob("chains/*/state.safetensors"))

    def sample_path(self, chain: str, epoch: int) -> Path:
        return self.path / "chains" / chain / "samples" / f"{epoch:04d}.safetensors"

    def samples(self, chain: str) -> list[Member]:
        """The weight samples of a chain, the newest first."""
        files = (self.path / "chains" / chain / "samples").glob("*.safetensors")
        paths = sorted(files, key=lambda path: (len(path.name), path.name), reverse=True)
        members = [Member.load(path) for path in paths]
        for path, member in zip(paths, members, strict=True):
            if path != self.sample_path(chain, member.origin.epoch) or member.origin.chain != chain:
                raise UraenasError(f"{path} is another sample, put in its place")
        return members

    # Members

    def members_folder(self, method: str) -> Path:
        return self.path / "methods" / method / "members"

    def predictions_file(self, method: str, images: str) -> str:
        return f"methods/{method}/predictions/{images}.safetensors"

    def cell_file(self, method: str, images: str) -> str:
        """What the method was found to be on one evaluation set."""
        return f"methods/{method}/evaluation/{images}.safetensors"

    @property
    def has_predictions(self) -> bool:
        return any(self.path.glob("methods/*/predictions/*.safetensors"))

    def member_facts(self, method: str) -> list[MemberFacts]:
        """What the members' files say of them."""
        return [
            MemberFacts.read(path) for path in sorted(self.members_folder(method).glob("[0-9]*.safetensors"))
        ]

    def adopt(self, method: str, ensemble: Ensemble) -> None:
        """Make these the method's members; samples' files are shared, not copied, where the disk allows it."""
        folder = self.members_folder(method)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        for member, target in zip(ensemble.members, member_files(folder, len(ensemble)), strict=True):
            if member.origin.samples > 1:
                member.save(target, ensemble.space)
            else:
                link(self.sample_path(member.origin.chain, member.origin.epoch), target)
        ensemble.describe(folder)

    def is_trained(self, method: str) -> bool:
        """Whether the method's members are there, all of them."""
        folder = self.members_folder(method)
        if not (folder / "ensemble.json").exists():
            return False
        facts = read_json(folder / "ensemble.json")
        members = facts.get("members") if isinstance(facts, dict) else None
        return isinstance(members, list) and all(p.exists() for p in member_files(folder, len(members)))

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
            raise UraenasError(f"{self.path} holds no trained {method}; run: uraenas train {self.path}")
        return Ensemble.load(self.members_folder(method))

    # Predicting

    def threshold(self, risk: float, method: str = "") -> Threshold:
        """The confidence below which to abstain, for this share of errors among the rest."""
        return self.ensemble(method).require_known().threshold(risk)

    def predict(
        self, paths: Iterable[Path | str], risk: float = 0.05, method: str = "", share: float = SHARE
    ) -> list[Prediction | Unreadable]:
        """What a method says of these files, and of all files in these folders that end as images do."""
        ensemble = self.ensemble(method)
        files, _ = find_files([Path(path) for path in paths])
        return list(predict_files(ensemble, files, risk, share))

    # What was found

    def metrics(self) -> Metrics:
        self.config()  # a directory of another version is told so
        if not self.has("metrics.json"):
            raise UraenasError(f"{self.path} holds no metrics yet; run: uraenas evaluate {self.path}")
        try:
            return Metrics.from_json(read_json(self.path / "metrics.json"))
        except UraenasError as error:
            raise UraenasError(
                f"{self.path / 'metrics.json'} is damaged ({error}); run: uraenas evaluate {self.path}"
            ) from error

    def write_outcome(self, metrics: Metrics, replicates: Mapping[str, Tensor]) -> None:
        """Write metrics.json, and the bootstrap replicates by which another run can be compared with this one."""
        self.write_tensors(REPLICATES, {k: r.float() for k, r in replicates.items()}, {})
        write_json(self.path / "metrics.json", metrics.as_json())

    def replicates(self) -> dict[str, Tensor]:
        """The bootstrap's, by shift/method/calibration/metric."""
        found, _ = self.read_tensors(REPLICATES)
        if len({one.shape for one in found.values()}) != 1:
            raise UraenasError(f"{self.path / REPLICATES} is damaged; run: uraenas evaluate {self.path}")
        return found


def link(source: Path, target: Path) -> None:
    """The same file under a second name, or a copy where the disk does not allow that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def pretrained_names() -> list[str]:
    """The runs that come with the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob("*/config.json"))


def _table_row(kind: str, *cells: str) -> str:
    return element("tr", *(element(kind, cell) for cell in cells))
