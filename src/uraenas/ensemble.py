"""Members and the ensemble they form: predict, split uncertainty, save, load."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas import calibration
from uraenas.data.arrays import as_images
from uraenas.data.loader import Normalisation
from uraenas.engine import Engine, EngineSettings, naming_want_of_memory
from uraenas.errors import UraenasError
from uraenas.files import checksum_of, digest_of, read_json, read_tensors, write_json, write_tensors
from uraenas.metrics import UncertaintyBySource, mixture, uncertainty_by_source
from uraenas.networks import Layout, Stack, statistics_layout, weight_layout
from uraenas.spaces import Genotype, Skeleton
from uraenas.spaces.drawing import gallery, standalone
from uraenas.svg import element


@dataclass(frozen=True)
class Origin:
    """Where a member came from."""

    chain: str  # architecture source, kind of weights, and number: "sampled-point-03"
    epoch: int
    cycle: int
    step: int
    temperature: float
    samples: int = 1  # how many the weights are the mean of; epoch and step are the newest one's


@dataclass(frozen=True, eq=False)
class Member:
    """One network of an ensemble: genotype, weights with the statistics that belong to them, and origin."""

    genotype: Genotype
    weights: Tensor
    statistics: Tensor
    origin: Origin

    @cached_property
    def identity(self) -> str:
        """The same for equal members alone: one in half precision is not the one it was made from."""
        digest = hashlib.blake2b(f"{self.genotype}|{self.origin}".encode(), digest_size=16)
        for tensor in (self.weights, self.statistics):
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()

    def tensors(self, skeleton: Skeleton) -> dict[str, Tensor]:
        """Weights and statistics by name."""
        return {
            **weight_layout(self.genotype, skeleton).views(self.weights),
            **statistics_layout(self.genotype, skeleton).views(self.statistics),
        }

    @classmethod
    def from_tensors(
        cls, genotype: Genotype, skeleton: Skeleton, tensors: dict[str, Tensor], origin: Origin
    ) -> "Member":
        weights = _flatten(weight_layout(genotype, skeleton), tensors)
        return cls(genotype, weights, _flatten(statistics_layout(genotype, skeleton), tensors), origin)

    def save(self, path: Path, skeleton: Skeleton, half: bool = False) -> None:
        """Write one safetensors file; `half` stores weights, not statistics, in half precision."""
        tensors = self.tensors(skeleton)
        if half:
            names = {entry.name for entry in weight_layout(self.genotype, skeleton).entries}
            tensors = {name: t.half() if name in names else t for name, t in tensors.items()}
        header = {"genotype": str(self.genotype), **{k: str(v) for k, v in asdict(self.origin).items()}}
        write_tensors(path, tensors, {**header, "skeleton": json.dumps(asdict(skeleton))})

    @classmethod
    def load(cls, path: Path) -> "Member":
        tensors, header = read_tensors(path)
        try:
            genotype = Genotype.from_string(header["genotype"])
            skeleton = Skeleton(**json.loads(header["skeleton"]))
            origin = Origin(
                header["chain"],
                int(header["epoch"]),
                int(header["cycle"]),
                int(header["step"]),
                float(header["temperature"]),
                int(header.get("samples", 1)),  # files of earlier versions do not say
            )
        except (KeyError, ValueError, TypeError) as error:
            raise UraenasError(f"{path} is not a member file: {error}") from error
        return cls.from_tensors(genotype, skeleton, tensors, origin)


def _flatten(layout: Layout, tensors: dict[str, Tensor]) -> Tensor:
    parts = []
    for entry in layout.entries:
        tensor = tensors.get(entry.name)
        if tensor is None or tuple(tensor.shape) != entry.shape:
            raise UraenasError(f"the member's file lacks {entry.name} of shape {entry.shape}")
        parts.append(tensor.float().reshape(-1) if tensor.dtype == torch.float16 else tensor.reshape(-1))
    return torch.cat(parts)


def member_files(folder: Path, count: int) -> list[Path]:
    """Where so many members of an ensemble lie."""
    return [folder / f"{m:03d}.safetensors" for m in range(count)]


class MembersPredictor:
    """Members made ready to predict: stacked, on the device, in stacks that fit into memory."""

    def __init__(
        self, members: Sequence[Member], skeleton: Skeleton, normalisation: Normalisation, engine: Engine
    ) -> None:
        self.members, self.skeleton, self.engine = members, skeleton, engine
        self.normalise = normalisation.on(engine.device, engine.dtype)
        self.size = engine.stack
        self.stacks: list[tuple[Callable[[Tensor], Tensor], int]] = []  # made by the first prediction

    @torch.no_grad()
    def __call__(self, images: np.ndarray) -> Tensor:
        """Log-probabilities [M, N, K] of raw images [N, H, W, C], on the CPU."""
        expected = (self.skeleton.height, self.skeleton.width, self.skeleton.image_channels)
        if images.ndim != 4 or images.shape[1:] != expected:
            raise UraenasError(f"these members take images N×H×W×C with {expected}, not {images.shape}")
        while True:
            try:
                with naming_want_of_memory():
                    return self._predict(images)
            except torch.OutOfMemoryError as error:
                self.size = self.engine.smaller_stack(min(self.size, len(self.members)), error)
                self.stacks = []
            self.engine.release_memory()

    def _predict(self, images: np.ndarray) -> Tensor:
        if not self.stacks:
            groups = range(0, len(self.members), self.size)
            self.stacks = [self._stacked(self.members[first : first + self.size]) for first in groups]
        parts = []
        for predict, batch in self.stacks:
            batches = []
            for start in range(0, len(images), batch):
                raw = torch.from_numpy(np.array(images[start : start + batch]))  # mapped files are read-only
                logits = predict(self.normalise(raw.to(self.engine.device)))
                batches.append(torch.log_softmax(logits.to(self.engine.dtype), dim=-1))
            parts.append(torch.cat(batches, dim=1).cpu())
        return torch.cat(parts)

    def _stacked(self, group: Sequence[Member]) -> tuple[Callable[[Tensor], Tensor], int]:
        stack = Stack([m.genotype for m in group], self.skeleton).to(self.engine.device, self.engine.dtype)
        for place, member in enumerate(group):
            stack.put(place, member.weights, member.statistics)
        return self.engine.predictor(stack.eval())


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members whose probabilities are averaged.

    Images are N×H×W×C or N×C×H×W arrays (N×H×W where they are grey) of bytes, or of floats from 0 to 1.
    """

    members: tuple[Member, ...]
    skeleton: Skeleton
    normalisation: Normalisation
    classes: tuple[str, ...]
    temperature: float = 1.0  # fitted on held-out data; 1 leaves predictions as they are
    of_bytes: bool = True  # trained on uint8 images; the others lie in 0 … 1

    def __post_init__(self) -> None:
        if not self.members:
            raise UraenasError("an ensemble needs at least one member")

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def identity(self) -> str:
        """The same for ensembles alone that predict the same, and are as sure of it."""
        return digest_of(self.temperature, *(member.identity for member in self.members))

    def __repr__(self) -> str:
        distinct = len({member.genotype for member in self.members})
        return (
            f"Ensemble({len(self)} members, {distinct} distinct genotypes, {len(self.classes)} classes, "
            f"temperature {self.temperature:.3g})"
        )

    def _repr_html_(self) -> str:
        """The members' cells as drawings, for notebooks."""
        members = Counter(member.genotype for member in self.members)
        cells = [(genotype, f"{number} of {len(self)} members", "") for genotype, number in members.items()]
        drawing, height = gallery(cells, top=0, width=360)
        size = self.skeleton
        takes = f"takes images of {size.height} × {size.width} × {size.image_channels}"
        return element("p", f"{self!r}, {takes}") + standalone(drawing, 360, height, "Cells of the members")

    def member_log_probabilities(self, images: Any, device: str = "auto") -> Tensor:
        """Log-probabilities [M, N, K] of every member."""
        engine = Engine(EngineSettings(device=device, precision="float32"))
        predictor = MembersPredictor(self.members, self.skeleton, self.normalisation, engine)
        return predictor(self._in_units_of_training(images))

    def predict_proba(self, images: Any, calibrated: bool = True, device: str = "auto") -> np.ndarray:
        """Class probabilities [N, K]: the members' mean, temperature-scaled unless told otherwise."""
        log_p = mixture(self.member_log_probabilities(images, device))
        return (calibration.scale(log_p, self.temperature) if calibrated else log_p).exp().numpy()

    def predict(self, images: Any, device: str = "auto") -> np.ndarray:
        """The name of the most probable class of each image."""
        return np.array(self.classes)[self.predict_proba(images, device=device).argmax(axis=1)]

    def _in_units_of_training(self, images: Any) -> np.ndarray:
        """Images [N, H, W, C] with values as in training, whether they came as bytes or as floats from 0 to 1."""
        size = self.skeleton
        expected = (size.height, size.width, size.image_channels)
        try:
            array = np.asarray(images)
        except ValueError as error:
            raise UraenasError(
                "images of different sizes are not allowed; resize them to one size"
            ) from error
        by_shape = {expected: "last", (expected[2], *expected[:2]): "first"}
        found = as_images(array, channels=by_shape.get(array.shape[1:], "auto"))
        if found.shape[1:] != expected:
            form = "×".join(map(str, expected))
            raise UraenasError(f"this ensemble takes images of {form} (H×W×C), not an array of {array.shape}")
        if self.of_bytes == (found.dtype == np.uint8):
            return found
        return found.astype(np.float32) * np.float32(255 if self.of_bytes else 1 / 255)

    def uncertainty(self, images: Any, device: str = "auto") -> UncertaintyBySource:
        """Per image, in nats: total entropy and its parts due to data, weights and architecture."""
        log_p = self.member_log_probabilities(images, device)
        return uncertainty_by_source(log_p, [member.genotype for member in self.members])

    def save(self, path: Path | str, half: bool = False) -> None:
        """Write a folder: ensemble.json and one safetensors file per member."""
        folder = Path(path)
        for path, member in zip(member_files(folder, len(self)), self.members, strict=True):
            member.save(path, self.skeleton, half)
        self.describe(folder)

    def describe(self, folder: Path) -> None:
        """Write ensemble.json: all that the members' files do not say. It is written last and vouches for them."""
        write_json(
            folder / "ensemble.json",
            {
                "members": [checksum_of(path) for path in member_files(folder, len(self))],
                "skeleton": asdict(self.skeleton),
                "mean": self.normalisation.mean,
                "deviation": self.normalisation.deviation,
                "classes": self.classes,
                "temperature": self.temperature,
                "of_bytes": self.of_bytes,
            },
        )

    @classmethod
    def load(cls, path: Path | str) -> "Ensemble":
        """Read what `save` wrote."""
        folder = Path(path)
        facts = read_json(folder / "ensemble.json")
        try:
            normalisation = Normalisation(tuple(facts["mean"]), tuple(facts["deviation"]))
            files = member_files(folder, len(facts["members"]))
            members = tuple(Member.load(path) for path in files)
            for path, checksum in zip(files, facts["members"], strict=True):
                if checksum_of(path) != checksum:
                    raise ValueError(f"{path.name} is not the member it was made with")
            skeleton = Skeleton(**facts["skeleton"])
            if any(len(m.weights) != weight_layout(m.genotype, skeleton).size for m in members):
                raise ValueError("its skeleton is not that of its members")
            temperature = float(facts["temperature"])
            if not 0 < temperature < float("inf"):
                raise ValueError(f"temperature = {temperature}")
            return cls(
                members,
                skeleton,
                normalisation,
                tuple(facts["classes"]),
                temperature,
                bool(facts["of_bytes"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UraenasError(
                f"{folder / 'ensemble.json'} does not describe an ensemble: {error}"
            ) from error


class SharedPredictor:
    """Predicts with several ensembles at once; a member that two of them share is run once."""

    def __init__(self, ensembles: Mapping[str, Ensemble], engine: Engine) -> None:
        self.ensembles, self.engine = ensembles, engine
        self.distinct: dict[str, Member] = {}
        self.names = {name: [m.identity for m in ensemble.members] for name, ensemble in ensembles.items()}
        for name, ensemble in ensembles.items():
            self.distinct |= dict(zip(self.names[name], ensemble.members, strict=True))
        self.predictor: MembersPredictor | None = None

    def __call__(self, images: np.ndarray) -> dict[str, Tensor]:
        """Log-probabilities [M, N, K] by ensemble; the first call puts the members on the device."""
        if self.predictor is None:
            first = next(iter(self.ensembles.values()))
            self.predictor = MembersPredictor(
                list(self.distinct.values()), first.skeleton, first.normalisation, self.engine
            )
        log_p = self.predictor(images)
        place = {name: position for position, name in enumerate(self.distinct)}
        return {name: log_p[[place[one] for one in members]] for name, members in self.names.items()}
