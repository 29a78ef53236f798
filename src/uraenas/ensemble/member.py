"""A member: one network of an ensemble, and the file it is kept in."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import DamagedFile
from uraenas.base.fields import Fields
from uraenas.base.files import parse_json, read_header, read_tensors, write_tensors
from uraenas.base.parts import row_of, stored_row, values_of
from uraenas.spaces import Architecture, Forward, Layout, Space, facts_of, space_of
from uraenas.weights import WEIGHTS, WeightMethod

T = TypeVar("T")
MOST_KNOWN = 100  # texts of a header that are kept
_READ: dict[Callable[[Path, str], Any], dict[str, Any]] = {}  # by how it is read: text → what it says
PRECISIONS = (torch.float32, torch.float16)  # in which weights are stored


@dataclass(frozen=True)
class Kind:
    """How the weights came about: a row of WEIGHTS, and its settings."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, method: WeightMethod) -> "Kind":
        return cls(name, values_of(method, row_of(WEIGHTS, "kind of weights", name).settings))

    @cached_property
    def method(self) -> WeightMethod:
        return row_of(WEIGHTS, "kind of weights", self.name).make(self.settings)

    @property
    def forward(self) -> Forward | None:
        """What is wrapped around the network when it predicts; nothing where draws are plain networks."""
        return None if self.method.changes.as_plain else self.method.forward

    @property
    def in_one_pass(self) -> bool:
        """Whether one pass serves all draws of a network."""
        return self.method.changes.in_one_pass

    @property
    def heads(self) -> tuple[str, ...]:
        """Where one pass makes several predictions, the architecture that each stands for."""
        return self.method.changes.heads

    def function(self, canonical: str, draw: int) -> str:
        """What a draw computes, given what its architecture does; a head stands for another's."""
        return f"{canonical}, head of {self.heads[draw % len(self.heads)]}" if self.heads else canonical

    def layout(self, plain: Layout) -> Layout:
        """Where its weights lie, with those that this kind has beside the network's."""
        changes = self.method.changes
        return changes.fitted(changes.layout(plain))


@dataclass(frozen=True)
class Origin:
    """Where a member came from."""

    chain: str  # source of architectures, kind of weights, and number: "sampled-point-03"
    epoch: int
    cycle: int
    step: int
    samples: int = 1  # how many the weights are the mean of; epoch and step are the newest one's
    # the run whose chain it was; the repr is part of a member's identity
    run: str = field(default="", repr=False)

    @property
    def key(self) -> int:
        """What is random about its predictions, if anything, is drawn from this."""
        return draws.key(0, "prediction", self.chain, self.epoch)


@dataclass(frozen=True, eq=False)
class Member:
    """One network, or one draw of it: architecture, weights with their statistics, and where they came from.

    Where its kind of weights is drawn anew in each pass (masks, noise), members that differ in `draw` alone are so many
    passes of one network. Each is a function of its own: nothing is drawn when it predicts.
    """

    architecture: Architecture
    weights: Tensor
    statistics: Tensor
    origin: Origin
    kind: Kind = Kind("point")
    draw: int = 0  # the number of the pass

    @cached_property
    def identity(self) -> str:
        """The same for equal members alone: one in half precision is not the one it was made from."""
        return f"{self.network}-{self.draw}" if self.draw else self.network

    @cached_property
    def network(self) -> str:
        """The same for draws of one network."""
        facts = f"{self.architecture}|{self.origin}|{self.kind}"
        digest = hashlib.blake2b(facts.encode(), digest_size=16)
        for tensor in (self.weights, self.statistics):
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()

    @property
    def is_finite(self) -> bool:
        """Whether all its numbers are; a sum tells in a fraction of the time, unless it overflows."""
        both = (self.weights, self.statistics)
        return all(math.isfinite(one.sum()) or bool(torch.isfinite(one).all()) for one in both)

    def tensors(self, space: Space) -> dict[str, Tensor]:
        """Weights and statistics by name."""
        return {
            **self.kind.layout(space.weight_layout(self.architecture)).views(self.weights),
            **space.statistics_layout(self.architecture).views(self.statistics),
        }

    @classmethod
    def from_tensors(cls, facts: "MemberFacts", tensors: dict[str, Tensor], path: Path) -> "Member":
        space, architecture = facts.space, facts.architecture
        own = facts.kind.layout(space.weight_layout(architecture))
        layouts = own, space.statistics_layout(architecture)
        if sum(len(layout.entries) for layout in layouts) != len(tensors):
            raise DamagedFile(f"{path} holds other tensors than its architecture has")
        weights, statistics = (_flatten(layout, tensors, path) for layout in layouts)
        return cls(architecture, weights, statistics, facts.origin, facts.kind, facts.draw)

    def save(self, path: Path, space: Space, half: bool = False) -> None:
        """Write one safetensors file; `half` stores weights, not statistics, in half precision."""
        tensors = self.tensors(space)
        if half:
            layout = self.kind.layout(space.weight_layout(self.architecture))
            names = {entry.name for entry in layout.entries}
            tensors = {name: _halved(t) if name in names else t for name, t in tensors.items()}
        header = {
            "architecture": str(self.architecture),
            **{name: str(value) for name, value in asdict(self.origin).items()},
            "kind": json.dumps(asdict(self.kind)),
            "space": json.dumps(facts_of(space)),
        }
        write_tensors(path, tensors, header)

    @classmethod
    def load(cls, path: Path, whole: str = "") -> "Member":
        """Read what `save` wrote; `whole` is the checksum of the file, where another vouches for it."""
        tensors, header = read_tensors(path, whole)
        return cls.from_tensors(MemberFacts.of(path, header), tensors, path)


