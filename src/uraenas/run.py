"""The run directory: what is in it."""

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from uraenas.cost import Costs
from uraenas.ensemble import Ensemble, Member, member_files
from uraenas.errors import UraenasError, unknown
from uraenas.files import append_line, read_json, read_tensors, write_bytes, write_json, write_tensors
from uraenas.lock import hold
from uraenas.predict import Prediction, Threshold, Unreadable, find_files, predict_files, threshold_for
from uraenas.spaces import Genotype
from uraenas.svg import element

PRETRAINED = Path(__file__).parent / "pretrained"


@dataclass(frozen=True)
class MemberFacts:
    """What a member's file says of it, apart from its weights."""

    genotype: Genotype
    chain: str
    epoch: int
    samples: int  # how many its weights are the mean of


class Run:
    """A directory that holds everything a run has earned so far. docs/run-directory.md describes its files."""

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
        lines = [_table_row("th", "Method", "Members", "Distinct genotypes")]
        for name in self.trained:
            genotypes = [member.genotype for member in self.member_facts(name)]
            lines.append(_table_row("td", name, str(len(genotypes)), str(len(set(genotypes)))))
        heading = element("p", element("b", str(self.path)) + f": {self.state}")
        return heading + (element("table", *lines) if len(lines) > 1 else "")

    @property
    def state(self) -> str:
        """How far the run has come, in a few words."""
        if not self.exists:
            return "not begun"
        words = ["searched"] if self.has("search/architecture.safetensors") else []
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
        return (self.path / "config.json").exists()

    def require(self) -> None:
        """Refuse a directory that is no run."""
        if (self.path / "estimator.json").exists():
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

    # Whole files

    def write_json(self, name: str, table: Mapping[str, Any]) -> None:
        write_json(self.path / name, table)

    def read_json(self, name: str) -> Any:
        return read_json(self.path / name)

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
                f"{self.path / name} lacks {', '.join(sorted(missing))}: another version of uraenas wrote it; "
                "delete it and run the same command again, or choose another directory (--out)"
            )
        return tensors, header

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    # Log and outcome

    def log(self, event: str, **facts: Any) -> None:
        append_line(self.path / "log.jsonl", {"time": round(time.time(), 3), "event": event, **facts})

    def metrics(self) -> dict[str, Any]:
        """metrics.json, after a look at its form."""
        self.require()
        if not self.has("metrics.json"):
            raise UraenasError(f"{self.path} holds no metrics yet; run: uraenas evaluate {self.path}")
        metrics = self.read_json("metrics.json")
        needed = {"method", "shift", "metric", "value", "members", "calibration"}
        rows = metrics.get("rows") if isinstance(metrics, dict) else None
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) and needed <= set(row) for row in rows
        ):
            raise UraenasError(f"{self.path / 'metrics.json'} is damaged; run: uraenas evaluate {self.path}")
        return metrics

    def write_outcome(self, metrics: Mapping[str, Any], replicates: Mapping[str, Tensor]) -> None:
        """Write metrics.json, and the bootstrap replicates by which another run can be compared with this one."""
        self.write_tensors("bootstrap.safetensors", {k: r.float() for k, r in replicates.items()}, {})
        self.write_json("metrics.json", metrics)

    def search_result(self) -> tuple[Tensor | None, list[dict[str, Any]]]:
        """The learned concentration and the history of the search that found it, once it is over."""
        if not self.has("search/architecture.safetensors"):
            return None, []
        tensors, header = self.read_tensors("search/architecture.safetensors", ["concentration"])
        return tensors["concentration"], header.get("history", [])  # the first files had none

    # Members

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

    def members_folder(self, method: str) -> Path:
        return self.path / "methods" / method / "members"

    def member_facts(self, method: str) -> list[MemberFacts]:
        """What the members' files say of them."""
        members = []
        for path in sorted(self.members_folder(method).glob("*.safetensors")):
            _, header = read_tensors(path)
            try:
                genotype = Genotype.from_string(header["genotype"])
                epoch, samples = int(header["epoch"]), int(header.get("samples", 1))
                members.append(MemberFacts(genotype, header["chain"], epoch, samples))
            except (KeyError, ValueError) as error:
                raise UraenasError(f"{path} is not a member file: {error}") from error
        return members

    def adopt(self, method: str, ensemble: Ensemble) -> None:
        """Make these the method's members; samples' files are shared, not copied, where the disk allows it."""
        folder = self.members_folder(method)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        for member, target in zip(ensemble.members, member_files(folder, len(ensemble)), strict=True):
            if member.origin.samples > 1:
                member.save(target, ensemble.skeleton)
                continue
            source = self.sample_path(member.origin.chain, member.origin.epoch)
            try:
                os.link(source, target)
            except OSError:
                shutil.copyfile(source, target)
        ensemble.describe(folder)

    def chains(self) -> list[str]:
        """The chains that have a checkpoint."""
        return sorted(path.parent.name for path in self.path.glob("chains/*/state.safetensors"))

    def read_chain(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and header of a chain's checkpoint."""
        needed = ("genotype", "epoch", "history", "failure")
        tensors, header = self.read_tensors(f"chains/{name}/state.safetensors", needed)
        return tensors, {"restarts": 0, **header}  # the first files did not count them

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

    def ensemble(self, method: str = "uraenas") -> Ensemble:
        """The members of a method, ready to predict."""
        self.require()
        folder = self.members_folder(method)
        if not self.is_trained(method):
            if self.trained and method not in self.read_json("config.json").get("methods", ()):
                raise unknown("trained method", method, self.trained)
            raise UraenasError(f"{self.path} holds no trained {method}; run: uraenas train {self.path}")
        return Ensemble.load(folder)

    def threshold(self, risk: float, method: str = "uraenas") -> Threshold:
        """The confidence below which to abstain, for this share of errors among the rest."""
        held_out, _ = self.read_tensors(f"methods/{method}/held-out.safetensors", ("confidence", "right"))
        return threshold_for(held_out["confidence"], held_out["right"], risk)

    def predict(
        self, paths: Iterable[Path | str], risk: float = 0.05, method: str = "uraenas"
    ) -> list[Prediction | Unreadable]:
        """What a method says of these files, and of all files in these folders that end as images do."""
        ensemble, threshold = self.ensemble(method), self.threshold(risk, method)
        files, _ = find_files([Path(path) for path in paths])
        return list(predict_files(ensemble, files, threshold.confidence))


def pretrained_names() -> list[str]:
    """The runs that come with the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob("*/config.json"))


def _table_row(kind: str, *cells: str) -> str:
    return element("tr", *(element(kind, cell) for cell in cells))
