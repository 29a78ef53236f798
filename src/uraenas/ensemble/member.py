"""A member: one network of an ensemble, and the file it is kept in."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.base.files import read_tensors, write_tensors
from uraenas.base.parts import row_of, values_of
from uraenas.spaces import Architecture, Forward, Layout, Space, facts_of, space_of
from uraenas.weights import WEIGHTS, WeightMethod


@dataclass(frozen=True)
class Kind:
    """How the weights came about: a row of WEIGHTS, and its settings."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, method: WeightMethod) -> "Kind":
        return cls(name, values_of(method, row_of(WEIGHTS, "kind of weights", name).settings))

    @property
    def forward(self) -> Forward | None:
        """What is wrapped around the network when it predicts."""
        return row_of(WEIGHTS, "kind of weights", self.name).make(self.settings).forward


@dataclass(frozen=True)
class Origin:
    """Where a member came from."""

    chain: str  # source of architectures, kind of weights, and number: "sampled-point-03"
    epoch: int
    cycle: int
    step: int
    samples: int = 1  # how many the weights are the mean of; epoch and step are the newest one's

    @property
    def key(self) -> int:
        """What is random about its predictions, if anything, is drawn from this."""
        return draws.key(0, "prediction", self.chain, self.epoch)


@dataclass(frozen=True, eq=False)
class Member:
    """One network: architecture, weights with the statistics that belong to them, and where they came from."""

    architecture: Architecture
    weights: Tensor
    statistics: Tensor
    origin: Origin
    kind: Kind = Kind("point")

    @cached_property
    def identity(self) -> str:
        """The same for equal members alone: one in half precision is not the one it was made from."""
        facts = f"{self.architecture}|{self.origin}|{self.kind}"
        digest = hashlib.blake2b(facts.encode(), digest_size=16)
        for tensor in (self.weights, self.statistics):
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()

    def tensors(self, space: Space) -> dict[str, Tensor]:
        """Weights and statistics by name."""
        return {
            **space.weight_layout(self.architecture).views(self.weights),
            **space.statistics_layout(self.architecture).views(self.statistics),
        }

    @classmethod
    def from_tensors(cls, facts: "MemberFacts", tensors: dict[str, Tensor]) -> "Member":
        space, architecture = facts.space, facts.architecture
        weights = _flatten(space.weight_layout(architecture), tensors)
        statistics = _flatten(space.statistics_layout(architecture), tensors)
        return cls(architecture, weights, statistics, facts.origin, facts.kind)

    def save(self, path: Path, space: Space, half: bool = False) -> None:
        """Write one safetensors file; `half` stores weights, not statistics, in half precision."""
        tensors = self.tensors(space)
        if half:
            names = {entry.name for entry in space.weight_layout(self.architecture).entries}
            tensors = {name: t.half() if name in names else t for name, t in tensors.items()}
        header = {
            "architecture": str(self.architecture),
            **{name: str(value) for name, value in asdict(self.origin).items()},
            "kind": json.dumps(asdict(self.kind)),
            "space": json.dumps(facts_of(space)),
        }
        write_tensors(path, tensors, header)

    @classmethod
    def load(cls, path: Path) -> "Member":
        tensors, header = read_tensors(path)
        return cls.from_tensors(MemberFacts.of(path, header), tensors)


@dataclass(frozen=True)
class MemberFacts:
    """What a member's file says of it, apart from its weights."""

    space: Space
    architecture: Architecture
    origin: Origin
    kind: Kind

    @classmethod
    def read(cls, path: Path) -> "MemberFacts":
        return cls.of(path, read_tensors(path)[1])

    @classmethod
    def of(cls, path: Path, header: Mapping[str, str]) -> "MemberFacts":
        try:
            space = space_of(json.loads(header["space"]))
            numbers = (int(header[name]) for name in ("epoch", "cycle", "step", "samples"))
            kind = json.loads(header["kind"])
            row_of(WEIGHTS, "kind of weights", str(kind["name"])).make(kind["settings"])  # its checks
            return cls(
                space,
                space.parse(header["architecture"]),
                Origin(header["chain"], *numbers),
                Kind(str(kind["name"]), dict(kind["settings"])),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise UraenasError(f"{path} is not a member file: {error}") from error

    @cached_property
    def function(self) -> str:
        """What its architecture computes: equal for members that differ in dead edges alone."""
        return self.space.canonical(self.architecture)


def _flatten(layout: Layout, tensors: dict[str, Tensor]) -> Tensor:
    parts = []
    for entry in layout.entries:
        tensor = tensors.get(entry.name)
        if tensor is None or tuple(tensor.shape) != entry.shape:
            raise UraenasError(f"the member's file lacks {entry.name} of shape {entry.shape}")
        parts.append(tensor.float().reshape(-1) if tensor.dtype == torch.float16 else tensor.reshape(-1))
    return torch.cat(parts) if parts else torch.zeros(0)


def member_files(folder: Path, count: int) -> list[Path]:
    """Where so many members of an ensemble lie."""
    return [folder / f"{m:03d}.safetensors" for m in range(count)]