@dataclass(frozen=True)
class MemberFacts:
    """What a member's file says of it, apart from its weights."""

    space: Space
    architecture: Architecture
    origin: Origin
    kind: Kind
    draw: int = 0  # not in its file: ensemble.json says which draws of a network are members
    place: int = 0  # of its file among those of the ensemble

    @classmethod
    def read(cls, path: Path, whole: str = "") -> "MemberFacts":
        return cls.of(path, read_header(path, whole))

    @classmethod
    def of(cls, path: Path, header: Mapping[str, str]) -> "MemberFacts":
        facts = Fields(path, header)
        space = _once(_space, path, facts.text("space"))
        kind = _once(_kind, path, facts.text("kind"))
        numbers = {name: _whole(facts, name) for name in ("epoch", "cycle", "step", "samples")}
        run = facts.text("run") if facts.has("run") else ""
        return cls(
            space,
            space.parse(facts.text("architecture")),
            Origin(facts.text("chain"), **numbers, run=run),
            kind,
        )

    @cached_property
    def parameters(self) -> int:
        """How many weights it has, with those of its kind."""
        return self.kind.layout(self.space.weight_layout(self.architecture)).size

    @cached_property
    def multiply_adds(self) -> int:
        """Of one prediction."""
        return self.space.cost(self.architecture).multiply_adds

    @cached_property
    def function(self) -> str:
        """What its architecture computes: equal for members that differ in dead edges alone."""
        return self.kind.function(self.space.canonical(self.architecture), self.draw)


def _once(read: Callable[[Path, str], T], path: Path, text: str) -> T:
    """What a header's text says; members of an ensemble say the same, so it is read once."""
    known = _READ.setdefault(read, {})
    if text not in known:
        if len(known) > MOST_KNOWN:
            known.clear()
        known[text] = read(path, text)
    return known[text]


def _space(path: Path, text: str) -> Space:
    return space_of(parse_json(path, text), path)


def _kind(path: Path, text: str) -> Kind:
    kind = Fields(path, parse_json(path, text))
    row = stored_row(WEIGHTS, "kind of weights", kind)
    settings = row.restored(kind.table("settings"))
    kind.table("settings").only(*settings)
    row.make(settings)  # its checks
    return Kind(kind.text("name"), settings)


def _flatten(layout: Layout, tensors: dict[str, Tensor], path: Path) -> Tensor:
    parts = []
    for entry in layout.entries:
        tensor = tensors.get(entry.name)
        if tensor is None or tuple(tensor.shape) != entry.shape or tensor.dtype not in PRECISIONS:
            raise DamagedFile(f"{path} lacks {entry.name} of shape {entry.shape}")
        parts.append(tensor.reshape(-1).float())
    return torch.cat(parts) if parts else torch.zeros(0)


def _halved(tensor: Tensor) -> Tensor:
    """In half precision, unless that cannot hold a value."""
    half = tensor.half()
    return half if torch.isfinite(half).all() else tensor


def _whole(facts: Fields, name: str) -> int:
    text = facts.text(name, 20)
    if not (text.isascii() and text.isdecimal()):
        raise facts.error(f"{name} is {text!r}, not a whole number")
    return int(text)


def member_files(folder: Path, count: int) -> list[Path]:
    """Where so many members of an ensemble lie."""
    return [folder / f"{m:03d}.safetensors" for m in range(count)]
