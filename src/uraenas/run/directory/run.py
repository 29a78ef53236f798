"""A run: where it is found, how far it has come, who works on it, and what was measured."""

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError, unknown
from uraenas.base.lock import hold
from uraenas.base.svg import element
from uraenas.evaluation import Metrics
from uraenas.run.directory.chains import LOSSES, SEARCH_FILES
from uraenas.run.directory.files import COSTS, TEACHER
from uraenas.run.directory.members import RunMembers
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
    *SEARCH_FILES,
)
REPORT = "report.html"  # shows test images


class Run(RunMembers):
    """A directory that holds everything a run has earned so far."""

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
        with hold(self.path):
            try:
                yield
            finally:
                self.remove(PROGRESS)  # nobody works here any more

    def tell_progress(self, facts: Mapping[str, Any]) -> None:
        """Write down how far the work here has come, for whoever looks meanwhile."""
        self._write(PROGRESS, {**facts, "process": os.getpid(), "host": platform.node(), "time": time.time()})

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
            if len(shapes) != 1 or any(one.ndim != 1 for one in found.values()):
                raise facts.error("it does not hold as many replicates of every metric")
            if not torch.isfinite(torch.stack(list(found.values()))).all():
                raise facts.error("it does not hold as many replicates of every metric")
        return found


def _table_row(kind: str, *cells: str) -> str:
    return element("tr", *(element(kind, cell) for cell in cells))
