"""Where each tensor of a network lies in one flat vector.

All weights of a network are one vector, and all batch-norm statistics another: an update rule is a line or two, noise
is drawn for everything at once, and members move in and out of a stack by slicing.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError

Tensors = dict[str, Tensor]

MOMENTUM = 0.1  # of running statistics, in every space: a batch moves them by this part of the way


@dataclass(frozen=True)
class Entry:
    """One tensor: its name, its shape, and the constant that it starts with, or the normal deviation from it."""

    name: str
    shape: tuple[int, ...]
    deviation: float = 0.0
    constant: float = 0.0
    # images: the layer reads them, its second axis is their channels; logits: its first is classes
    role: str = ""
    prior: bool = True  # whether it has the Gaussian prior of weights, which is weight decay

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """The entries of one flat vector, in order."""

    entries: tuple[Entry, ...]

    @property
    def sizes(self) -> list[int]:
        return [entry.size for entry in self.entries]

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def layers(self) -> dict[str, Entry]:
        """The weights of layers, by the layer's name: what is multiplied with values, neither norm nor bias."""
        return {
            entry.name.removesuffix(".weight"): entry
            for entry in self.entries
            if entry.deviation and len(entry.shape) > 1
        }

    @property
    def last(self) -> Entry:
        """The weights of the layer that gives the logits."""
        return self._layer("logits")

    @property
    def last_bias(self) -> Entry | None:
        """Its bias, if it has one."""
        found = [entry for entry in self.entries if entry.role == "logits" and len(entry.shape) == 1]
        return found[0] if found else None

    @property
    def first(self) -> Entry:
        """The weights of the layer that reads the images."""
        return self._layer("images")

    def ends(self, layer: str) -> list[str]:
        """What the output of a layer is proportional to: its norm's scale and shift, or its weight and bias."""
        for ends in ((f"{layer}.norm.scale", f"{layer}.norm.shift"), (f"{layer}.weight", f"{layer}.bias")):
            if found := [entry.name for entry in self.entries if entry.name in ends]:
                return found
        raise KeyError(layer)

    def _layer(self, role: str) -> Entry:
        for entry in self.entries:
            if entry.role == role and len(entry.shape) > 1:
                return entry
        does = {"images": "reads the input", "logits": "gives the output"}[role]
        raise UraenasError(f"these networks have no layer that alone {does}, which some method here needs")

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The vector's pieces by name. One split: its gradient is one concatenation."""
        pieces = flat.split(self.sizes)
        return {
            entry.name: piece.view(entry.shape) for entry, piece in zip(self.entries, pieces, strict=True)
        }

    def initial(self, key: int | None = None) -> Tensor:
        """A fresh vector, drawn from this key (none is needed where nothing is random)."""
        parts = []
        for position, entry in enumerate(self.entries):
            if entry.deviation:
                assert key is not None
                drawn = draws.normal(draws.at(key, position), entry.size) * entry.deviation
                parts.append(drawn + entry.constant if entry.constant else drawn)
            else:
                parts.append(torch.full((entry.size,), entry.constant))
        return torch.cat(parts) if parts else torch.zeros(0)


def carried_over(old: Layout, flat: Tensor, new: Layout, fresh: Tensor) -> tuple[Tensor, list[str]]:
    """The fresh vector, with what an older one holds under the same names; and the names whose shapes do not fit.

    A convolution that took colours takes grey images with the sum of its three weights.
    """
    theirs, ours, unlike = old.views(flat), new.views(fresh.clone()), []
    for name, own in ours.items():
        found = theirs.get(name)
        if found is not None and found.ndim == 4 and own.shape[1] == 1 < found.shape[1]:
            found = found.sum(dim=1, keepdim=True)
        if found is None or found.shape != own.shape:
            unlike.append(name)
        else:
            own.copy_(found)
    return torch.cat([own.flatten() for own in ours.values()]) if ours else fresh, unlike


def aligned(pieces: dict[str, Tensor]) -> dict[str, Tensor]:
    """These tensors, copied where they do not begin on a 16-byte boundary of a GPU's memory.

    cuDNN takes that for granted, and ends with "misaligned address" on slices that lie elsewhere.
    """
    return {
        name: piece.clone() if piece.is_cuda and piece.data_ptr() % 16 else piece
        for name, piece in pieces.items()
    }


def convolution(name: str, out_channels: int, in_channels: int, kernel: int, role: str = "") -> Entry:
    """A convolution's weight, with the spread that PyTorch starts convolutions with.

    A norm follows, so the scale of a weight does not change what is computed, but how far a step of a given size turns
    it: six times slower with He's initialisation, too slow for the supernet's convolutions to show what they are worth.
    """
    deviation = 1 / math.sqrt(3 * kernel**2 * in_channels)
    return Entry(f"{name}.weight", (out_channels, in_channels, kernel, kernel), deviation, role=role)


def norm(name: str, channels: int) -> list[Entry]:
    """Batch norm's scale and shift."""
    return [Entry(f"{name}.scale", (channels,), constant=1.0), Entry(f"{name}.shift", (channels,))]


def statistics(name: str, channels: int) -> list[Entry]:
    """Batch norm's running mean and variance."""
    return [Entry(f"{name}.mean", (channels,)), Entry(f"{name}.variance", (channels,), constant=1.0)]
