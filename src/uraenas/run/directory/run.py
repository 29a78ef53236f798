"""A run: where it is found, how far it has come, who works on it, its methods, and what was measured."""

import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uraenas.architectures import Searched
from uraenas.base.errors import UraenasError, unknown
from uraenas.base.lock import hold
from uraenas.base.svg import element
from uraenas.data.tables import Columns
from uraenas.ensemble import SHARE, Ensemble, Known, MemberFacts
from uraenas.ensemble.asked import RISK, Asked
from uraenas.ensemble.held_out import CERTAINTY, COVERAGE
from uraenas.ensemble.predict import Prediction, Unreadable, find_files, predict_files
from uraenas.ensemble.threshold import Threshold
from uraenas.evaluation import Metrics
from uraenas.run.directory import searches
from uraenas.run.directory.chains import ChainFiles
from uraenas.run.directory.files import COSTS, LOSSES, TEACHER, RunFiles, anywhere
from uraenas.run.directory.members import MemberFiles
from uraenas.run.fetching import fetch
from uraenas.run.location import PRETRAINED, PROGRESS, REPLICATES, pretrained_names
from uraenas.run.location import found as found_at

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
    searches.HISTORY,
    searches.FOUND,
)
REPORT = "report.html"  # shows test images
PRIMARY = ("uraenas", "uraenas-swa", "joint-adam", "uraenas-adam")  # whom to ask unless told


class Run(RunFiles):
    """A directory that holds everything a run has earned so far."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path)
        self.chains = ChainFiles(self)

    @classmethod
    def pretrained(cls, name: str = "cifar10") -> "Run":
        """A run that comes with the package, ready to predict: members in half precision, and what made them."""
        if name not in pretrained_names():
            raise unknown("pretrained run", name, pretrained_names())
        return cls(PRETRAINED / name)

    @classmethod
    def from_hub(cls, repo: str, revision: str = "") -> "Run":
        """The run in the repository OWNER/NAME of the Hugging Face hub; needs `uraenas[hub]`."""
        return cls(fetch(repo, revision))

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
        with hold(self.path) as self.require_here:
            try:
                yield
            except BaseException:
                with suppress(UraenasError, OSError):
                    self._tell_stopped()
                raise
            else:
                with suppress(UraenasError):  # where it was, another may be at work
                    self.remove(PROGRESS)  # nobody works here any more
            finally:
                self.require_here = anywhere

    def tell_progress(self, facts: Mapping[str, Any]) -> None:
        """Write down how far the work here has come, for whoever looks meanwhile."""
        self._write(PROGRESS, {**facts, "process": os.getpid(), "host": platform.node(), "time": time.time()})

    def _tell_stopped(self) -> None:
        """Leave how far the work of this process had come, and when it ended."""
        told = self._read(PROGRESS)
        if told is not None and told.whole("process") == os.getpid():
            self.tell_progress({**told.stored, "stopped": True})

    # Search

    @property
    def has_search(self) -> bool:
        return self.has(searches.FOUND)

    def searched(self) -> Searched | None:
        """What the search has found, once it is over."""
        return searches.read_searched(self)

    def write_searched(self, found: Searched, name: str, **facts: Any) -> None:
        """Keep what a search with the distribution of this name has found."""
        searches.write_searched(self, found, name, facts)

    # Methods

    def members(self, method: str) -> MemberFiles:
        return MemberFiles(self, method)

    def members_folder(self, method: str) -> Path:
        return self.members(method).folder

    def member_facts(self, method: str) -> list[MemberFacts]:
        """What the members' files say of them, where they are there."""
        return self.members(method).facts()

    def inputs(self, method: str) -> Columns | None:
        """The columns that a method's members read, where they are there and of a table."""
        return self.members(method).inputs()

    def known(self, method: str) -> Known | None:
        """What the method's ensemble keeps of the images it knows, where it has been kept."""
        return self.members(method).known()

    def is_trained(self, method: str) -> bool:
        return self.members(method).are_complete

    def adopt(self, method: str, ensemble: Ensemble) -> None:
        """Make these the method's members."""
        self.members(method).adopt(ensemble, self.chains)

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
        return self.members(method).ensemble()

    def threshold(self, risk: float, method: str = "", certainty: float = CERTAINTY) -> Threshold:
        """The confidence below which to abstain, for this share of errors among the rest."""
        return self.ensemble(method).require_known().threshold(risk, certainty)

    @property
    def marks(self) -> set[str]:
        """Of the images it has learned from, as far as they are known; predictions can do without."""
        with suppress(UraenasError):
            return images.marks if (images := self.data()) else set()
        return set()

    def predict(
        self,
        paths: Iterable[Path | str],
        risk: float = RISK,
        method: str = "",
        share: float = SHARE,
        certainty: float = CERTAINTY,
        coverage: float = COVERAGE,
    ) -> list[Prediction | Unreadable]:
        """What a method says of these files, and of all files in these folders that end as images do."""
        ensemble = self.ensemble(method)
        files, _ = find_files([Path(path) for path in paths])
        asked = Asked(risk, share, certainty, coverage)
        return list(predict_files(ensemble, files, asked, learned=self.marks))

    # What was measured

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
        self.log("evaluated", rows=len(metrics.rows))

    def replicates(self) -> dict[str, Tensor]:
        """The bootstrap's, by shift/method/calibration/metric; none where it was switched off."""
        found, facts = self.read_tensors(REPLICATES)
        if not found:
            return found
        with self.mending(REPLICATES):
            shapes = {(one.ndim, len(one), one.dtype) for one in found.values() if one.ndim}
            if len(shapes) != 1 or any(one.ndim != 1 for one in found.values()):
                raise facts.error("it does not hold as many replicates of every metric")
            if not torch.isfinite(torch.stack(list(found.values()))).all():
                raise facts.error("it holds replicates that are not finite")
        return found


def _table_row(kind: str, *cells: str) -> str:
    return element("tr", *(element(kind, cell) for cell in cells))
